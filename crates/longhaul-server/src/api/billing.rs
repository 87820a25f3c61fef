//! Billing events from Stripe.
//!
//! Stripe signs each event, retries it until it gets a 2xx, and does not keep the order. The secret can suspend
//! tenants, so the signature is checked before the event is parsed.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod signature;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use longhaul::store::accounts::{Actor, BillingEvent, Subscription};
use longhaul::{TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::AppState;
use crate::api::http::body;
use crate::api::http::load_shedding::Class;
use crate::api::http::openapi::BillingProblems;
use crate::api::http::routes::Routes;
use crate::auth::AuditContext;
use crate::problem::{Code, Problem, Result};
use crate::request_id::RequestId;

/// Largest event. Stripe's are far smaller.
const EVENT_BYTES_MAX: usize = 1 << 20;
const STRIPE_SIGNATURE: &str = "stripe-signature";

pub(super) fn router() -> Routes {
    Routes::new().public(Class::Normal, routes!(take_stripe_event))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BillingResult {
    /// `true` if the event changed the subscription of a tenant.
    applied: bool,
}

/// The fields of Stripe's event that are used here.
#[derive(Debug, Deserialize)]
struct StripeEvent {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    /// Seconds since 1970.
    created: i64,
    data: StripeData,
}

#[derive(Debug, Deserialize)]
struct StripeData {
    object: StripeObject,
}

#[derive(Debug, Deserialize)]
struct StripeObject {
    customer: Option<String>,
    status: Option<String>,
}

/// Receive a subscription event from Stripe.
///
/// Authenticated by Stripe's signature; needs no API key. Applies to the tenant whose `billingId` is the event's
/// customer.
#[utoipa::path(
    post, path = "/v1/billing/stripe", operation_id = "takeStripeEvent", tag = "accounts",
    params(("Stripe-Signature" = String, Header, description = "Stripe's signature, `t=…,v1=…`.")),
    request_body(content = serde_json::Value, description = "The event.", content_type = "application/json"),
    responses((status = 200, description = "Event accepted.", body = BillingResult), BillingProblems),
)]
async fn take_stripe_event(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BillingResult>> {
    let unsigned = || Problem::new(Code::Unauthorized, "the header Stripe-Signature is missing");
    let given = headers.get(STRIPE_SIGNATURE).ok_or_else(unsigned)?.to_str().ok();
    let Some(secret) = &state.stripe_secret else {
        return Err(Problem::new(Code::BillingOff, "set billing.stripe_secret to accept events"));
    };
    let text = body::json_text(&headers, body, EVENT_BYTES_MAX).await?;
    let now = state.auth.now();
    signature::check(secret.expose(), given.unwrap_or_default(), text.as_bytes(), now).map_err(
        |why| Problem::new(Code::Unauthorized, format!("invalid Stripe-Signature: {why}")),
    )?;
    let event: StripeEvent = body::outer_object(&text)?;
    let Some(event) = parse_event(event) else { return Ok(Json(BillingResult { applied: false })) };
    let request_id = headers.get(crate::request_id::X_REQUEST_ID);
    let request_id = request_id.map_or_else(RequestId::fresh, |_| RequestId::of(&headers));
    let context = AuditContext { actor: Actor::Billing, request_id: request_id.to_string() };
    let detail = format!("{}: {}", event.id, event.subscription.as_str());
    // The store fills in the tenants once it has found them.
    let audit = state.auth.audit_entry(
        &context,
        &TenantId::default(),
        "tenant.billed",
        &event.billing_id,
        detail,
    );
    let tenants = state.auth.accounts().apply_billing(&event, &audit).await?;
    for tenant in &tenants {
        state.auth.forget_tenant(&tenant.id);
    }
    if tenants.is_empty() {
        tracing::warn!(event.id = event.id, "billing event for a customer without a tenant");
    }
    Ok(Json(BillingResult { applied: !tenants.is_empty() }))
}

/// Returns the subscription change of an event, or `None` if it is about something else.
fn parse_event(event: StripeEvent) -> Option<BillingEvent> {
    let subscription = match event.kind.as_str() {
        "customer.subscription.created"
        | "customer.subscription.updated"
        | "customer.subscription.paused"
        | "customer.subscription.resumed" => subscription(event.data.object.status.as_deref()?)?,
        "customer.subscription.deleted" => Subscription::Suspended,
        _ => return None,
    };
    Some(BillingEvent {
        id: event.id,
        billing_id: event.data.object.customer?,
        subscription,
        at: Timestamp::from_millis(event.created.saturating_mul(1_000)),
    })
}

/// Maps Stripe's subscription status; `None` if it is unknown.
fn subscription(status: &str) -> Option<Subscription> {
    match status {
        "active" | "trialing" => Some(Subscription::Active),
        "past_due" | "incomplete" => Some(Subscription::PastDue),
        "unpaid" | "canceled" | "incomplete_expired" | "paused" => Some(Subscription::Suspended),
        _ => None,
    }
}
