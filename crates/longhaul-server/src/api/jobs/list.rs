//! Listing jobs.

use axum::Json;
use axum::extract::State;
use longhaul_client::wire::JobList;

use crate::api::AppState;
use crate::api::http::caller::Caller;
use crate::api::http::openapi::{JobListParams, ListProblems};
use crate::api::http::params::Pairs;
use crate::jobs::query;
use crate::problem::Result;

/// List jobs, newest first.
///
/// Jobs are listed without their results. For the next page, pass `nextCursor` as `cursor` with the same filter.
///
/// A page examines at most 2,000 jobs. If few of them match the filter, it is shorter than `limit` or empty and still has a
/// `nextCursor`: the list ends when `nextCursor` is null. Lists of a tenant run one after the other; if too many wait, the
/// response is 503 with `Retry-After`.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "listJobs", tag = "jobs",
    params(JobListParams),
    responses((status = 200, description = "One page of jobs.", body = JobList), ListProblems),
)]
pub(crate) async fn list_jobs(
    State(state): State<AppState>,
    caller: Caller,
    parameters: Pairs,
) -> Result<Json<JobList>> {
    let query = query::parse_query(parameters, state.settings.list_limit_max)?;
    Ok(Json(query::list(&caller, &query).await?))
}
