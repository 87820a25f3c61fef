//! Webhook endpoints: create, change, test and delete.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use longhaul::JobId;
use longhaul::job::{Delivery, EventType, Receiver};
use longhaul::store::endpoints::{Endpoint, EndpointChange};
use longhaul_client::wire::{
    self, EndpointList, EndpointPatch, EndpointRequest, NewEndpoint, PayloadSize, RotateRequest,
    WebhookSecret,
};
use ulid::Ulid;

use super::{deliveries, event_filter};
use crate::api::AppState;
use crate::api::accounts::label;
use crate::api::http::body::{JsonBody, OptionalJsonBody};
use crate::api::http::caller::{Caller, DeleteWebhooks, Inspect, ManageWebhooks};
use crate::api::http::openapi::{
    EndpointProblems, ListProblems, NewEndpointProblems, PageParams, ReadProblems,
};
use crate::api::http::paging::{PageQuery, next};
use crate::api::http::params::{IdPath, Pairs};
use crate::problem::{Code, Problem, Result};
use crate::to_wire;
use crate::webhooks::signature::SigningSecret;

/// Default time that deliveries are also signed with the previous secret.
const OVERLAP_DEFAULT: Duration = Duration::from_hours(24);
const OVERLAP_MAX: Duration = Duration::from_hours(24 * 30);
/// Endpoints of one tenant. Limited because every job event may create a delivery for each.
const ENDPOINTS_MAX: usize = 100;

/// Create an endpoint. Its signing secret is returned once and cannot be read again.
///
/// From the response on, the endpoint receives the events of all jobs of the tenant, on every replica.
#[utoipa::path(
    post, path = "/v1/endpoints", operation_id = "createEndpoint", tag = "webhooks",
    request_body = EndpointRequest,
    responses((status = 201, description = "The endpoint.", body = NewEndpoint), NewEndpointProblems),
)]
pub(crate) async fn create_endpoint(
    State(state): State<AppState>,
    caller: Caller<ManageWebhooks>,
    JsonBody(request): JsonBody<EndpointRequest>,
) -> Result<(StatusCode, Json<NewEndpoint>)> {
    Ok((StatusCode::CREATED, Json(create(&state, &caller, request).await?)))
}

pub(crate) async fn create(
    state: &AppState,
    caller: &Caller<ManageWebhooks>,
    request: EndpointRequest,
) -> Result<NewEndpoint> {
    let EndpointRequest { url, description, events, payload } = request;
    let (webhooks, tenant) = (&state.webhooks, &caller.principal.tenant);
    webhooks.check(&url).await?;
    let known = webhooks.endpoints.endpoints(tenant, None, ENDPOINTS_MAX).await?;
    if known.len() >= ENDPOINTS_MAX {
        return Err(Problem::invalid(format_args!(
            "a tenant may have at most {ENDPOINTS_MAX} endpoints"
        )));
    }
    let id = format!("ep_{}", Ulid::generate());
    let (secret, now) = (SigningSecret::generate(), state.auth.now());
    let endpoint = Endpoint {
        tenant: tenant.clone(),
        url,
        description: label("the description", description.unwrap_or_default())?,
        events: event_filter(events.as_deref())?,
        full: payload == Some(PayloadSize::Full),
        enabled: true,
        disabled_reason: None,
        sealed_secret: webhooks.secrets.seal(&secret, tenant, &id),
        former_secret: None,
        created_at: now,
        changed_at: now,
        id,
    };
    let audit = caller.audit_entry("endpoint.create", &endpoint.id, endpoint.url.clone());
    webhooks.endpoints.create_endpoint(&endpoint, &audit).await?;
    wait_for_replicas(state).await;
    Ok(NewEndpoint { secret: secret.expose().to_string(), endpoint: to_wire(endpoint) })
}

/// Waits until all replicas use the changed endpoints.
async fn wait_for_replicas(state: &AppState) {
    state.clock.sleep(state.webhooks.endpoints.endpoint_propagation()).await;
}

/// List the tenant's endpoints, without their secrets.
#[utoipa::path(
    get, path = "/v1/endpoints", operation_id = "listEndpoints", tag = "webhooks",
    params(PageParams),
    responses((status = 200, description = "One page of endpoints.", body = EndpointList), ListProblems),
)]
pub(crate) async fn list_endpoints(
    State(state): State<AppState>,
    caller: Caller<Inspect>,
    query: Pairs,
) -> Result<Json<EndpointList>> {
    Ok(Json(list(&state, &caller, query).await?))
}

