//! What a job's page lets people take away. The API's own addresses know nothing of sessions.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use longhaul::JobId;
use longhaul::job::Json;
use longhaul::store::StoreError;

use crate::api::http::caller::Read;
use crate::api::http::params::JobPath;
use crate::api::http::respond;
use crate::api::jobs::artifacts;
use crate::dashboard::view::View;
use crate::problem::{Code, Problem};
use crate::security_headers::SANDBOX;

pub(in crate::dashboard) async fn input(
    view: View<Read>,
    JobPath(id): JobPath,
) -> Result<Response, Problem> {
    Ok(file(&view.caller.engine.input(id).await?))
}

pub(in crate::dashboard) async fn result(
    view: View<Read>,
    JobPath(id): JobPath,
) -> Result<Response, Problem> {
    match view.caller.engine.job(id).await?.result {
        Some(result) => Ok(file(&result)),
        None => Err(Problem::new(Code::WrongStatus, "the job has no result")),
    }
}

pub(in crate::dashboard) async fn artifact(
    view: View<Read>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = path.ok().and_then(|Path((id, name))| Some((id.parse::<JobId>().ok()?, name)));
    let (id, name) = path.ok_or(Problem::from(StoreError::NotFound))?;
    artifacts::serve_artifact(&view.caller.engine, id, &name, &headers).await
}

/// A JSON text that is saved, never opened as a page.
fn file(json: &Json) -> Response {
    let mut response = respond::raw_json(json);
    let headers = response.headers_mut();
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    response
}
