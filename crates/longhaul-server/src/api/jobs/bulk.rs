//! Changing every job that matches.

use axum::Json;
use axum::body::Body;
use axum::http::HeaderMap;
use longhaul::BulkCommand;
use longhaul_client::wire::{BulkRequest, BulkResult};

use crate::api::http::body;
use crate::api::http::caller::{Caller, Control, Submit};
use crate::api::http::openapi::BulkProblems;
use crate::jobs::control;
use crate::problem::Problem;

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
    let count = control::bulk(caller, filter, command).await?;
    Ok(Json(BulkResult { count }))
}
