//! Tenants: whose jobs there are, and whether they pay.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use longhaul::TenantId;
use longhaul_client::wire::{Subscription, Tenant, TenantLimits, TenantPatch, TenantRequest};
use maud::{Markup, html};

use super::form::{Form, invalid};
use super::layout::Place;
use super::parts::{bytes, count, empty, token, told};
use super::view::View;
use crate::api::AppState;
use crate::api::accounts::tenants;
use crate::api::http::caller::Admin;
use crate::api::http::params::{IdPath, Pairs, bad};
use crate::problem::Problem;

const SUBSCRIPTIONS: [(Subscription, &str, &str); 3] = [
    (Subscription::Active, "active", "active"),
    (Subscription::PastDue, "past_due", "past due"),
    (Subscription::Suspended, "suspended", "suspended"),
];

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/tenants", get(show).post(create))
        .route("/ui/tenants/{id}/subscription", post(subscribe))
}

async fn show(State(state): State<AppState>, view: View<Admin>) -> Result<Response, Problem> {
    let found = tenants::list(&state, Pairs(view.query.clone())).await?;
    let content = html! {
        h1 { "Tenants" }
        section aria-labelledby="wanted-title" {
            h2 #wanted-title { "Make a tenant" }
            form.inline method="post" action="/ui/tenants" {
                (token(&view.session))
                label {
                    "Id"
                    input name="id" required pattern="[0-9A-Za-z][0-9A-Za-z._\\-]{0,63}"
                        placeholder="acme" size="16";
                }
                label { "Name" input name="name" maxlength="200" placeholder="as its id"; }
                button.primary { "Make the tenant" }
            }
        }
        section aria-labelledby="tenants-title" {
            h2 #tenants-title { "All tenants" }
            @if found.tenants.is_empty() {
                (empty(
                    "There is only the tenant default, which needs no account. Make one for each \
                     customer:",
                    "longhaul tenants create acme --name 'Acme Ltd'",
                ))
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Tenants" {
                    table {
                        thead {
                            tr {
                                th { "Tenant" } th { "Name" } th { "Subscription" } th { "Limits" }
                                th { "Made" } th { span.unseen { "What can be done" } }
                            }
                        }
                        tbody { @for tenant in &found.tenants { (row(&view, tenant)) } }
                    }
                }
            }
            @if let Some(next) = &found.next_cursor {
                nav.pages aria-label="Pages of tenants" {
                    a rel="next" href=(view.link("/ui/tenants", &[("cursor", next)])) { "More" }
                }
            }
        }
    };
    Ok(view.page("Tenants", Place::Tenants, &content))
}

fn row(view: &View<Admin>, tenant: &Tenant) -> Markup {
    let action = format!("/ui/tenants/{}/subscription", tenant.id);
    html! {
        tr {
            td { a href=(format!("/ui/jobs?tenant={}", tenant.id)) { (tenant.id) } }
            td { (tenant.name) }
            td {
                form.inline method="post" action=(action) {
                    (token(&view.session))
                    select name="subscription" aria-label=(format!("Subscription of {}", tenant.id)) {
                        @for (subscription, word, said) in SUBSCRIPTIONS {
                            option value=(word) selected[subscription == tenant.subscription] {
                                (said)
                            }
                        }
                    }
                    button { "Change" }
                }
                @if let Some(since) = &tenant.inactive_since {
                    span.soft { "since " (told(since.as_str())) }
                }
            }
            td { (limits(&tenant.limits)) }
            td { (told(tenant.created_at.as_str())) }
            td { a href=(format!("/ui/keys?tenant={}", tenant.id)) { "Keys" } }
        }
    }
}

fn limits(limits: &TenantLimits) -> Markup {
    let TenantLimits {
        requests_per_second,
        pending_max,
        running_max,
        stored_bytes_max,
        input_bytes_max,
    } = limits;
    html! {
        @if *limits == TenantLimits::default() { span.soft { "as the server's" } }
        @if let Some(most) = requests_per_second { span.label { (most) " requests/s" } }
        @if let Some(most) = pending_max { span.label { (count(*most)) " pending" } }
        @if let Some(most) = running_max { span.label { (most) " running" } }
        @if let Some(most) = stored_bytes_max { span.label { (bytes(*most)) " stored" } }
        @if let Some(most) = input_bytes_max { span.label { (bytes(*most)) " of input" } }
    }
}

async fn create(
    State(state): State<AppState>,
    view: View<Admin>,
    form: Form,
) -> Result<Response, Problem> {
    let request =
        TenantRequest { id: form.text("id").unwrap_or_default(), name: form.text("name") };
    tenants::create(&state, &view.caller, request).await?;
    Ok(view.done("/ui/tenants", "tenant"))
}

async fn subscribe(
    State(state): State<AppState>,
    view: View<Admin>,
    IdPath(id): IdPath,
    form: Form,
) -> Result<Response, Problem> {
    let word = form.text("subscription").unwrap_or_default();
    let found = SUBSCRIPTIONS.iter().find(|(_, known, _)| *known == word);
    let Some((subscription, _, _)) = found else {
        return Err(invalid(format!("{word:?} is not a subscription")));
    };
    let patch = TenantPatch { subscription: Some(*subscription), ..TenantPatch::default() };
    let id = TenantId::new(id).map_err(bad)?;
    tenants::change(&state, &view.caller, &id, patch).await?;
    Ok(view.done("/ui/tenants", "subscription"))
}
