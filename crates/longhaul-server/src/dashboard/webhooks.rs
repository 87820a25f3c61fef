//! Webhooks page: endpoints and deliveries.

mod deliveries;

pub(super) use deliveries::{delivery_cells, resend_button};

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use longhaul_client::wire::{Endpoint, EndpointPatch, EndpointRequest, NewEndpoint};
use maud::{Markup, html};

use super::components::{
    ACTIONS, ConfirmButton, empty_state, live_section, new_secret, post_button, table, time,
    token_field, truncated,
};
use super::form::Form;
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::AppState;
use crate::api::http::caller::{DeleteWebhooks, Inspect, ManageWebhooks, Permission, Read};
use crate::api::http::params::{IdPath, Pairs};
use crate::api::webhooks::endpoints;
use crate::problem::{Problem, Result};

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/webhooks", get(show).post(create))
        .route("/ui/webhooks/{id}/test", post(test))
        .route("/ui/webhooks/{id}/on", switch(true))
        .route("/ui/webhooks/{id}/off", switch(false))
        .route("/ui/webhooks/{id}/delete", post(delete))
        .route("/ui/deliveries/{id}", get(deliveries::show))
        .route("/ui/deliveries/{id}/resend", post(deliveries::resend))
}

async fn show(State(state): State<AppState>, ctx: PageContext<Inspect>) -> Result<Response> {
    page(&state, &ctx, None).await
}

async fn page<N: Permission>(
    state: &AppState,
    ctx: &PageContext<N>,
    created: Option<&NewEndpoint>,
) -> Result<Response> {
    let page = endpoints::list(state, &ctx.caller, Pairs::default()).await?;
    let sent =
        if ctx.may::<Read>() { Some(deliveries::list(ctx, &page.endpoints).await?) } else { None };
    let content = html! {
        h1 { "Webhooks" }
        @if let Some(created) = created { (endpoint_secret(created)) }
        section aria-labelledby="endpoints-title" {
            h2 #endpoints-title { "Endpoints" }
            @if page.endpoints.is_empty() {
                (empty_state(
                    "No endpoints. An endpoint receives the events of all your jobs:",
                    "longhaul endpoints create https://example.com/hooks",
                ))
            } @else {
                (table(
                    "Endpoints",
                    &["URL", "Events", "Status", "Created", ACTIONS],
                    page.endpoints.iter().map(|endpoint| row(ctx, endpoint)),
                ))
            }
            @if ctx.may::<ManageWebhooks>() { (create_form(ctx)) }
        }
        @if let Some(sent) = &sent {
            (live_section("deliveries", "Deliveries", sent))
        }
    };
    Ok(ctx.page("Webhooks", Section::Webhooks, &content))
}

fn row<N: Permission>(ctx: &PageContext<N>, endpoint: &Endpoint) -> Markup {
    let at = |what: &str| ctx.link(&format!("/ui/webhooks/{}/{what}", endpoint.id), &[]);
    let (switch, label) = if endpoint.enabled { ("off", "Disable") } else { ("on", "Enable") };
    html! {
        tr {
            td {
                (truncated(&endpoint.url, 120))
                @if !endpoint.description.is_empty() { p.soft { (endpoint.description) } }
            }
            td {
                @if endpoint.events.is_empty() { "All events" }
                @for event in &endpoint.events { span.label { (event) } }
            }
            td {
                @if endpoint.enabled { "Enabled" } @else { span.badge { "Disabled" } }
                @if let Some(reason) = &endpoint.disabled_reason { p.soft { (truncated(reason, 200)) } }
            }
            td { (time(&endpoint.created_at)) }
            td {
                div.choices {
                    @if ctx.may::<ManageWebhooks>() {
                        (post_button(&ctx.session, &at("test"), "Send test"))
                        (post_button(&ctx.session, &at(switch), label))
                    }
                    @if ctx.may::<DeleteWebhooks>() { (delete_button(ctx, endpoint, &at("delete"))) }
                }
            }
        }
    }
}

fn delete_button<N: Permission>(ctx: &PageContext<N>, endpoint: &Endpoint, action: &str) -> Markup {
    let button = ConfirmButton {
        id: &format!("delete-{}", endpoint.id),
        button: "Delete…",
        about: &endpoint.url,
        question: "Delete this endpoint?",
        effect: html! {
            p {
                (truncated(&endpoint.url, 120))
                " receives no more events, and its pending deliveries fail. Its secret is deleted. This \
                 cannot be undone."
            }
        },
        confirm: "Delete endpoint",
        action,
        is_final: true,
    };
    button.show(&ctx.session, &html! {})
}

/// Renders the secret of a new endpoint.
fn endpoint_secret(created: &NewEndpoint) -> Markup {
    let url = truncated(&created.endpoint.url, 120);
    let note = format!(
        "Use it to verify the signatures of deliveries to {url}. Copy it now: it is not shown again."
    );
    new_secret("Secret of the new endpoint", &note, &created.secret)
}

fn create_form<N: Permission>(ctx: &PageContext<N>) -> Markup {
    html! {
        form.inline method="post" action=(ctx.link("/ui/webhooks", &[]))
            aria-label="Create endpoint" {
            (token_field(&ctx.session))
            label.grow {
                "URL" input name="url" type="url" required placeholder="https://example.com/hooks";
            }
            label { "Description" input name="description" maxlength="200"; }
            label {
                "Events"
                input name="events" placeholder="All, or job.failed job.completed" size="28";
            }
            button.primary { "Create endpoint" }
        }
    }
}

async fn create(
    State(state): State<AppState>,
    ctx: PageContext<ManageWebhooks>,
    form: Form,
) -> Result<Response> {
    let events = form.text("events").map(|text| {
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Vec<String>>()
    });
    let request = EndpointRequest {
        url: form.text("url").unwrap_or_default(),
        description: form.text("description"),
        events,
        payload: None,
    };
    let created = endpoints::create(&state, &ctx.caller, request).await?;
    // Not a redirect, because only this response shows the secret.
    page(&state, &ctx, Some(&created)).await
}

async fn test(
    State(state): State<AppState>,
    ctx: PageContext<ManageWebhooks>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response> {
    endpoints::send_test(&state, &ctx.caller, &id).await?;
    Ok(ctx.done("/ui/webhooks", "test"))
}

/// Returns the route that enables or disables an endpoint.
fn switch(enabled: bool) -> MethodRouter<AppState> {
    post(
        async move |State(state): State<AppState>,
                    ctx: PageContext<ManageWebhooks>,
                    IdPath(id): IdPath,
                    _: Form| {
            let patch = EndpointPatch { enabled: Some(enabled), ..EndpointPatch::default() };
            endpoints::change(&state, &ctx.caller, &id, patch).await?;
            let did = if enabled { "endpoint-on" } else { "endpoint-off" };
            Ok::<_, Problem>(ctx.done("/ui/webhooks", did))
        },
    )
}

async fn delete(
    State(state): State<AppState>,
    ctx: PageContext<DeleteWebhooks>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response> {
    endpoints::delete(&state, &ctx.caller, &id).await?;
    Ok(ctx.done("/ui/webhooks", "endpoint-gone"))
}