/// Returns one page of the tenant's endpoints.
pub(crate) async fn list<N>(
    state: &AppState,
    caller: &Caller<N>,
    query: Pairs,
) -> Result<EndpointList> {
    let query = PageQuery::parse(query, &[])?;
    let (cursor, limit) = (query.cursor.as_deref(), query.limit);
    let tenant = &caller.principal.tenant;
    let mut endpoints = state.webhooks.endpoints.endpoints(tenant, cursor, limit + 1).await?;
    let next_cursor = next(&mut endpoints, limit, |endpoint| endpoint.id.clone());
    Ok(EndpointList { endpoints: endpoints.into_iter().map(to_wire).collect(), next_cursor })
}

/// Read an endpoint.
#[utoipa::path(
    get, path = "/v1/endpoints/{id}", operation_id = "getEndpoint", tag = "webhooks",
    params(("id" = String, Path, description = "The endpoint's id.")),
    responses((status = 200, description = "The endpoint.", body = wire::Endpoint), EndpointProblems),
)]
pub(crate) async fn get_endpoint(
    State(state): State<AppState>,
    caller: Caller<Inspect>,
    IdPath(id): IdPath,
) -> Result<Json<wire::Endpoint>> {
    let found = state.webhooks.endpoints.endpoint(&caller.principal.tenant, &id).await?;
    found.map(to_wire).map(Json).ok_or_else(no_endpoint)
}

/// Change, enable or disable an endpoint.
#[utoipa::path(
    patch, path = "/v1/endpoints/{id}", operation_id = "changeEndpoint", tag = "webhooks",
    params(("id" = String, Path, description = "The endpoint's id.")),
    request_body = EndpointPatch,
    responses(
        (status = 200, description = "The endpoint.", body = wire::Endpoint),
        NewEndpointProblems,
    ),
)]
pub(crate) async fn change_endpoint(
    State(state): State<AppState>,
    caller: Caller<ManageWebhooks>,
    IdPath(id): IdPath,
    JsonBody(patch): JsonBody<EndpointPatch>,
) -> Result<Json<wire::Endpoint>> {
    Ok(Json(change(&state, &caller, &id, patch).await?))
}

pub(crate) async fn change(
    state: &AppState,
    caller: &Caller<ManageWebhooks>,
    id: &str,
    patch: EndpointPatch,
) -> Result<wire::Endpoint> {
    if let Some(url) = &patch.url {
        state.webhooks.check(url).await?;
    }
    let description = patch.description.map(|text| label("the description", text)).transpose()?;
    let change = EndpointChange {
        url: patch.url,
        description,
        events: patch.events.map(|events| event_filter(Some(&events))).transpose()?,
        full: patch.payload.map(|payload| payload == PayloadSize::Full),
        enabled: patch.enabled.map(|enabled| (enabled, None)),
        secret: None,
    };
    Ok(to_wire(apply(state, caller, id, change, "endpoint.change").await?))
}

async fn apply(
    state: &AppState,
    caller: &Caller<ManageWebhooks>,
    id: &str,
    change: EndpointChange,
    action: &str,
) -> Result<Endpoint> {
    let audit = caller.audit_entry(action, id, String::new());
    let endpoints = &state.webhooks.endpoints;
    let changed = endpoints.change_endpoint(&caller.principal.tenant, id, &change, &audit).await?;
    let changed = changed.ok_or_else(no_endpoint)?;
    wait_for_replicas(state).await;
    Ok(changed)
}

/// Delete an endpoint. Its pending deliveries become dead letters.
#[utoipa::path(
    delete, path = "/v1/endpoints/{id}", operation_id = "deleteEndpoint", tag = "webhooks",
    params(("id" = String, Path, description = "The endpoint's id.")),
    responses((status = 204, description = "Deleted."), EndpointProblems),
)]
pub(crate) async fn delete_endpoint(
    State(state): State<AppState>,
    caller: Caller<DeleteWebhooks>,
    IdPath(id): IdPath,
) -> Result<StatusCode> {
    delete(&state, &caller, &id).await.map(|()| StatusCode::NO_CONTENT)
}

pub(crate) async fn delete(
    state: &AppState,
    caller: &Caller<DeleteWebhooks>,
    id: &str,
) -> Result<()> {
    let audit = caller.audit_entry("endpoint.delete", id, String::new());
    let tenant = &caller.principal.tenant;
    if !state.webhooks.endpoints.delete_endpoint(tenant, id, &audit).await? {
        return Err(no_endpoint());
    }
    wait_for_replicas(state).await;
    Ok(())
}

