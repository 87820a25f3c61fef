//! Endpoints, and what they were told.

mod deliveries;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use longhaul_client::wire::{Endpoint, EndpointPatch, EndpointRequest, NewEndpoint};
use maud::{Markup, html};

use super::form::Form;
use super::layout::Place;
use super::parts::{Ask, cut, empty, token, told};
use super::view::View;
use crate::api::AppState;
use crate::api::http::caller::{Control, Inspect, Permission, Read, Submit};
use crate::api::http::params::{IdPath, Pairs};
use crate::api::webhooks::endpoints;
use crate::problem::Problem;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/webhooks", get(show).post(create))
        .route("/ui/webhooks/{id}/test", post(test))
        .route("/ui/webhooks/{id}/on", post(switch_on))
        .route("/ui/webhooks/{id}/off", post(switch_off))
        .route("/ui/webhooks/{id}/delete", post(delete))
        .route("/ui/deliveries/{id}", get(deliveries::show))
        .route("/ui/deliveries/{id}/resend", post(deliveries::resend))
}

async fn show(State(state): State<AppState>, view: View<Inspect>) -> Result<Response, Problem> {
    page(&state, &view, None).await
}

async fn page<N: Permission>(
    state: &AppState,
    view: &View<N>,
    made: Option<&NewEndpoint>,
) -> Result<Response, Problem> {
    let found = endpoints::list(state, &view.caller, Pairs::default()).await?;
    let sent = if view.may::<Read>() {
        Some(deliveries::list(view, &found.endpoints).await?)
    } else {
        None
    };
    let content = html! {
        h1 { "Webhooks" }
        @if let Some(made) = made { (fresh(made)) }
        section aria-labelledby="endpoints-title" {
            h2 #endpoints-title { "Endpoints" }
            @if found.endpoints.is_empty() {
                (empty(
                    "Nobody is told of what happens to your jobs. An endpoint is told of all of them:",
                    "longhaul endpoints create https://example.com/hooks",
                ))
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Endpoints" {
                    table {
                        thead {
                            tr {
                                th { "URL" } th { "Told of" } th { "Stands" } th { "Made" }
                                th { span.unseen { "What can be done" } }
                            }
                        }
                        tbody { @for endpoint in &found.endpoints { (row(view, endpoint)) } }
                    }
                }
            }
            @if view.may::<Submit>() { (wanted(view)) }
        }
        @if let Some(sent) = &sent {
            section #deliveries data-live aria-labelledby="deliveries-title" {
                h2 #deliveries-title { "Deliveries" }
                (sent)
            }
        }
    };
    Ok(view.page("Webhooks", Place::Webhooks, &content))
}

fn row<N: Permission>(view: &View<N>, endpoint: &Endpoint) -> Markup {
    let at = |what: &str| view.link(&format!("/ui/webhooks/{}/{what}", endpoint.id), &[]);
    let (switch, said) = if endpoint.enabled { ("off", "Switch off") } else { ("on", "Switch on") };
    html! {
        tr {
            td {
                (cut(&endpoint.url, 120))
                @if !endpoint.description.is_empty() { p.soft { (endpoint.description) } }
            }
            td {
                @if endpoint.events.is_empty() { "everything" }
                @for event in &endpoint.events { span.label { (event) } }
            }
            td {
                @if endpoint.enabled { "on" } @else { span.badge { "off" } }
                @if let Some(reason) = &endpoint.disabled_reason { p.soft { (cut(reason, 200)) } }
            }
            td { (told(endpoint.created_at.as_str())) }
            td {
                div.choices {
                    @if view.may::<Submit>() {
                        form method="post" action=(at("test")) {
                            (token(&view.session)) button { "Send a test" }
                        }
                        form method="post" action=(at(switch)) {
                            (token(&view.session)) button { (said) }
                        }
                    }
                    @if view.may::<Control>() { (deleting(view, endpoint, &at("delete"))) }
                }
            }
        }
    }
}

fn deleting<N: Permission>(view: &View<N>, endpoint: &Endpoint, action: &str) -> Markup {
    let ask = Ask {
        id: &format!("delete-{}", endpoint.id),
        button: "Delete…",
        about: &endpoint.url,
        question: "Delete this endpoint?",
        effect: html! {
            p {
                (cut(&endpoint.url, 120))
                " is told of nothing any more, and what is still owed to it is given up. Its secret \
                 is gone. This cannot be undone."
            }
        },
        confirm: "Delete the endpoint",
        action,
        is_final: true,
    };
    ask.show(&view.session, &html! {})
}

/// An endpoint that was just made: the only time that its secret is shown.
fn fresh(made: &NewEndpoint) -> Markup {
    html! {
        section.fresh role="status" aria-labelledby="fresh-title" {
            h2 #fresh-title { "The secret of the new endpoint" }
            p {
                (cut(&made.endpoint.url, 120))
                " checks signatures with it. Copy it now: it is not shown again."
            }
            p.tools {
                code #fresh-key { (made.secret) }
                button type="button" data-copy-of="fresh-key" { "Copy" }
            }
        }
    }
}

fn wanted<N: Permission>(view: &View<N>) -> Markup {
    html! {
        form.inline method="post" action=(view.link("/ui/webhooks", &[]))
            aria-label="Make an endpoint" {
            (token(&view.session))
            label.grow {
                "URL" input name="url" type="url" required placeholder="https://example.com/hooks";
            }
            label { "Description" input name="description" maxlength="200"; }
            label {
                "Events"
                input name="events" placeholder="all, or job.failed job.completed" size="28";
            }
            button.primary { "Make the endpoint" }
        }
    }
}

async fn create(
    State(state): State<AppState>,
    view: View<Submit>,
    form: Form,
) -> Result<Response, Problem> {
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
    let made = endpoints::create(&state, &view.caller, request).await?;
    // Not a redirect: the secret is shown in this answer, and then nowhere.
    page(&state, &view, Some(&made)).await
}

async fn test(
    State(state): State<AppState>,
    view: View<Submit>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response, Problem> {
    endpoints::send_test(&state, &view.caller, &id).await?;
    Ok(view.done("/ui/webhooks", "test"))
}

async fn switch_on(
    State(state): State<AppState>,
    view: View<Submit>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response, Problem> {
    switch(&state, &view, &id, true).await
}

async fn switch_off(
    State(state): State<AppState>,
    view: View<Submit>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response, Problem> {
    switch(&state, &view, &id, false).await
}

async fn switch(
    state: &AppState,
    view: &View<Submit>,
    id: &str,
    on: bool,
) -> Result<Response, Problem> {
    let patch = EndpointPatch { enabled: Some(on), ..EndpointPatch::default() };
    endpoints::change(state, &view.caller, id, patch).await?;
    Ok(view.done("/ui/webhooks", if on { "endpoint-on" } else { "endpoint-off" }))
}

async fn delete(
    State(state): State<AppState>,
    view: View<Control>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response, Problem> {
    endpoints::delete(&state, &view.caller, &id).await?;
    Ok(view.done("/ui/webhooks", "endpoint-gone"))
}
