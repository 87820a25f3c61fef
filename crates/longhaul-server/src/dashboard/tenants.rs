//! Tenants page: accounts, subscriptions and limits.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use longhaul::TenantId;
use longhaul_client::wire::{Subscription, Tenant, TenantLimits, TenantPatch, TenantRequest};
use maud::{Markup, html};

use super::components::{ACTIONS, bytes, count, empty_state, next_page, table, time, token_field};
use super::form::Form;
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::AppState;
use crate::api::accounts::tenants;
use crate::api::http::caller::Admin;
use crate::api::http::params::{IdPath, Pairs, bad};
use crate::problem::{Problem, Result};

const SUBSCRIPTIONS: [(Subscription, &str, &str); 3] = [
    (Subscription::Active, "active", "Active"),
    (Subscription::PastDue, "past_due", "Past due"),
    (Subscription::Suspended, "suspended", "Suspended"),
];

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/tenants", get(show).post(create))
        .route("/ui/tenants/{id}/subscription", post(subscribe))
}

async fn show(State(state): State<AppState>, ctx: PageContext<Admin>) -> Result<Response> {
    let page = tenants::list(&state, Pairs(ctx.query.clone())).await?;
    let next = page.next_cursor.as_deref();
    let next = next.map(|next| ctx.link("/ui/tenants", &[("cursor", next)]));
    let content = html! {
        h1 { "Tenants" }
        section aria-labelledby="create-title" {
            h2 #create-title { "Create a tenant" }
            form.inline method="post" action="/ui/tenants" {
                (token_field(&ctx.session))
                label {
                    "Id"
                    input name="id" required pattern="[0-9A-Za-z][0-9A-Za-z._\\-]{0,63}"
                        placeholder="acme" size="16";
                }
                label { "Name" input name="name" maxlength="200" placeholder="Same as the id"; }
                button.primary { "Create tenant" }
            }
        }
        section aria-labelledby="tenants-title" {
            h2 #tenants-title { "All tenants" }
            @if page.tenants.is_empty() {
                (empty_state(
                    "No tenants besides default, which needs no account. Create one for each customer:",
                    "longhaul tenants create acme --name 'Acme Ltd'",
                ))
            } @else {
                (table(
                    "Tenants",
                    &["Tenant", "Name", "Subscription", "Limits", "Created", ACTIONS],
                    page.tenants.iter().map(|tenant| row(&ctx, tenant)),
                ))
            }
            (next_page("Pages of tenants", "More", next))
        }
    };
    Ok(ctx.page("Tenants", Section::Tenants, &content))
}

fn row(ctx: &PageContext<Admin>, tenant: &Tenant) -> Markup {
    let action = format!("/ui/tenants/{}/subscription", tenant.id);
    html! {
        tr {
            td { a href=(format!("/ui/jobs?tenant={}", tenant.id)) { (tenant.id) } }
            td { (tenant.name) }
            td {
                form.inline method="post" action=(action) {
                    (token_field(&ctx.session))
                    select name="subscription" aria-label=(format!("Subscription of {}", tenant.id)) {
                        @for (subscription, word, label) in SUBSCRIPTIONS {
                            option value=(word) selected[subscription == tenant.subscription] {
                                (label)
                            }
                        }
                    }
                    button { "Change" }
                }
                @if let Some(since) = &tenant.inactive_since {
                    span.soft { "since " (time(since)) }
                }
            }
            td { (limits(&tenant.limits)) }
            td { (time(&tenant.created_at)) }
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
        @if *limits == TenantLimits::default() { span.soft { "Server defaults" } }
        @if let Some(max) = requests_per_second { span.label { (max) " requests/s" } }
        @if let Some(max) = pending_max { span.label { (count(*max)) " pending" } }
        @if let Some(max) = running_max { span.label { (max) " running" } }
        @if let Some(max) = stored_bytes_max { span.label { (bytes(*max)) " stored" } }
        @if let Some(max) = input_bytes_max { span.label { (bytes(*max)) " input" } }
    }
}

async fn create(
    State(state): State<AppState>,
    ctx: PageContext<Admin>,
    form: Form,
) -> Result<Response> {
    let request =
        TenantRequest { id: form.text("id").unwrap_or_default(), name: form.text("name") };
    tenants::create(&state, &ctx.caller, request).await?;
    Ok(ctx.done("/ui/tenants", "tenant"))
}

async fn subscribe(
    State(state): State<AppState>,
    ctx: PageContext<Admin>,
    IdPath(id): IdPath,
    form: Form,
) -> Result<Response> {
    let word = form.text("subscription").unwrap_or_default();
    let found = SUBSCRIPTIONS.iter().find(|(_, known, _)| *known == word);
    let Some((subscription, _, _)) = found else {
        return Err(Problem::invalid(format_args!("{word:?} is not a subscription status")));
    };
    let patch = TenantPatch { subscription: Some(*subscription), ..TenantPatch::default() };
    let id = TenantId::new(id).map_err(bad)?;
    tenants::change(&state, &ctx.caller, &id, patch).await?;
    Ok(ctx.done("/ui/tenants", "subscription"))
}
