//! Changing every job that matches.

use axum::Json;
use axum::body::Body;
use axum::http::HeaderMap;
use longhaul::job::Name;
use longhaul::store::Filter;
use longhaul::{BulkCommand, Timestamp};
use longhaul_client::wire::{BulkRequest, BulkResult, JobFilter};

use crate::api::http::body;
use crate::api::http::caller::{Caller, Control, Submit};
use crate::api::http::openapi::BulkProblems;
use crate::problem::{Code, Problem};
use crate::to_wire;

/// Cancel all jobs that match and have not ended.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", operation_id = "cancelJobs", tag = "jobs",
    request_body = BulkRequest,
    responses((status = 200, description = "How many were cancelled or asked to stop.", body = BulkResult), BulkProblems),
)]
pub(super) async fn cancel_jobs(
    caller: Caller<Control>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BulkResult>, Problem> {
    for_all(&caller, &headers, body, BulkCommand::Cancel).await
}

/// Put all failed and cancelled jobs that match back in line.
#[utoipa::path(
    post, path = "/v1/jobs/resume", operation_id = "resumeJobs", tag = "jobs",
    request_body = BulkRequest,
    responses((status = 200, description = "How many were put back in line.", body = BulkResult), BulkProblems),
)]
pub(super) async fn resume_jobs(
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BulkResult>, Problem> {
    for_all(&caller, &headers, body, BulkCommand::Resume).await
}

/// Delete all finished jobs that match.
#[utoipa::path(
    post, path = "/v1/jobs/purge", operation_id = "purgeJobs", tag = "jobs",
    request_body = BulkRequest,
    responses((status = 200, description = "How many were deleted.", body = BulkResult), BulkProblems),
)]
pub(super) async fn purge_jobs(
    caller: Caller<Control>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BulkResult>, Problem> {
    for_all(&caller, &headers, body, BulkCommand::Purge).await
}

async fn for_all<N>(
    caller: &Caller<N>,
    headers: &HeaderMap,
    body: Body,
    command: BulkCommand,
) -> Result<Json<BulkResult>, Problem> {
    let text = body::json_text(headers, body, body::SMALL_BYTES_MAX).await?;
    let BulkRequest { filter } = body::object(&text)?;
    let count = for_filter(caller, filter, command).await?;
    Ok(Json(BulkResult { count }))
}

/// Does it in the caller's name to all jobs that match, and says how many it was.
pub(crate) async fn for_filter<N>(
    caller: &Caller<N>,
    filter: JobFilter,
    command: BulkCommand,
) -> Result<u64, Problem> {
    let action = match command {
        BulkCommand::Cancel => "jobs.cancel",
        BulkCommand::Resume => "jobs.resume",
        BulkCommand::Purge => "jobs.purge",
    };
    let detail = serde_json::to_string(&filter).map_err(Problem::internal)?;
    caller.audit(action, "", detail).await?;
    Ok(caller.engine.bulk(&asked(filter)?, command).await?)
}

fn asked(filter: JobFilter) -> Result<Filter, Problem> {
    let name = |text: Option<String>| text.map(Name::new).transpose().map_err(invalid);
    let created_after = filter.created_after.map(|at| {
        let reason = format!("createdAfter {:?} is not an RFC 3339 instant", at.0);
        Timestamp::parse(at.as_str()).ok_or_else(|| invalid(reason))
    });
    Ok(Filter {
        statuses: filter.status.into_iter().map(to_wire::status_from).collect(),
        kind: name(filter.kind)?,
        queue: name(filter.queue)?,
        labels: filter.labels,
        created_after: created_after.transpose()?,
        parent: None,
    })
}

fn invalid(reason: impl std::fmt::Display) -> Problem {
    Problem::new(Code::Validation, reason.to_string())
}
