//! Health checks: liveness, readiness and details.

use axum::Json;
use axum::extract::State;
use longhaul::store::StoreError;
use longhaul::{JobId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::AppState;
use crate::api::http::load_shedding::Class;
use crate::api::http::openapi::Unready;
use crate::api::http::routes::Routes;
use crate::problem::{Code, Problem, Result};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Health {
    /// Always `ok`; an unhealthy server responds with an error.
    status: &'static str,
    /// The server's version.
    version: &'static str,
    /// Replica name of this process. Absent if the server requires keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<String>,
    /// Jobs running in this process. Absent if the server requires keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<u64>,
}

pub(super) fn router() -> Routes {
    Routes::new()
        .public(Class::Vital, routes!(livez))
        .public(Class::Vital, routes!(readyz))
        .public(Class::Vital, routes!(healthz))
}

/// Check liveness. Restart the process if it does not respond.
#[utoipa::path(
    get, path = "/livez", operation_id = "getLiveness", tag = "operations",
    responses((status = 200, description = "Alive.", body = String, content_type = "text/plain")),
)]
pub(super) async fn livez() -> &'static str {
    "ok"
}

/// Check readiness. Do not route requests to the server while this fails.
#[utoipa::path(
    get, path = "/readyz", operation_id = "getReadiness", tag = "operations",
    responses((status = 200, description = "Ready.", body = String, content_type = "text/plain"), Unready),
)]
pub(super) async fn readyz(State(state): State<AppState>) -> Result<&'static str> {
    ready(&state).await?;
    Ok("ok")
}

/// Read health details.
#[utoipa::path(
    get, path = "/healthz", operation_id = "getHealth", tag = "operations",
    responses((status = 200, description = "Healthy.", body = Health), Unready),
)]
async fn healthz(State(state): State<AppState>) -> Result<Json<Health>> {
    ready(&state).await?;
    // Callers are not authenticated here.
    let is_open = !state.auth.settings().require_keys;
    Ok(Json(Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        replica: is_open.then(|| state.engine.replica().to_owned()),
        running: is_open.then(|| state.engine.running() as u64),
    }))
}

/// Probes the store with its cheapest query: a job that cannot exist.
async fn ready(state: &AppState) -> Result<()> {
    if state.stop.is_cancelled() {
        return Err(Problem::new(Code::Unavailable, "the server is stopping"));
    }
    let unknown = JobId::from_parts(Timestamp::from_millis(0), 0);
    match state.engine.job(unknown).await {
        Ok(_) | Err(StoreError::NotFound | StoreError::Gone) => Ok(()),
        Err(error) => {
            let detail = "the store is unavailable; see the server's log";
            Err(Problem::new(Code::Unavailable, detail).with_source(error))
        }
    }
}
