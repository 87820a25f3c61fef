//! API keys: create, list, rotate and revoke.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul::Timestamp;
use longhaul::store::accounts::ApiKey;
use longhaul_client::wire::{Key, KeyList, KeyRequest, NewKey, RotateRequest};

use super::{label, no_tenant, tenant_id};
use crate::api::AppState;
use crate::api::http::body::{JsonBody, OptionalJsonBody};
use crate::api::http::caller::{Admin, Caller};
use crate::api::http::openapi::{AdminProblems, KeyProblems, NewKeyProblems, PageParams};
use crate::api::http::paging::{self, PageQuery};
use crate::api::http::params::{IdPath, Pairs, body_instant};
use crate::auth::{IssuedKey, KeySpec};
use crate::problem::{Code, Problem, Result};
use crate::to_wire;

/// Default time that a rotated key stays valid.
const OVERLAP_DEFAULT: Duration = Duration::from_hours(24);
const OVERLAP_MAX: Duration = Duration::from_hours(24 * 366);

/// Create an API key. The key is returned once and cannot be read again.
#[utoipa::path(
    post, path = "/v1/keys", operation_id = "createKey", tag = "accounts",
    request_body = KeyRequest,
    responses((status = 201, description = "The key.", body = NewKey), NewKeyProblems),
)]
pub(crate) async fn create_key(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    JsonBody(request): JsonBody<KeyRequest>,
) -> Result<(StatusCode, Json<NewKey>)> {
    Ok((StatusCode::CREATED, Json(create(&state, &caller, request).await?)))
}

pub(crate) async fn create(
    state: &AppState,
    caller: &Caller<Admin>,
    request: KeyRequest,
) -> Result<NewKey> {
    let spec = key_spec(request, state.auth.now())?;
    let issued = state.auth.create_key(&spec, &caller.audit_actor()).await?;
    issued.map(new_key).ok_or_else(|| no_tenant(&spec.tenant))
}

/// List API keys, including revoked and expired ones, without their secrets.
#[utoipa::path(
    get, path = "/v1/keys", operation_id = "listKeys", tag = "accounts",
    params(PageParams, ("tenant" = Option<String>, Query, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description = "Only keys of this tenant.")),
    responses((status = 200, description = "One page of keys.", body = KeyList), AdminProblems),
)]
pub(crate) async fn list_keys(
    State(state): State<AppState>,
    _: Caller<Admin>,
    query: Pairs,
) -> Result<Json<KeyList>> {
    Ok(Json(list(&state, query).await?))
}

pub(crate) async fn list(state: &AppState, query: Pairs) -> Result<KeyList> {
    let mut page = PageQuery::parse(query, &["tenant"])?;
    let tenant = page.take("tenant").map(|text| tenant_id(&text)).transpose()?;
    let (cursor, limit) = (page.cursor.as_deref(), page.limit);
    let mut keys = state.auth.accounts().keys(tenant.as_ref(), cursor, limit + 1).await?;
    let next_cursor = paging::next(&mut keys, limit, |key| key.id.clone());
    Ok(KeyList { keys: keys.into_iter().map(to_wire).collect(), next_cursor })
}

/// Revoke an API key. All replicas reject it within five seconds.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", operation_id = "revokeKey", tag = "accounts",
    params(("id" = String, Path, description = "The key's id.")),
    responses((status = 204, description = "Revoked."), KeyProblems),
)]
pub(crate) async fn revoke_key(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    IdPath(id): IdPath,
) -> Result<StatusCode> {
    revoke(&state, &caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

pub(crate) async fn revoke(state: &AppState, caller: &Caller<Admin>, id: &str) -> Result<()> {
    let revoked = state.auth.revoke_key(id, &caller.audit_actor()).await?;
    revoked.map(|_| ()).ok_or_else(no_key)
}

/// Rotate an API key. The old key stays valid for the overlap, 24 hours by default.
#[utoipa::path(
    post, path = "/v1/keys/{id}/rotate", operation_id = "rotateKey", tag = "accounts",
    params(("id" = String, Path, description = "The old key's id.")),
    request_body = Option<RotateRequest>,
    responses((status = 201, description = "The new key.", body = NewKey), NewKeyProblems),
)]
pub(crate) async fn rotate_key(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    IdPath(id): IdPath,
    OptionalJsonBody(RotateRequest { overlap }): OptionalJsonBody<RotateRequest>,
) -> Result<(StatusCode, Json<NewKey>)> {
    let overlap = overlap.map_or(OVERLAP_DEFAULT, |overlap| overlap.0);
    if overlap > OVERLAP_MAX {
        return Err(Problem::invalid("overlap must be at most 366d"));
    }
    let issued = state.auth.rotate_key(&id, overlap, &caller.audit_actor()).await?;
    issued.map(|issued| (StatusCode::CREATED, Json(new_key(issued)))).ok_or_else(no_key)
}

fn no_key() -> Problem {
    Problem::new(Code::KeyNotFound, "unknown, revoked or expired key")
}

fn key_spec(request: KeyRequest, now: Timestamp) -> Result<KeySpec> {
    let KeyRequest { tenant, name, scopes, expires_at, requests_per_second } = request;
    if scopes.is_empty() {
        return Err(Problem::invalid("scopes must not be empty: use submit, read, work or admin"));
    }
    let expires_at = body_instant("expiresAt", expires_at.as_ref())?;
    if expires_at.is_some_and(|at| at <= now) {
        return Err(Problem::invalid("expiresAt is in the past"));
    }
    if requests_per_second.is_some_and(|per_s| !(1..=1_000_000).contains(&per_s)) {
        return Err(Problem::invalid("requestsPerSecond must be from 1 to 1000000"));
    }
    Ok(KeySpec {
        tenant: tenant.as_deref().map_or(Ok(longhaul::TenantId::default()), tenant_id)?,
        name: label("the name", name)?,
        scopes: scopes.into_iter().map(to_wire::scope_from).collect(),
        expires_at,
        requests_per_s: requests_per_second,
    })
}

fn new_key(issued: IssuedKey) -> NewKey {
    NewKey { key: issued.text.to_string(), metadata: to_wire(issued.key) }
}

fn to_wire(key: ApiKey) -> Key {
    Key {
        id: key.id,
        tenant: key.tenant.to_string(),
        name: key.name,
        scopes: key.scopes.iter().map(to_wire::scope).collect(),
        created_at: to_wire::instant(key.created_at),
        expires_at: key.expires_at.map(to_wire::instant),
        revoked_at: key.revoked_at.map(to_wire::instant),
        last_used_at: key.last_used_at.map(to_wire::instant),
        requests_per_second: key.requests_per_s,
        rotated_from: key.rotated_from,
    }
}
