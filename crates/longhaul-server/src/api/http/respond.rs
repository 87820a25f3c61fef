//! Responses that several handlers send.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::job;
use longhaul_client::wire;

use crate::problem::Problem;

/// Usual size of a job without its result, and usual number of its headers, those of all layers included, so that
/// neither grows step by step.
const JOB_BYTES: usize = 1024;
const JOB_HEADERS: usize = 12;
/// Disables nginx's response buffering.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Responds to a submission or change: 202 while the job is unfinished, 200 once it has finished.
pub(crate) fn accepted(job: &wire::Job) -> Response {
    let status = if job.status.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = (status, job_response(job)).into_response();
    set_header(&mut response, LOCATION, &job.status_url);
    response
}

/// Sets a header whose value is ASCII without control characters; any other value is left out.
pub(crate) fn set_header(response: &mut Response, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        response.headers_mut().insert(name, value);
    }
}

/// Responds with a stream that nothing on its way may cache or buffer.
pub(crate) fn stream(content_type: &'static str, body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// Responds with a job, its `ETag`, and `Retry-After` while it is unfinished.
pub(crate) fn job_response(job: &wire::Job) -> Response {
    let result_bytes = job.result.as_ref().map_or(0, |result| result.as_str().len());
    let mut body = Vec::with_capacity(JOB_BYTES + result_bytes);
    if let Err(error) = serde_json::to_writer(&mut body, job) {
        return Problem::internal(error).into_response();
    }
    let mut headers = HeaderMap::with_capacity(JOB_HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ETAG, etag(job.version));
    if let Some(seconds) = job.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    let mut response = Response::new(Body::from(body));
    *response.headers_mut() = headers;
    response
}

/// Responds with a stored JSON text, byte for byte.
pub(crate) fn raw_json(json: &job::Json) -> Response {
    let json_type = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json_type)], json.as_str().to_owned()).into_response()
}

/// Formats a job's version as an entity tag.
pub(crate) fn etag(version: u64) -> HeaderValue {
    // Digits in quotes: always a valid header.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// Rounds up to whole seconds, at least one.
pub(crate) fn ceil_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX).max(1)
}