/// Rotate an endpoint's signing secret. During the overlap, deliveries are also signed with the previous secret.
#[utoipa::path(
    post, path = "/v1/endpoints/{id}/rotate", operation_id = "rotateEndpointSecret",
    tag = "webhooks",
    params(("id" = String, Path, description = "The endpoint's id.")),
    request_body = Option<RotateRequest>,
    responses(
        (status = 200, description = "The endpoint with its new secret.", body = NewEndpoint),
        NewEndpointProblems,
    ),
)]
pub(crate) async fn rotate_endpoint_secret(
    State(state): State<AppState>,
    caller: Caller<ManageWebhooks>,
    IdPath(id): IdPath,
    OptionalJsonBody(RotateRequest { overlap }): OptionalJsonBody<RotateRequest>,
) -> Result<Json<NewEndpoint>> {
    let overlap = overlap.map_or(OVERLAP_DEFAULT, |overlap| overlap.0);
    if overlap > OVERLAP_MAX {
        return Err(Problem::invalid("overlap must be at most 30d"));
    }
    let secret = SigningSecret::generate();
    let sealed = state.webhooks.secrets.seal(&secret, &caller.principal.tenant, &id);
    let until = state.auth.now().after(overlap);
    let change = EndpointChange { secret: Some((sealed, until)), ..EndpointChange::default() };
    let endpoint = apply(&state, &caller, &id, change, "endpoint.rotate").await?;
    Ok(Json(NewEndpoint { secret: secret.expose().to_string(), endpoint: to_wire(endpoint) }))
}

/// Send a test event to an endpoint. The delivery shows the result.
#[utoipa::path(
    post, path = "/v1/endpoints/{id}/test", operation_id = "testEndpoint", tag = "webhooks",
    params(("id" = String, Path, description = "The endpoint's id.")),
    responses(
        (status = 202, description = "The pending delivery.", body = wire::Delivery),
        EndpointProblems,
    ),
)]
pub(crate) async fn try_endpoint(
    State(state): State<AppState>,
    caller: Caller<ManageWebhooks>,
    IdPath(id): IdPath,
) -> Result<(StatusCode, Json<wire::Delivery>)> {
    let delivered = send_test(&state, &caller, &id).await?;
    let delivery = deliveries::with_attempts(&caller.engine.outbox(), delivered).await?;
    Ok((StatusCode::ACCEPTED, Json(delivery)))
}

/// Sends a test event and returns the delivery's id.
pub(crate) async fn send_test(
    state: &AppState,
    caller: &Caller<ManageWebhooks>,
    id: &str,
) -> Result<JobId> {
    let found = state.webhooks.endpoints.endpoint(&caller.principal.tenant, id).await?;
    let endpoint = found.ok_or_else(no_endpoint)?;
    caller.audit("endpoint.test", &endpoint.id, String::new()).await?;
    let delivery = Delivery {
        message_id: format!("msg_{}", Ulid::generate()),
        event: EventType::Test,
        at: state.auth.now(),
        to: Receiver::Endpoint(endpoint.id),
        job: None,
        result: None,
        before: None,
    };
    Ok(caller.engine.deliver(&delivery).await?)
}

/// Read the tenant's default signing secret, for webhooks that were submitted without one.
///
/// Derived from the server's key and the tenant. While the server's key is rotated, deliveries are also signed with
/// the previous secret.
#[utoipa::path(
    get, path = "/v1/webhooks/secret", operation_id = "getWebhookSecret", tag = "webhooks",
    responses((status = 200, description = "The secret.", body = WebhookSecret), ReadProblems),
)]
pub(crate) async fn get_webhook_secret(
    State(state): State<AppState>,
    caller: Caller<ManageWebhooks>,
) -> Json<WebhookSecret> {
    let secret = state.webhooks.secrets.of_tenant(&caller.principal.tenant);
    Json(WebhookSecret { secret: secret.expose().to_string() })
}

fn no_endpoint() -> Problem {
    Problem::new(Code::EndpointNotFound, "unknown endpoint")
}

fn to_wire(endpoint: Endpoint) -> wire::Endpoint {
    wire::Endpoint {
        id: endpoint.id,
        url: endpoint.url,
        description: endpoint.description,
        events: endpoint.events.events().iter().map(ToString::to_string).collect(),
        payload: if endpoint.full { PayloadSize::Full } else { PayloadSize::Thin },
        enabled: endpoint.enabled,
        disabled_reason: endpoint.disabled_reason,
        former_secret_until: endpoint.former_secret.map(|(_, until)| to_wire::instant(until)),
        created_at: to_wire::instant(endpoint.created_at),
        changed_at: to_wire::instant(endpoint.changed_at),
    }
}
