//! Images by short link.

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
use crate::problem::{Code, Problem, Result};
use crate::security_headers::{CROSS_ORIGIN, CROSS_ORIGIN_RESOURCE_POLICY};

/// Allows inline styles and embedded fonts and images. Sandboxed without scripts, as a second line of defence behind
/// the sanitizer.
const IMAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; font-src data:; img-src data:; sandbox",
);
/// An image never changes, but may be deleted: browsers then drop it within a day.
const PRIVATE_CACHE: HeaderValue = HeaderValue::from_static("private, max-age=86400, immutable");
const PUBLIC_CACHE: HeaderValue = HeaderValue::from_static("public, max-age=86400, immutable");

type LinkPath = Result<Path<String>, PathRejection>;

/// `GET /d/{shortlink}` for callers of the image's tenant.
pub(crate) async fn get(
    State(state): State<AppState>,
    caller: Caller,
    path: LinkPath,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response> {
    state.render()?;
    let shortlink = path.map(|Path(link)| link).map_err(|_| unknown())?;
    let job = find_completed(&caller.engine, &shortlink).await?.ok_or_else(unknown)?;
    respond(&caller.engine, &job, &query, &headers, PRIVATE_CACHE).await
}

/// `GET /d/{shortlink}` without authentication.
pub(crate) async fn get_public(
    State(state): State<AppState>,
    path: LinkPath,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response> {
    let render = state.render()?;
    let shortlink = path.map(|Path(link)| link).map_err(|_| unknown())?;
    for tenant in render.links.tenants(&shortlink) {
        let engine = state.engine.for_tenant(tenant);
        if let Some(job) = find_completed(&engine, &shortlink).await? {
            let mut response = respond(&engine, &job, &query, &headers, PUBLIC_CACHE).await?;
            // Public images are made to be embedded.
            response.headers_mut().insert(CROSS_ORIGIN_RESOURCE_POLICY, CROSS_ORIGIN);
            return Ok(response);
        }
    }
    Err(unknown())
}

/// Returns the completed job of a short link.
async fn find_completed(engine: &Engine, shortlink: &str) -> Result<Option<JobHandle>> {
    let known = engine.find_by_key(&key(shortlink), Some(RenderKind::NAME), None, None).await;
    match known {
        Ok(found) => Ok(found.filter(|found| found.submitted().job.status == Status::Completed)),
        // A job of another kind that was submitted with this key.
        Err(SubmitError::Store(StoreError::KeyReused { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn respond(
    engine: &Engine,
    job: &JobHandle,
    query: &Pairs,
    headers: &HeaderMap,
    cache_control: HeaderValue,
) -> Result<Response> {
    let name = job.submitted().job.artifacts.first().map(|artifact| artifact.name.clone());
    let name = name.ok_or_else(unknown)?;
    let mut response = serve_artifact(engine, job.id(), &name, headers).await?;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, cache_control);
    headers.insert(CONTENT_SECURITY_POLICY, IMAGE_POLICY);
    let download = query.0.iter().any(|(name, _)| name == "download");
    if let Some(attached) = headers.remove(CONTENT_DISPOSITION).filter(|_| download) {
        headers.insert(CONTENT_DISPOSITION, attached);
    }
    Ok(response)
}

fn unknown() -> Problem {
    Problem::new(Code::NotFound, "unknown short link")
}
