//! What a job left behind on its way: its steps and its attempts.

use axum::Json;
use longhaul::job;
use longhaul_client::wire::{Attempt, AttemptList, Step, StepList};

use crate::api::http::caller::Caller;
use crate::api::http::openapi::{JobProblems, PathOfJob};
use crate::api::http::params::JobPath;
use crate::problem::Problem;
use crate::to_wire;

/// List a job's finished steps, in their order.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/steps", operation_id = "listJobSteps", tag = "jobs",
    params(PathOfJob),
    responses((status = 200, description = "The finished steps.", body = StepList), JobProblems),
)]
pub(crate) async fn list_job_steps(
    caller: Caller,
    JobPath(id): JobPath,
) -> Result<Json<StepList>, Problem> {
    let steps = caller.engine.steps(id).await?;
    let steps = steps.into_iter().map(step).collect::<Result<_, _>>()?;
    Ok(Json(StepList { steps }))
}

fn step(step: job::Step) -> Result<Step, Problem> {
    Ok(Step {
        output: to_wire::raw(&step.output)?,
        name: step.name,
        position: step.position,
        attempt: step.attempt,
        started_at: to_wire::instant(step.started_at),
        completed_at: to_wire::instant(step.completed_at),
    })
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
) -> Result<Json<AttemptList>, Problem> {
    let attempts = caller.engine.job(id).await?.attempts();
    Ok(Json(AttemptList { attempts: attempts.into_iter().map(attempt).collect() }))
}

fn attempt(attempt: job::Attempt) -> Attempt {
    Attempt {
        attempt: attempt.attempt,
        replica: attempt.replica,
        started_at: to_wire::instant(attempt.started_at),
        ended_at: attempt.ended_at.map(to_wire::instant),
        status: attempt.status.map(to_wire::status),
        error: attempt.error.map(to_wire::error),
    }
}
