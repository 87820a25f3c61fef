//! Who did what.

use axum::Json;
use axum::extract::State;
use longhaul::store::accounts::AuditFilter;
use longhaul_client::wire::{AuditEntry, AuditList};

use super::tenant_id;
use crate::api::AppState;
use crate::api::http::caller::{Admin, Caller};
use crate::api::http::openapi::{AdminProblems, PageParams};
use crate::api::http::paging::Asked;
use crate::api::http::params::Pairs;
use crate::problem::Problem;
use crate::to_wire;

/// List what was done to keys, tenants, jobs and queues, latest first.
///
/// An entry is written before what it tells of is done: it says that somebody asked for it.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "listAudit", tag = "accounts",
    params(
        PageParams,
        ("tenant" = Option<String>, Query, description = "Only what was done to this tenant."),
        ("target" = Option<String>, Query, description = "Only what was done to this job, key, tenant or queue."),
    ),
    responses((status = 200, description = "One page of entries.", body = AuditList), AdminProblems),
)]
pub(crate) async fn list_audit(
    State(state): State<AppState>,
    _: Caller<Admin>,
    query: Pairs,
) -> Result<Json<AuditList>, Problem> {
    Ok(Json(list(&state, query).await?))
}

/// One page of the log, for whoever runs the server.
pub(crate) async fn list(state: &AppState, query: Pairs) -> Result<AuditList, Problem> {
    let mut asked = Asked::of(query, &["tenant", "target"])?;
    let filter = AuditFilter {
        tenant: asked.take("tenant").map(|text| tenant_id(&text)).transpose()?,
        target: asked.take("target"),
        before: asked.cursor,
        limit: asked.limit,
    };
    let page = state.auth.accounts().audit_log(&filter).await?;
    let entries = page.entries.into_iter().map(|entry| AuditEntry {
        id: entry.id,
        at: to_wire::instant(entry.at),
        tenant: entry.tenant.to_string(),
        actor: entry.actor,
        action: entry.action,
        target: entry.target,
        detail: entry.detail,
        request_id: entry.request_id,
    });
    Ok(AuditList { entries: entries.collect(), next_cursor: page.next })
}
