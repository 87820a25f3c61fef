//! Responses that several handlers send.

use std::time::Duration;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::job;
use longhaul_client::wire;

/// The answer to whoever set a job going or changed it: 202 while there is something to wait for,
/// 200 once there is not, however the job ended.
pub(crate) fn accepted(job: &wire::Job) -> Response {
    let ended = job.status.is_terminal();
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = (status, job_response(job)).into_response();
    if let Ok(location) = HeaderValue::from_str(&job.status_url) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// The job as a body, with its `ETag`, and its `Retry-After` until it has ended.
pub(crate) fn job_response(job: &wire::Job) -> Response {
    let mut response = Json(job).into_response();
    response.headers_mut().insert(ETAG, etag(job.version));
    if let Some(seconds) = job.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// A JSON text as it was stored, byte for byte.
pub(crate) fn raw_json(json: &job::Json) -> Response {
    let json_type = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json_type)], json.as_str().to_owned()).into_response()
}

/// A job's version as an entity tag.
pub(crate) fn etag(version: u64) -> HeaderValue {
    // Digits in quotes: always a valid header.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// Whole seconds, rounded up, at least one.
pub(crate) fn ceil_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}
