//! Changing one job: cancel, resume, fork and purge.

use axum::http::StatusCode;
use axum::response::Response;
use longhaul::Job;
use longhaul_client::wire::ForkRequest;

use crate::api::http::body::OptionalJsonBody;
use crate::api::http::caller::{Caller, Control, Submit};
use crate::api::http::openapi::{AcceptedJob, ChangeProblems, ForkProblems, PathOfJob};
use crate::api::http::params::JobPath;
use crate::api::http::respond;
use crate::jobs::control;
use crate::problem::Result;
use crate::to_wire;

/// Cancel a job.
///
/// A pending job is cancelled at once (200). A running job is asked to stop, starts no further step, and is
/// aborted if it takes too long (202).
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/cancel",
    operation_id = "cancelJob",
    tag = "jobs",
    params(PathOfJob),
    responses(AcceptedJob, ChangeProblems)
)]
pub(crate) async fn cancel_job(caller: Caller<Control>, JobPath(id): JobPath) -> Result<Response> {
    let job = control::cancel(&caller, id).await?;
    Ok(changed(&caller, &job))
}

/// Resume a failed or cancelled job.
///
/// It returns to its queue, continues after its last finished step, and gets as many further attempts as it had
/// at first.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/resume",
    operation_id = "resumeJob",
    tag = "jobs",
    params(PathOfJob),
    responses(AcceptedJob, ChangeProblems)
)]
pub(crate) async fn resume_job(caller: Caller<Submit>, JobPath(id): JobPath) -> Result<Response> {
    let job = control::resume(&caller, id).await?;
    Ok(changed(&caller, &job))
}

/// Fork a job.
///
/// Submits a new job with the same input and the finished steps before `fromStep`.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/fork", operation_id = "forkJob", tag = "jobs",
    params(PathOfJob),
    request_body = Option<ForkRequest>,
    responses(AcceptedJob, ForkProblems),
)]
pub(crate) async fn fork_job(
    caller: Caller<Submit>,
    JobPath(id): JobPath,
    OptionalJsonBody(ForkRequest { from_step }): OptionalJsonBody<ForkRequest>,
) -> Result<Response> {
    let job = control::fork(&caller, id, from_step.as_deref()).await?;
    Ok(changed(&caller, &job))
}

fn changed<P>(caller: &Caller<P>, job: &Job) -> Response {
    respond::accepted(&to_wire::job_without_result(&caller.engine, job))
}

/// Delete a finished job and everything that belongs to it.
///
/// Its id keeps responding 410 for a while, and its idempotency key can be used again.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "purgeJob", tag = "jobs",
    params(PathOfJob),
    responses((status = 204, description = "Deleted."), ChangeProblems),
)]
pub(crate) async fn purge_job(caller: Caller<Control>, JobPath(id): JobPath) -> Result<StatusCode> {
    control::purge(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
