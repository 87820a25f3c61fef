//! Jobs over HTTP.

pub(crate) mod artifacts;
mod batch;
pub(crate) mod bulk;
pub(crate) mod control;
pub(crate) mod events;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod get;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod submit;

pub(super) use artifacts::get_artifact;
#[cfg(feature = "render")]
pub(super) use artifacts::serve_artifact;
pub(super) use events::X_ACCEL_BUFFERING;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(submit::submit_job, list::list_jobs))
        .routes(routes!(submit::submit_input))
        .routes(routes!(batch::submit_batch))
        .routes(routes!(get::get_job, control::purge_job))
        .routes(routes!(get::get_job_input))
        .routes(routes!(get::get_job_result))
        .routes(routes!(history::list_job_steps))
        .routes(routes!(history::list_job_attempts))
        .routes(routes!(artifacts::get_artifact))
        .routes(routes!(artifacts::get_receipt))
        .routes(routes!(events::watch_job))
        .routes(routes!(control::cancel_job))
        .routes(routes!(control::resume_job))
        .routes(routes!(control::fork_job))
        .routes(routes!(bulk::cancel_jobs))
        .routes(routes!(bulk::resume_jobs))
        .routes(routes!(bulk::purge_jobs))
}
