//! Submitting one job.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use longhaul::job::Record;
use longhaul::{Engine, JobHandle, Submission, Timestamp};
use longhaul_client::wire::{RetentionRequest, SubmitRequest};

use super::idempotency;
use super::prefer::{PREFERENCE_APPLIED, Preference, preference};
use crate::api::caller::Caller;
use crate::api::openapi::{Accepted, SubmitHeaders, SubmitProblems};
use crate::api::params::Pairs;
use crate::api::{AppState, answer, body};
use crate::problem::{Code, Problem};

/// Submit a job.
///
/// Answers 202 at once, or, if asked to wait, 200 with the result as soon as there is one. Under
/// an `Idempotency-Key` that is known, the existing job is answered and no new work is done.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "submitJob", tag = "jobs",
    params(SubmitHeaders),
    request_body = SubmitRequest,
    responses(Accepted, SubmitProblems),
)]
pub(super) async fn submit_job(
    State(state): State<AppState>,
    caller: Caller,
    query: Pairs,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let preference = preference(&headers, query, state.settings.sync_wait_max)?;
    let key = idempotency::key(&headers, state.settings.require_idempotency_key)?;
    let bytes_max = body::submission_bytes_max(caller.engine.limits());
    let text = body::json_text(&headers, body, bytes_max).await?;
    let submission = submission(&caller.engine, body::object(&text)?, key)?;
    respond(&state, &caller, submission, &preference).await
}

/// Submit a job of this kind.
///
/// The body itself is the input, and everything else is as the kind has it. Made for curl.
#[utoipa::path(
    post, path = "/v1/kinds/{kind}/jobs", operation_id = "submitInput", tag = "jobs",
    params(("kind" = String, Path, description = "Which handler runs it."), SubmitHeaders),
    request_body(content = serde_json::Value, description = "The job's input: any JSON."),
    responses(Accepted, SubmitProblems),
)]
pub(super) async fn submit_input(
    State(state): State<AppState>,
    caller: Caller,
    Path(kind): Path<String>,
    query: Pairs,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let preference = preference(&headers, query, state.settings.sync_wait_max)?;
    let key = idempotency::key(&headers, state.settings.require_idempotency_key)?;
    let bytes_max = body::submission_bytes_max(caller.engine.limits());
    let text = body::json_text(&headers, body, bytes_max).await?;
    body::refuse_doubled_keys(&text)?;
    let input = longhaul::job::Json::from_text(text)
        .map_err(|error| Problem::new(Code::InvalidJson, format!("the input is {error}")))?;
    let submission = keyed(caller.engine.submit(&kind, &input), key);
    respond(&state, &caller, submission, &preference).await
}

/// From the wire to the engine.
pub(super) fn submission(
    engine: &Engine,
    request: SubmitRequest,
    key: Option<String>,
) -> Result<Submission, Problem> {
    let mut submission = keyed(engine.submit(&request.kind, &request.input), key);
    match (request.run_at, request.delay) {
        (Some(_), Some(_)) => return Err(invalid("give runAt or delay, not both")),
        (Some(at), None) => {
            let at = Timestamp::parse(at.as_str())
                .ok_or_else(|| invalid(format!("runAt {:?} is not an RFC 3339 instant", at.0)))?;
            submission = submission.run_at(at);
        }
        (None, Some(delay)) => submission = submission.delay(delay.0),
        (None, None) => {}
    }
    if let Some(queue) = request.queue {
        submission = submission.queue(queue);
    }
    if let Some(priority) = request.priority {
        submission = submission.priority(priority);
    }
    if let Some(attempts) = request.max_attempts {
        submission = submission.max_attempts(attempts);
    }
    if let Some(timeout) = request.timeout {
        submission = submission.timeout(timeout.0);
    }
    for (name, value) in request.labels {
        submission = submission.label(name, value);
    }
    let RetentionRequest { completed, failed } = request.retention.unwrap_or_default();
    if let Some(kept) = completed {
        submission = submission.keep_completed(kept.0);
    }
    if let Some(kept) = failed {
        submission = submission.keep_failed(kept.0);
    }
    Ok(submission)
}

fn keyed(submission: Submission, key: Option<String>) -> Submission {
    match key {
        Some(key) => submission.key(key),
        None => submission,
    }
}

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::new(Code::Validation, detail)
}

async fn respond(
    state: &AppState,
    caller: &Caller,
    submission: Submission,
    preference: &Preference,
) -> Result<Response, Problem> {
    let handle = submission.await?;
    let record = held(state, &handle, preference.wait).await?;
    let mut response = answer::accepted(&answer::job(&caller.engine, &record)?);
    if let Some(applied) = preference.to_header() {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

/// The job once it has ended, or as it stands when the time is up or the server stops.
async fn held(state: &AppState, handle: &JobHandle, wait: Duration) -> Result<Record, Problem> {
    let submitted = handle.submitted();
    if wait.is_zero() || submitted.job.status.is_terminal() {
        return Ok(submitted.clone());
    }
    tokio::select! {
        ended = handle.ended() => Ok(ended?),
        () = state.clock.sleep(wait) => Ok(handle.record().await?),
        () = state.stop.cancelled() => Ok(handle.record().await?),
    }
}
