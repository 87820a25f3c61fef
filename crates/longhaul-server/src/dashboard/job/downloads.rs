//! Downloads of a job's page. They exist beside the API's routes because those ignore sessions.

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use longhaul::job::Json;

use crate::api::http::caller::Read;
use crate::api::http::params::{ArtifactPath, JobPath};
use crate::api::http::respond;
use crate::api::jobs::artifacts;
use crate::dashboard::page_context::PageContext;
use crate::problem::{Code, Problem, Result};
use crate::security_headers::SANDBOX;

pub(in crate::dashboard) async fn input(
    ctx: PageContext<Read>,
    JobPath(id): JobPath,
) -> Result<Response> {
    Ok(file(&ctx.caller.engine.input(id).await?))
}

pub(in crate::dashboard) async fn result(
    ctx: PageContext<Read>,
    JobPath(id): JobPath,
) -> Result<Response> {
    match ctx.caller.engine.job(id).await?.result {
        Some(result) => Ok(file(&result)),
        None => Err(Problem::new(Code::WrongStatus, "the job has no result")),
    }
}

pub(in crate::dashboard) async fn artifact(
    ctx: PageContext<Read>,
    ArtifactPath(id, name): ArtifactPath,
    headers: HeaderMap,
) -> Result<Response> {
    artifacts::serve_artifact(&ctx.caller.engine, id, &name, &headers).await
}

/// Returns JSON as an attachment, so that a browser saves it and never renders it.
fn file(json: &Json) -> Response {
    let mut response = respond::raw_json(json);
    let headers = response.headers_mut();
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    response
}
