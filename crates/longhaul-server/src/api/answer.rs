//! From the engine's records to what goes over the wire.

use std::time::Duration;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::job::{self, Record};
use longhaul::{Engine, Job, JobError, Status, Timestamp};
use longhaul_client::wire::{self, Instant, RawJson};

use crate::problem::Problem;

/// The job as callers see it.
pub(crate) fn job(engine: &Engine, record: &Record) -> Result<wire::Job, Problem> {
    let result = record.result.as_ref().map(raw).transpose()?;
    Ok(wire::Job { result, ..without_result(engine, &record.job) })
}

/// The job as callers see it in a list.
pub(crate) fn summary(engine: &Engine, job: &Job) -> wire::JobSummary {
    without_result(engine, job).into()
}

/// The job as callers see it where it has no result: because it has not ended, or in a list.
pub(crate) fn without_result(engine: &Engine, job: &Job) -> wire::Job {
    let retry_after = (!job.status.is_terminal()).then(|| engine.retry_after(job));
    shown_job(job, retry_after)
}

/// The job as it is told.
pub(crate) fn shown_job(job: &Job, retry_after: Option<Duration>) -> wire::Job {
    let url = format!("/v1/jobs/{}", job.id);
    wire::Job {
        job_id: job.id.to_string(),
        kind: job.kind.to_string(),
        queue: job.queue.to_string(),
        status: status(job.status),
        phase: job.phase.clone(),
        priority: job.priority,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        progress: job.progress.clone().map(progress),
        labels: job.labels.clone(),
        version: job.version,
        idempotency_key: job.idempotency_key.clone(),
        created_at: instant(job.created_at),
        run_at: instant(job.run_at),
        started_at: job.started_at.map(instant),
        completed_at: job.completed_at.map(instant),
        expires_at: job.expires_at.map(instant),
        result: None,
        error: job.error.clone().map(error),
        artifacts: job.artifacts.iter().map(|one| artifact(&url, one)).collect(),
        events_url: format!("{url}/events"),
        status_url: url,
        retry_after: retry_after.map(whole),
        forked_from: job.forked_from.map(|id| id.to_string()),
        parent_id: job.parent_id.map(|id| id.to_string()),
    }
}

fn artifact(job_url: &str, artifact: &job::Artifact) -> wire::Artifact {
    wire::Artifact {
        url: format!("{job_url}/artifacts/{}", encoded(&artifact.name)),
        name: artifact.name.clone(),
        content_type: artifact.content_type.clone(),
        size: artifact.size,
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// A text as one segment of a path: all but RFC 3986's unreserved characters as their bytes.
pub(crate) fn encoded(text: &str) -> String {
    let mut path = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.extend(["%", &hex(&[byte]).to_ascii_uppercase()]);
        }
    }
    path
}

/// The answer to whoever set a job going or changed it: 202 while there is something to wait for,
/// 200 once there is not, however the job ended.
pub(crate) fn accepted(job: &wire::Job) -> Response {
    let ended = job.status.is_terminal();
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = (status, stated(job)).into_response();
    if let Ok(location) = HeaderValue::from_str(&job.status_url) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// The job as a body, with its `ETag`, and its `Retry-After` until it has ended.
pub(crate) fn stated(job: &wire::Job) -> Response {
    let mut response = Json(job).into_response();
    response.headers_mut().insert(ETAG, etag(job.version));
    if let Some(seconds) = job.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// A JSON text as it was stored, byte for byte.
pub(crate) fn verbatim(json: &job::Json) -> Response {
    let json_type = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json_type)], json.as_str().to_owned()).into_response()
}

/// A job's version as an entity tag.
pub(crate) fn etag(version: u64) -> HeaderValue {
    // Digits in quotes: always a valid header.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// A stored JSON text on its way out.
pub(crate) fn raw(json: &job::Json) -> Result<RawJson, Problem> {
    RawJson::from_text(json.as_str()).map_err(Problem::internal)
}

pub(crate) fn instant(at: Timestamp) -> Instant {
    Instant(at.to_string())
}

pub(crate) fn error(error: JobError) -> wire::JobError {
    let JobError { code, message, retryable, attempt, .. } = error;
    wire::JobError { code, message, retryable, attempt }
}

pub(crate) fn status(status: Status) -> wire::Status {
    match status {
        Status::Pending => wire::Status::Pending,
        Status::Running => wire::Status::Running,
        Status::Waiting => wire::Status::Waiting,
        Status::Completed => wire::Status::Completed,
        Status::Failed => wire::Status::Failed,
        Status::Cancelled => wire::Status::Cancelled,
    }
}

pub(crate) fn asked_status(status: wire::Status) -> Status {
    match status {
        wire::Status::Pending => Status::Pending,
        wire::Status::Running => Status::Running,
        wire::Status::Waiting => Status::Waiting,
        wire::Status::Completed => Status::Completed,
        wire::Status::Failed => Status::Failed,
        wire::Status::Cancelled => Status::Cancelled,
    }
}

fn progress(progress: job::Progress) -> wire::Progress {
    let job::Progress { done, total, message } = progress;
    wire::Progress { done, total, message }
}

/// Whole seconds, rounded up, at least one.
pub(crate) fn whole(duration: Duration) -> u32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}
