//! Submitting a batch of jobs.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use longhaul::{Engine, Submission};
use longhaul_client::wire::{self, BatchAnswer, BatchJob, BatchRequest, BatchResponse};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::AppState;
use crate::api::http::body;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::idempotency::{self, IDEMPOTENCY_KEY};
use crate::api::http::openapi::BatchProblems;
use crate::jobs::submit::{submission, take_webhook};
use crate::problem::{Code, Problem, Result};
use crate::request_id::RequestId;

/// A [`BatchRequest`] with unparsed jobs, so that an invalid job is rejected alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnparsedBatch {
    jobs: Vec<Box<RawValue>>,
}

/// Submit up to 1,000 jobs.
///
/// Each job is accepted or rejected on its own. The response has one entry per job, in the same order: the
/// job, or the problem.
#[utoipa::path(
    post, path = "/v1/jobs/batch", operation_id = "submitBatch", tag = "jobs",
    request_body = BatchRequest,
    responses(
        (status = 200, description = "For each job: the job, or the problem.", body = Vec<BatchAnswer>),
        BatchProblems,
    ),
)]
pub(super) async fn submit_batch(
    State(state): State<AppState>,
    Extension(request_id): Extension<RequestId>,
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BatchResponse>> {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "a batch has no common key: give each job its own idempotencyKey";
        return Err(Problem::new(Code::IdempotencyKeyInvalid, detail));
    }
    let text = body::batch_text(&headers, body, state.settings.batch_bytes_max).await?;
    let UnparsedBatch { jobs } = body::outer_object(&text)?;
    let (given, jobs_max) = (jobs.len(), state.settings.batch_jobs_max);
    if given > jobs_max {
        let detail =
            format!("a batch may have at most {jobs_max} jobs (batch_jobs_max), not {given}");
        return Err(Problem::new(Code::Validation, detail));
    }
    let required = state.settings.require_idempotency_key;
    // Concurrent, because the jobs of a batch often name the same webhook host, which is then resolved once.
    let parsed = jobs.iter().map(|job| parse(&state, &caller.engine, job, required));
    let parsed = futures_util::future::join_all(parsed).await;
    let results = submit_all(&caller.engine, parsed).await.into_iter();
    Ok(Json(results.map(|result| to_wire(result, &request_id)).collect()))
}

async fn parse(
    state: &AppState,
    engine: &Engine,
    job: &RawValue,
    key_required: bool,
) -> Result<Submission> {
    let (key, mut request) = body::object::<BatchJob>(job.get())?.into_parts();
    let webhook = take_webhook(state, engine, &mut request).await?;
    submission(engine, request, webhook, idempotency::checked(key, key_required)?)
}

async fn submit_all(engine: &Engine, parsed: Vec<Result<Submission>>) -> Vec<Result<wire::Job>> {
    let (mut submissions, mut problems) = (Vec::new(), Vec::new());
    for submission in parsed {
        match submission {
            Ok(submission) => {
                submissions.push(submission);
                problems.push(None);
            }
            Err(problem) => problems.push(Some(problem)),
        }
    }
    let mut handles = engine.submit_all(submissions).await.into_iter();
    let results = problems.into_iter().map(|problem| match problem {
        Some(problem) => Err(problem),
        None => match handles.next() {
            Some(Ok(handle)) => crate::to_wire::job(engine, handle.submitted()),
            Some(Err(error)) => Err(error.into()),
            None => Err(Problem::internal("the engine returned too few results for a batch")),
        },
    });
    results.collect()
}

fn to_wire(result: Result<wire::Job>, request_id: &RequestId) -> BatchAnswer {
    match result {
        Ok(job) => BatchAnswer::Job(Box::new(job)),
        Err(problem) => BatchAnswer::Problem(Box::new(problem.to_wire(request_id.as_str()))),
    }
}
