//! Pictures, by their short links.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use longhaul::store::StoreError;
use longhaul::{Engine, JobHandle, Status, SubmitError};
use longhaul_kinds::render::RenderKind;

use super::response::key;
use crate::api::AppState;
use crate::api::http::caller::Caller;
use crate::api::http::params::Pairs;
use crate::api::jobs::serve_artifact;
use crate::problem::{Code, Problem};

/// A picture has styles, and may have fonts and images inside of it. It has no script; should one get in, it is not
/// run, and runs as nobody.
const PICTURE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; font-src data:; img-src data:; sandbox",
);
/// What is behind a link never changes. It may be deleted, and then a browser forgets it within a day.
const FOR_ITS_TENANT: HeaderValue = HeaderValue::from_static("private, max-age=86400, immutable");
const FOR_EVERYBODY: HeaderValue = HeaderValue::from_static("public, max-age=86400, immutable");

type LinkPath = Result<Path<String>, PathRejection>;

/// `GET /d/{shortlink}` for the tenant whose it is.
pub(crate) async fn for_its_tenant(
    State(state): State<AppState>,
    caller: Caller,
    path: LinkPath,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    state.render()?;
    let shortlink = path.map(|Path(link)| link).map_err(|_| unknown())?;
    let found = drawn(&caller.engine, &shortlink).await?.ok_or_else(unknown)?;
    show(&caller.engine, &found, &query, &headers, FOR_ITS_TENANT).await
}

/// `GET /d/{shortlink}` for whoever has the link.
pub(crate) async fn for_everybody(
    State(state): State<AppState>,
    path: LinkPath,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let door = state.render()?;
    let shortlink = path.map(|Path(link)| link).map_err(|_| unknown())?;
    for tenant in door.links.tenants(&shortlink) {
        let engine = state.engine.for_tenant(tenant);
        if let Some(found) = drawn(&engine, &shortlink).await? {
            return show(&engine, &found, &query, &headers, FOR_EVERYBODY).await;
        }
    }
    Err(unknown())
}

/// The job whose picture it is, once that is drawn.
async fn drawn(engine: &Engine, shortlink: &str) -> Result<Option<JobHandle>, Problem> {
    let known = engine.find_by_key(&key(shortlink), Some(RenderKind::NAME), None, None).await;
    match known {
        Ok(found) => Ok(found.filter(|found| found.submitted().job.status == Status::Completed)),
        // A job of another kind that somebody gave such a key.
        Err(SubmitError::Store(StoreError::KeyReused { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn show(
    engine: &Engine,
    found: &JobHandle,
    query: &Pairs,
    headers: &HeaderMap,
    kept: HeaderValue,
) -> Result<Response, Problem> {
    let name = found.submitted().job.artifacts.first().map(|artifact| artifact.name.clone());
    let name = name.ok_or_else(unknown)?;
    let mut response = serve_artifact(engine, found.id(), &name, headers).await?;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, kept);
    headers.insert(CONTENT_SECURITY_POLICY, PICTURE_POLICY);
    let download = query.0.iter().any(|(name, _)| name == "download");
    if let Some(attached) = headers.remove(CONTENT_DISPOSITION).filter(|_| download) {
        headers.insert(CONTENT_DISPOSITION, attached);
    }
    Ok(response)
}

fn unknown() -> Problem {
    Problem::new(Code::NotFound, "there is no picture under this link")
}
