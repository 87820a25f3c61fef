//! Changing all jobs that match a filter.

use axum::Json;
use longhaul::BulkCommand;
use longhaul_client::wire::{BulkRequest, BulkResult};

use crate::api::http::body::JsonBody;
use crate::api::http::caller::{Caller, Control, Submit};
use crate::api::http::openapi::BulkProblems;
use crate::jobs::control;
use crate::problem::Result;

/// Cancel all matching unfinished jobs.
#[utoipa::path(
    post, path = "/v1/jobs/cancel", operation_id = "cancelJobs", tag = "jobs",
    request_body = BulkRequest,
    responses((status = 200, description = "Number of jobs that were cancelled or asked to stop.", body = BulkResult), BulkProblems),
)]
pub(super) async fn cancel_jobs(
    caller: Caller<Control>,
    JsonBody(request): JsonBody<BulkRequest>,
) -> Result<Json<BulkResult>> {
    bulk(&caller, request, BulkCommand::Cancel).await
}

/// Resume all matching failed or cancelled jobs.
#[utoipa::path(
    post, path = "/v1/jobs/resume", operation_id = "resumeJobs", tag = "jobs",
    request_body = BulkRequest,
    responses((status = 200, description = "Number of resumed jobs.", body = BulkResult), BulkProblems),
)]
pub(super) async fn resume_jobs(
    caller: Caller<Submit>,
    JsonBody(request): JsonBody<BulkRequest>,
) -> Result<Json<BulkResult>> {
    bulk(&caller, request, BulkCommand::Resume).await
}

/// Delete all matching finished jobs.
#[utoipa::path(
    post, path = "/v1/jobs/purge", operation_id = "purgeJobs", tag = "jobs",
    request_body = BulkRequest,
    responses((status = 200, description = "Number of deleted jobs.", body = BulkResult), BulkProblems),
)]
pub(super) async fn purge_jobs(
    caller: Caller<Control>,
    JsonBody(request): JsonBody<BulkRequest>,
) -> Result<Json<BulkResult>> {
    bulk(&caller, request, BulkCommand::Purge).await
}

async fn bulk<P>(
    caller: &Caller<P>,
    BulkRequest { filter }: BulkRequest,
    command: BulkCommand,
) -> Result<Json<BulkResult>> {
    Ok(Json(BulkResult { count: control::bulk(caller, filter, command).await? }))
}
