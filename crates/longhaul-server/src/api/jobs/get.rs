//! Reading one job, its input and its result.

use axum::extract::State;
use axum::http::header::{ETAG, IF_NONE_MATCH, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::job::Record;
use longhaul::{Engine, Status};

use crate::api::AppState;
use crate::api::http::caller::Caller;
use crate::api::http::openapi::{
    CurrentJob, JobProblems, JobQueryProblems, JobUnchanged, PathOfJob, ResultProblems,
};
use crate::api::http::params::{JobPath, Pairs, items, seconds};
use crate::api::http::respond;
use crate::jobs::wait;
use crate::problem::{Code, Problem, Result};
use crate::to_wire;

/// Read a job.
///
/// With `If-None-Match`, the response is 304 while the version is unchanged. With `wait`, the server responds when
/// the version changes or the time is up; a caller that has lost its access by then gets an error.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "getJob", tag = "jobs",
    params(
        PathOfJob,
        ("wait" = Option<i64>, Query, minimum = 0, description = "Seconds to wait for the version to change."),
        ("If-None-Match" = Option<String>, Header, description = "Known versions, as entity tags."),
    ),
    responses(CurrentJob, JobUnchanged, JobQueryProblems),
)]
pub(super) async fn get_job(
    State(state): State<AppState>,
    caller: Caller,
    JobPath(id): JobPath,
    query: Pairs,
    headers: HeaderMap,
) -> Result<Response> {
    let wait = query.only("wait")?.map(|text| seconds("wait", &text)).transpose()?;
    let if_none_match = IfNoneMatch::of(&headers);
    let current = caller.engine.job(id).await?;
    let before = current.job.version;
    let waits = wait.is_some_and(|wait| !wait.is_zero())
        && !current.job.status.is_terminal()
        && (if_none_match == IfNoneMatch::Nothing || if_none_match.includes(before));
    let record = match wait {
        Some(wait) if waits => {
            let authorization = caller.authorization(&headers);
            // Boxed, because most requests do not wait.
            Box::pin(wait::for_change(&state, &caller.engine, current, &authorization, wait))
                .await?
        }
        Some(_) | None => current,
    };
    let changed = record.job.version != before;
    if if_none_match.includes(record.job.version) && !(if_none_match == IfNoneMatch::Any && changed)
    {
        return Ok(unchanged(&caller.engine, &record));
    }
    Ok(respond::job_response(&to_wire::job(&caller.engine, &record)?))
}

fn unchanged(engine: &Engine, record: &Record) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    response.headers_mut().insert(ETAG, respond::etag(record.job.version));
    if !record.job.status.is_terminal() {
        let seconds = respond::ceil_seconds(engine.retry_after(&record.job));
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// The `If-None-Match` header, compared weakly as RFC 9110 requires.
#[derive(Debug, PartialEq, Eq)]
enum IfNoneMatch {
    Nothing,
    Any,
    Versions(Vec<u64>),
}

impl IfNoneMatch {
    fn of(headers: &HeaderMap) -> Self {
        if !headers.contains_key(IF_NONE_MATCH) {
            return Self::Nothing;
        }
        if items(headers, IF_NONE_MATCH).any(|tag| tag == "*") {
            return Self::Any;
        }
        Self::Versions(items(headers, IF_NONE_MATCH).filter_map(version).collect())
    }

    fn includes(&self, version: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::Any => true,
            Self::Versions(versions) => versions.contains(&version),
        }
    }
}

/// Parses the version in an entity tag; foreign tags match nothing.
fn version(tag: &str) -> Option<u64> {
    let opaque = tag.strip_prefix("W/").unwrap_or(tag);
    let digits = opaque.strip_prefix('"')?.strip_suffix('"')?;
    digits.parse().ok().filter(|version: &u64| version.to_string() == digits)
}

/// Read a job's input as it was submitted.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/input", operation_id = "getJobInput", tag = "jobs",
    params(PathOfJob),
    responses((status = 200, description = "The input.", body = serde_json::Value), JobProblems),
)]
pub(super) async fn get_job_input(caller: Caller, JobPath(id): JobPath) -> Result<Response> {
    Ok(respond::raw_json(&caller.engine.input(id).await?))
}

/// Read the result of a completed job.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/result", operation_id = "getJobResult", tag = "jobs",
    params(PathOfJob),
    responses((status = 200, description = "The result.", body = serde_json::Value), ResultProblems),
)]
pub(super) async fn get_job_result(caller: Caller, JobPath(id): JobPath) -> Result<Response> {
    let record = caller.engine.job(id).await?;
    match &record.result {
        Some(result) => Ok(respond::raw_json(result)),
        None => Err(no_result(&caller.engine, &record)),
    }
}

fn no_result(engine: &Engine, record: &Record) -> Problem {
    let job = &record.job;
    let reason = match (job.status, &job.error) {
        (Status::Failed, Some(error)) => format!("the job failed ({}): {error}", error.code),
        (status, _) => format!("the job is {status} and has no result"),
    };
    let problem = Problem::new(Code::WrongStatus, reason);
    if job.status.is_terminal() {
        return problem;
    }
    problem.retry_after(engine.retry_after(job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn if_none_match(values: &[&'static str]) -> IfNoneMatch {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_NONE_MATCH, HeaderValue::from_static(value));
        }
        IfNoneMatch::of(&headers)
    }

    #[test]
    fn if_none_match_is_compared_weakly_and_may_be_a_list() {
        assert_eq!(if_none_match(&[]), IfNoneMatch::Nothing);
        assert_eq!(if_none_match(&["*"]), IfNoneMatch::Any);
        assert_eq!(
            if_none_match(&[r#""3", W/"4""#, r#""5""#]),
            IfNoneMatch::Versions(vec![3, 4, 5])
        );
        assert_eq!(if_none_match(&[r#"3, "+3", "x", """#]), IfNoneMatch::Versions(vec![]));
    }
}
