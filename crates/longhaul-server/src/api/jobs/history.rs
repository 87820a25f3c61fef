//! History of a job: its steps and attempts.

use axum::Json;
use longhaul_client::wire::{AttemptList, StepList};

use crate::api::http::caller::Caller;
use crate::api::http::openapi::{JobProblems, PathOfJob};
use crate::api::http::params::JobPath;
use crate::jobs::query;
use crate::problem::Result;

/// List a job's finished steps, in their order.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/steps", operation_id = "listJobSteps", tag = "jobs",
    params(PathOfJob),
    responses((status = 200, description = "The finished steps.", body = StepList), JobProblems),
)]
pub(crate) async fn list_job_steps(caller: Caller, JobPath(id): JobPath) -> Result<Json<StepList>> {
    Ok(Json(StepList { steps: query::steps(&caller, id).await? }))
}

/// List a job's attempts, oldest first.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/attempts", operation_id = "listJobAttempts", tag = "jobs",
    params(PathOfJob),
    responses((status = 200, description = "The attempts.", body = AttemptList), JobProblems),
)]
pub(crate) async fn list_job_attempts(
    caller: Caller,
    JobPath(id): JobPath,
) -> Result<Json<AttemptList>> {
    Ok(Json(AttemptList { attempts: query::attempts(&caller, id).await? }))
}
