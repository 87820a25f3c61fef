//! Submitting render jobs.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::job::Record;
use longhaul::store::StoreError;
use longhaul::{Engine, Job, JobHandle, Status};
use longhaul_kinds::render::RenderKind;
use longhaul_render::{ErrorCode, Format, Options, OutputType, RenderError, RenderRequest};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::RenderApi;
use super::response::{Link, error_message, key, status};
use crate::api::AppState;
use crate::api::http::body;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::idempotency;
use crate::api::http::params::Pairs;
use crate::api::http::prefer::preference;
use crate::api::http::respond::set_header;
use crate::jobs::{submit as service, wait};
use crate::problem::{Code, KeepBody, Problem, Result};

/// Seconds until the next poll; most diagrams are rendered by then.
const POLL_AFTER_S: HeaderValue = HeaderValue::from_static("1");

/// `POST /render`
pub(crate) async fn submit(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    query: Pairs,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let render = state.render()?;
    let preference = preference(&headers, query, state.settings.sync_wait_max)?;
    // The request itself is the key. A key in the header is only validated.
    idempotency::key(&headers, false)?;
    let bytes_max = body::submission_bytes_max(caller.engine.limits());
    let text = body::json_text_of_any_type(&headers, body, bytes_max).await?;
    let request = parse(&text)?.normalized();
    request.check(&render.limits).map_err(|error| invalid_request(&error))?;
    let shortlink = render.links.of(caller.engine.tenant(), &request);
    let handle = job(&state, &caller.engine, render, &request, &shortlink).await?;
    if handle.submitted().job.status == Status::Completed {
        return Ok(completed(render, &shortlink, true));
    }
    let authorization = caller.authorization(&headers);
    let record = wait::for_finish(&state, &handle, &authorization, preference.wait).await?;
    let response = match record.job.status {
        Status::Completed => completed(render, &shortlink, false),
        Status::Failed | Status::Cancelled if !preference.wait.is_zero() => failed(&record.job),
        Status::Failed
        | Status::Cancelled
        | Status::Pending
        | Status::Waiting
        | Status::Running => accepted(render, &record),
    };
    Ok(preference.applied_to(response))
}

/// Parses a request. Ignores unknown fields, as the service does whose API this is; errors name the field.
fn parse(text: &str) -> Result<RenderRequest> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RenderBody {
        source: String,
        format: Format,
        #[serde(default)]
        output_type: OutputType,
        #[serde(default)]
        options: Options,
    }
    body::require_object(text)?;
    let parsed = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text));
    let RenderBody { source, format, output_type, options } = parsed.map_err(|error| {
        let (field, reason) = (error.path().to_string(), error.inner());
        let detail = if field == "." { reason.to_string() } else { format!("{field}: {reason}") };
        Problem::new(Code::BadRequest, detail)
    })?;
    Ok(RenderRequest { source, format, output_type, options })
}

/// Returns the existing job of a request, or submits a new one.
async fn job(
    state: &AppState,
    engine: &Engine,
    render: &RenderApi,
    request: &RenderRequest,
    shortlink: &str,
) -> Result<JobHandle> {
    let key = key(shortlink);
    let known = async || engine.find_by_key(&key, Some(RenderKind::NAME), None, None).await;
    if let Some(found) = known().await? {
        if !is_retryable(&found.submitted().job) {
            return Ok(found);
        }
        match engine.resume(found.id()).await {
            // Another request resumed it first, or it was deleted.
            Ok(_)
            | Err(StoreError::WrongStatus { .. } | StoreError::NotFound | StoreError::Gone) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(found) = known().await? {
            return Ok(found);
        }
    }
    let submission = engine
        .submit_raw(RenderKind::NAME, request)
        .key(key.as_str())
        .keep_completed(render.retention);
    service::submit(state, submission).await
}

/// Returns whether a retry can succeed: the job failed for a reason other than its request.
fn is_retryable(job: &Job) -> bool {
    let permanent =
        [ErrorCode::BadInput, ErrorCode::Syntax, ErrorCode::Unsupported, ErrorCode::TooLarge];
    match (job.status, &job.error) {
        (Status::Cancelled, _) | (Status::Failed, None) => true,
        (Status::Failed, Some(error)) => !permanent.iter().any(|code| code.as_str() == error.code),
        (Status::Pending | Status::Waiting | Status::Running | Status::Completed, _) => false,
    }
}

/// Converts a validation error.
fn invalid_request(error: &RenderError) -> Problem {
    let code = match error.code {
        ErrorCode::TooLarge => Code::PayloadTooLarge,
        ErrorCode::BadInput
        | ErrorCode::Syntax
        | ErrorCode::Unsupported
        | ErrorCode::TookTooLong
        | ErrorCode::RendererFailed => Code::BadRequest,
    };
    Problem::new(code, error.to_string())
}

fn completed(render: &RenderApi, shortlink: &str, cached: bool) -> Response {
    #[derive(Serialize)]
    struct RenderResponse {
        #[serde(flatten)]
        link: Link,
        cached: bool,
    }
    Json(RenderResponse { link: render.link(shortlink), cached }).into_response()
}

fn accepted(render: &RenderApi, record: &Record) -> Response {
    let (id, status) = (record.job.id.to_string(), status(record.job.status));
    let url = format!("{}/jobs/{id}", render.base_url);
    let body = Json(json!({"jobId": id, "status": status, "statusUrl": url}));
    let mut response = (StatusCode::ACCEPTED, body).into_response();
    response.headers_mut().insert(RETRY_AFTER, POLL_AFTER_S);
    set_header(&mut response, LOCATION, &url);
    response
}

/// Response to a caller that waited for a job that failed.
fn failed(job: &Job) -> Response {
    let code = job.error.as_ref().map_or("cancelled", |error| error.code.as_str());
    let is = |trouble: ErrorCode| trouble.as_str() == code;
    let status = if is(ErrorCode::BadInput) || is(ErrorCode::Syntax) || is(ErrorCode::Unsupported) {
        StatusCode::UNPROCESSABLE_ENTITY
    } else if is(ErrorCode::TooLarge) {
        StatusCode::PAYLOAD_TOO_LARGE
    } else if is(ErrorCode::TookTooLong) {
        StatusCode::GATEWAY_TIMEOUT
    } else if job.status == Status::Cancelled {
        StatusCode::CONFLICT
    } else {
        StatusCode::BAD_GATEWAY
    };
    let body = json!({"error": error_message(job), "code": code, "jobId": job.id.to_string()});
    let mut response = (status, Json(body)).into_response();
    response.extensions_mut().insert(KeepBody);
    response
}
