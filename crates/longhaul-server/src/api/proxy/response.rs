//! Conversion of a finished job to the upstream's response.

use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use longhaul::job::{Json, Record};
use longhaul::{Engine, Job, JobError, Status};
use longhaul_kinds::http::{
    BODY_ARTIFACT, CODE_ERROR_STATUS, CODE_TIMEOUT, RESPONSE_STEP, StoredResponse,
    StoredResponseError,
};

use crate::problem::{Code, Passthrough, Problem, Result};

const JOB_ID: HeaderName = HeaderName::from_static("longhaul-job-id");
/// Set if the body was truncated.
const TRUNCATED: HeaderName = HeaderName::from_static("longhaul-body-cut");
/// The engine's code for an attempt that exceeded its timeout.
const TIMEOUT: &str = "timeout";

/// Returns the upstream's response unchanged, or a problem if there is none.
pub(super) async fn from_upstream(engine: &Engine, record: &Record) -> Result<Response> {
    let Record { job, result, .. } = record;
    let answer = match (job.status, result) {
        (Status::Completed, Some(result)) => Some(read(result)?),
        (Status::Failed, _) => last_response(engine, job).await?,
        (Status::Completed, None)
        | (Status::Cancelled | Status::Pending | Status::Running | Status::Waiting, _) => None,
    };
    match answer {
        Some(answer) => unchanged(engine, job, &answer).await,
        None => Err(no_response(job).header(JOB_ID, id(job))),
    }
}

/// Returns the upstream's response to the last attempt, if it made the job fail.
async fn last_response(engine: &Engine, job: &Job) -> Result<Option<StoredResponse>> {
    if job.error.as_ref().is_none_or(|error| error.code != CODE_ERROR_STATUS) {
        return Ok(None);
    }
    let steps = engine.steps(job.id).await?;
    let last = steps.iter().rev().find(|step| step.name.starts_with(RESPONSE_STEP));
    last.map(|step| read(&step.output)).transpose()
}

fn read(json: &Json) -> Result<StoredResponse> {
    json.to().map_err(Problem::internal)
}

async fn unchanged(engine: &Engine, job: &Job, answer: &StoredResponse) -> Result<Response> {
    let unreadable = |error: StoredResponseError| Problem::internal(error);
    let mut headers = answer.headers().map_err(unreadable)?;
    let body = if let Some(bytes) = answer.bytes().map_err(unreadable)? {
        Body::from(bytes)
    } else {
        let artifact = engine.artifact(job.id, BODY_ARTIFACT).await?;
        headers.insert(CONTENT_LENGTH, artifact.size().into());
        Body::from_stream(artifact.read(None).await?)
    };
    headers.insert(JOB_ID, id(job));
    if answer.cut {
        headers.insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    let mut response = Response::new(body);
    *response.status_mut() = answer.status().map_err(unreadable)?;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(Passthrough);
    Ok(response)
}

fn no_response(job: &Job) -> Problem {
    let JobError { code, message, .. } = match (&job.error, job.status) {
        (_, Status::Cancelled) => JobError::fatal("the job was cancelled").with_code("cancelled"),
        (Some(error), _) => error.clone(),
        (None, _) => JobError::fatal("no error was recorded"),
    };
    let detail = format!("job {} finished without a response ({code}): {message}", job.id);
    match code.as_str() {
        CODE_TIMEOUT | TIMEOUT => Problem::new(Code::TargetTimeout, detail),
        _ => Problem::new(Code::TargetFailed, detail),
    }
}

fn id(job: &Job) -> HeaderValue {
    // Letters and digits: always valid.
    HeaderValue::from_str(&job.id.to_string()).unwrap_or(HeaderValue::from_static("unknown"))
}
