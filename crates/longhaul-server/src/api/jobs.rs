//! The resource `/v1/jobs`.

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

pub(super) use artifacts::serve_artifact;

use utoipa_axum::routes;

use crate::api::http::caller::{Control, Read, Submit};
use crate::api::http::load_shedding::Class;
use crate::api::http::routes::Routes;

pub(super) fn router() -> Routes {
    Routes::new()
        .route::<Submit>(Class::Submission, routes!(submit::submit_job))
        .route::<Read>(Class::Normal, routes!(list::list_jobs))
        .route::<Submit>(Class::Submission, routes!(submit::submit_input))
        .route::<Submit>(Class::Submission, routes!(batch::submit_batch))
        .route::<Read>(Class::Normal, routes!(get::get_job))
        .route::<Control>(Class::Normal, routes!(control::purge_job))
        .route::<Read>(Class::Normal, routes!(get::get_job_input))
        .route::<Read>(Class::Normal, routes!(get::get_job_result))
        .route::<Read>(Class::Normal, routes!(history::list_job_steps))
        .route::<Read>(Class::Normal, routes!(history::list_job_attempts))
        .route::<Read>(Class::Normal, routes!(artifacts::get_artifact))
        .route::<Read>(Class::Normal, routes!(artifacts::get_receipt))
        .route::<Read>(Class::Normal, routes!(events::watch_job))
        .route::<Control>(Class::Normal, routes!(control::cancel_job))
        .route::<Submit>(Class::Normal, routes!(control::resume_job))
        .route::<Submit>(Class::Normal, routes!(control::fork_job))
        .route::<Control>(Class::Normal, routes!(bulk::cancel_jobs))
        .route::<Submit>(Class::Normal, routes!(bulk::resume_jobs))
        .route::<Control>(Class::Normal, routes!(bulk::purge_jobs))
}
