//! Responses that several handlers send.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::job;
use longhaul_client::wire;

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
    let mut response = Json(job).into_response();
    response.headers_mut().insert(ETAG, etag(job.version));
    if let Some(seconds) = job.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
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
