//! Tenants: create, list and change.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul::TenantId;
use longhaul::store::accounts::{LimitsChange, Tenant, TenantChange};
use longhaul_client::wire::{
    self, LimitsPatch, TenantLimits, TenantList, TenantPatch, TenantRequest,
};

use super::{label, no_tenant, tenant_id};
use crate::api::AppState;
use crate::api::http::body::JsonBody;
use crate::api::http::caller::{Admin, Caller};
use crate::api::http::openapi::{
    AdminProblems, NewTenantProblems, TenantPageParams, TenantProblems,
};
use crate::api::http::paging::{self, PageQuery};
use crate::api::http::params::{Pairs, TenantPath};
use crate::problem::{Code, Problem, Result};
use crate::to_wire;

/// Create a tenant.
#[utoipa::path(
    post, path = "/v1/tenants", operation_id = "createTenant", tag = "accounts",
    request_body = TenantRequest,
    responses((status = 201, description = "The tenant.", body = wire::Tenant), NewTenantProblems),
)]
pub(crate) async fn create_tenant(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    JsonBody(request): JsonBody<TenantRequest>,
) -> Result<(StatusCode, Json<wire::Tenant>)> {
    Ok((StatusCode::CREATED, Json(create(&state, &caller, request).await?)))
}

pub(crate) async fn create(
    state: &AppState,
    caller: &Caller<Admin>,
    TenantRequest { id, name }: TenantRequest,
) -> Result<wire::Tenant> {
    let name = label("the name", name.unwrap_or_else(|| id.clone()))?;
    let tenant = Tenant::new(tenant_id(&id)?, name, state.auth.now());
    let audit = state.auth.audit_entry(
        &caller.audit_actor(),
        &tenant.id,
        "tenant.create",
        &id,
        String::new(),
    );
    let made = state.auth.accounts().create_tenant(&tenant, &audit).await?;
    state.auth.forget_tenant(&tenant.id);
    match made {
        Some(made) => Ok(to_wire(made)),
        None => Err(Problem::new(Code::TenantExists, format!("tenant {id:?} already exists"))),
    }
}

/// List tenants.
#[utoipa::path(
    get, path = "/v1/tenants", operation_id = "listTenants", tag = "accounts",
    params(TenantPageParams),
    responses((status = 200, description = "One page of tenants.", body = TenantList), AdminProblems),
)]
pub(crate) async fn list_tenants(
    State(state): State<AppState>,
    _: Caller<Admin>,
    query: Pairs,
) -> Result<Json<TenantList>> {
    Ok(Json(list(&state, query).await?))
}

pub(crate) async fn list(state: &AppState, query: Pairs) -> Result<TenantList> {
    let page = PageQuery::parse(query, &[])?;
    let after = page.cursor.as_deref().map(tenant_id).transpose()?;
    let mut tenants = state.auth.accounts().tenants(after.as_ref(), page.limit + 1).await?;
    let next_cursor = paging::next(&mut tenants, page.limit, |tenant| tenant.id.to_string());
    Ok(TenantList { tenants: tenants.into_iter().map(to_wire).collect(), next_cursor })
}

/// Read a tenant.
#[utoipa::path(
    get, path = "/v1/tenants/{id}", operation_id = "getTenant", tag = "accounts",
    params(("id" = String, Path, description = "The tenant.")),
    responses((status = 200, description = "The tenant.", body = wire::Tenant), TenantProblems),
)]
pub(crate) async fn get_tenant(
    State(state): State<AppState>,
    _: Caller<Admin>,
    TenantPath(id): TenantPath,
) -> Result<Json<wire::Tenant>> {
    let found = state.auth.accounts().tenant(&id).await?;
    found.map(|tenant| Json(to_wire(tenant))).ok_or_else(|| no_tenant(&id))
}

/// Change a tenant. Takes effect on all replicas within seconds.
#[utoipa::path(
    patch, path = "/v1/tenants/{id}", operation_id = "changeTenant", tag = "accounts",
    params(("id" = String, Path, description = "The tenant.")),
    request_body = TenantPatch,
    responses((status = 200, description = "The tenant.", body = wire::Tenant), NewTenantProblems),
)]
pub(crate) async fn change_tenant(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    TenantPath(id): TenantPath,
    JsonBody(patch): JsonBody<TenantPatch>,
) -> Result<Json<wire::Tenant>> {
    Ok(Json(change(&state, &caller, &id, patch).await?))
}

pub(crate) async fn change(
    state: &AppState,
    caller: &Caller<Admin>,
    id: &TenantId,
    patch: TenantPatch,
) -> Result<wire::Tenant> {
    let change = parse_patch(patch.clone())?;
    let detail = serde_json::to_string(&patch).map_err(Problem::internal)?;
    let audit =
        state.auth.audit_entry(&caller.audit_actor(), id, "tenant.change", id.as_str(), detail);
    let changed = state.auth.accounts().change_tenant(id, &change, &audit).await?;
    state.auth.forget_tenant(id);
    let Some(tenant) = changed else { return Err(no_tenant(id)) };
    state.engine.set_tenant_running_max(id, tenant.limits.running_max);
    Ok(to_wire(tenant))
}

fn parse_patch(patch: TenantPatch) -> Result<TenantChange> {
    let TenantPatch { name, subscription, limits, billing_id } = patch;
    let billing_id = match billing_id {
        Some(Some(id)) => Some(Some(label("the billing id", id)?)),
        other => other,
    };
    Ok(TenantChange {
        name: name.map(|name| label("the name", name)).transpose()?,
        subscription: subscription.map(to_wire::subscription_from),
        limits: parse_limits(limits)?,
        billing_id,
    })
}

fn parse_limits(patch: LimitsPatch) -> Result<LimitsChange> {
    let within = |name: &str, given: Option<u64>, least: u64, most: u64| match given {
        Some(given) if !(least..=most).contains(&given) => {
            Err(Problem::invalid(format_args!("{name} must be from {least} to {most}")))
        }
        Some(_) | None => Ok(()),
    };
    let LimitsPatch {
        requests_per_second,
        pending_max,
        running_max,
        stored_bytes_max,
        input_bytes_max,
    } = patch;
    let small = |given: Option<Option<u32>>| given.flatten().map(u64::from);
    within("requestsPerSecond", small(requests_per_second), 1, 1_000_000)?;
    within("pendingMax", pending_max.flatten(), 0, 1_000_000_000)?;
    within("runningMax", small(running_max), 1, 1_000_000)?;
    within("storedBytesMax", stored_bytes_max.flatten(), 0, 1_000_000_000_000_000)?;
    within("inputBytesMax", input_bytes_max.flatten(), 1, 64 << 20)?;
    Ok(LimitsChange {
        requests_per_s: requests_per_second,
        pending_max,
        running_max,
        stored_bytes_max,
        input_bytes_max,
    })
}

fn to_wire(tenant: Tenant) -> wire::Tenant {
    wire::Tenant {
        id: tenant.id.to_string(),
        name: tenant.name,
        subscription: to_wire::subscription(tenant.subscription),
        inactive_since: tenant.inactive_since.map(to_wire::instant),
        limits: TenantLimits {
            requests_per_second: tenant.limits.requests_per_s,
            pending_max: tenant.limits.pending_max,
            running_max: tenant.limits.running_max,
            stored_bytes_max: tenant.limits.stored_bytes_max,
            input_bytes_max: tenant.limits.input_bytes_max,
        },
        billing_id: tenant.billing_id,
        created_at: to_wire::instant(tenant.created_at),
    }
}
