//! Compatibility APIs: routes in the wire formats of other systems.
//!
//! `/jobs/{id}` is shared: each job is shown in the format of the API that it was submitted to.

pub(crate) mod chat;
mod error_format;
#[cfg(feature = "render")]
pub(crate) mod render;

use axum::Router;
#[cfg(feature = "render")]
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use longhaul::JobId;
use longhaul::job::Record;
use longhaul::store::StoreError;
use longhaul_kinds::chat::CHAT;
#[cfg(feature = "render")]
use longhaul_kinds::render::RenderKind;

use super::AppState;
use super::jobs::serve_artifact;
use crate::api::http::caller::{Caller, Read};
use crate::api::http::load_shedding::Class;
use crate::api::http::params::{ArtifactPath, JobPath};
use crate::api::http::routes::Routes;
use crate::problem::{Code, Problem, Result};
use error_format::{ErrorFormat, with_error_format};

/// Routes shared by the compatibility APIs.
pub(super) fn router(state: &AppState) -> Router<AppState> {
    let routes = Routes::new()
        .undocumented::<Read>(Class::Normal, "/jobs/{id}", get(get_job))
        .undocumented::<Read>(Class::Normal, "/jobs/{id}/artifacts/{name}", get(artifact));
    with_error_format(routes, ErrorFormat::Ollama, state)
}

#[derive(Debug, Clone, Copy)]
enum CompatApi {
    Chat,
    #[cfg(feature = "render")]
    Render,
}

impl CompatApi {
    fn of(kind: &str) -> Option<Self> {
        match kind {
            CHAT => Some(Self::Chat),
            #[cfg(feature = "render")]
            RenderKind::NAME => Some(Self::Render),
            _ => None,
        }
    }
}

fn unknown() -> Problem {
    Problem::new(Code::JobNotFound, "Job not found")
}

/// Returns a job of one of the APIs. Other jobs are not found, like those of another tenant.
async fn find(caller: &Caller, id: JobId) -> Result<(CompatApi, Record)> {
    let record = match caller.engine.job(id).await {
        Err(StoreError::NotFound) => return Err(unknown()),
        read => read?,
    };
    let api = CompatApi::of(record.job.kind.as_str()).ok_or_else(unknown)?;
    Ok((api, record))
}

/// `GET /jobs/{id}`
async fn get_job(
    #[cfg(feature = "render")] State(state): State<AppState>,
    caller: Caller,
    path: Result<JobPath>,
) -> Result<Response> {
    let JobPath(id) = path.map_err(|_| unknown())?;
    let (api, record) = find(&caller, id).await?;
    match api {
        CompatApi::Chat => chat::show(&caller.engine, record).await,
        #[cfg(feature = "render")]
        CompatApi::Render => render::show(&state, &record),
    }
}

/// `GET /jobs/{id}/artifacts/{name}`
async fn artifact(
    caller: Caller,
    path: Result<ArtifactPath>,
    headers: HeaderMap,
) -> Result<Response> {
    let ArtifactPath(id, name) = path.map_err(|_| unknown())?;
    find(&caller, id).await?;
    serve_artifact(&caller.engine, id, &name, &headers).await
}
