//! Audit log.

use axum::Json;
use axum::extract::State;
use longhaul::store::accounts::AuditFilter;
use longhaul_client::wire::{AuditEntry, AuditList};

use super::tenant_id;
use crate::api::AppState;
use crate::api::http::caller::{Admin, Caller};
use crate::api::http::openapi::{AdminProblems, PageParams};
use crate::api::http::paging::PageQuery;
use crate::api::http::params::Pairs;
use crate::problem::Result;
use crate::to_wire;

/// List the audit log, newest first.
///
/// Records actions on keys, tenants, jobs and queues. An entry is written before the action, so that it also
/// shows requests that failed afterwards.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "listAudit", tag = "accounts",
    params(
        PageParams,
        ("tenant" = Option<String>, Query, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description = "Only actions on this tenant."),
        ("target" = Option<String>, Query, description = "Only actions on this job, key, tenant or queue."),
    ),
    responses((status = 200, description = "One page of entries.", body = AuditList), AdminProblems),
)]
pub(crate) async fn list_audit(
    State(state): State<AppState>,
    _: Caller<Admin>,
    query: Pairs,
) -> Result<Json<AuditList>> {
    Ok(Json(list(&state, query).await?))
}

pub(crate) async fn list(state: &AppState, query: Pairs) -> Result<AuditList> {
    let mut query = PageQuery::parse(query, &["tenant", "target"])?;
    let filter = AuditFilter {
        tenant: query.take("tenant").map(|text| tenant_id(&text)).transpose()?,
        target: query.take("target"),
        before: query.cursor,
        limit: query.limit,
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
