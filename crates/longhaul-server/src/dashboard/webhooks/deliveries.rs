//! Deliveries: all of them, and one with what its receiver said.

use axum::extract::State;
use axum::response::Response;
use longhaul::store::{Filter, PageRequest};
use longhaul::{JobId, Status};
use longhaul_client::wire::{self, Delivery, DeliveryAttempt, Endpoint};
use maud::{Markup, html};

use crate::api::AppState;
use crate::api::http::caller::{Permission, Read, Submit};
use crate::api::http::params::{IdPath, Pairs, bad};
use crate::api::webhooks::{deliveries, endpoints};
use crate::dashboard::form::Form;
use crate::dashboard::layout::Place;
use crate::dashboard::parts::{cut, status, token, told};
use crate::dashboard::view::View;
use crate::problem::Problem;
use crate::to_wire;

const PAGE: usize = 50;

/// One page of deliveries, with the links to others.
pub(super) async fn list<N: Permission>(
    view: &View<N>,
    endpoints: &[Endpoint],
) -> Result<Markup, Problem> {
    let asked = view.asked("status").map(|word| word.parse::<wire::Status>().map_err(bad));
    let asked = asked.transpose()?;
    let before = view.asked("cursor").map(|text| {
        text.parse::<JobId>().map_err(|()| bad("the cursor is not one that a page gave"))
    });
    let filter = Filter {
        statuses: asked.map(to_wire::status_from).into_iter().collect(),
        ..Filter::default()
    };
    let page = PageRequest { limit: PAGE, before: before.transpose()? };
    let found = deliveries::list(&view.caller.engine.outbox(), &filter, &page).await?;
    let word = asked.map(wire::Status::as_str).unwrap_or_default();
    Ok(html! {
        nav.tabs aria-label="Deliveries by status" {
            (tab(view, "", "all", word))
            (tab(view, "pending", "on their way", word))
            (tab(view, "completed", "arrived", word))
            (tab(view, "failed", "given up", word))
        }
        @if found.deliveries.is_empty() {
            p.soft { "There are none." }
        } @else {
            (table(view, &found.deliveries, endpoints))
        }
        @if let Some(next) = &found.next_cursor {
            nav.pages aria-label="Pages of deliveries" {
                a rel="next" href=(view.link("/ui/webhooks", &[("status", word), ("cursor", next)])) {
                    "Older"
                }
            }
        }
    })
}

fn tab<N: Permission>(view: &View<N>, word: &str, said: &str, shown: &str) -> Markup {
    let query: &[(&str, &str)] = if word.is_empty() { &[] } else { &[("status", word)] };
    let url = view.link("/ui/webhooks", query);
    html! {
        @if word == shown {
            a href=(url) aria-current="page" { (said) }
        } @else {
            a href=(url) { (said) }
        }
    }
}

fn table<N: Permission>(view: &View<N>, deliveries: &[Delivery], endpoints: &[Endpoint]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table of deliveries" {
            table.rows {
                thead {
                    tr {
                        th { "Delivery" } th { "Event" } th { "Job" } th { "To" } th { "Status" }
                        th { "Attempt" } th { "When" } th { span.unseen { "What can be done" } }
                    }
                }
                tbody { @for delivery in deliveries { (row(view, delivery, endpoints)) } }
            }
        }
    }
}

fn row<N: Permission>(view: &View<N>, delivery: &Delivery, endpoints: &[Endpoint]) -> Markup {
    let url = view.link(&format!("/ui/deliveries/{}", delivery.delivery_id), &[]);
    html! {
        tr data-row=(url) {
            td { a.id href=(url) title=(delivery.delivery_id) { (last(&delivery.delivery_id)) } }
            td { (delivery.event) }
            td {
                @if let Some(job) = &delivery.job_id {
                    a.id href=(view.link(&format!("/ui/jobs/{job}"), &[])) title=(job) { (last(job)) }
                }
                @else { span.soft { "–" } }
            }
            td.said title=[delivery.endpoint_id.as_deref()] { (receiver(delivery, endpoints)) }
            td {
                (status(to_wire::status_from(delivery.status)))
                @if let Some(error) = &delivery.error { p.error-text { (cut(error, 200)) } }
            }
            td { (delivery.attempt) " of " (delivery.max_attempts) }
            td { (told(delivery.timestamp.as_str())) }
            td { (resending(view, delivery)) }
        }
    }
}

/// Where it goes: the URL, also of an endpoint that is still there.
fn receiver(delivery: &Delivery, endpoints: &[Endpoint]) -> String {
    let id = delivery.endpoint_id.as_deref();
    let known = endpoints.iter().find(|endpoint| Some(endpoint.id.as_str()) == id);
    let url = delivery.url.as_deref().or(known.map(|endpoint| endpoint.url.as_str()));
    cut(url.or(id).unwrap_or("–"), 80)
}

/// The end of an id, which tells it from its neighbours; its beginning is a time.
fn last(id: &str) -> String {
    let rest = id.char_indices().rev().nth(7).and_then(|(at, _)| id.get(at..));
    rest.map_or_else(|| id.to_owned(), |rest| format!("…{rest}"))
}

fn resending<N: Permission>(view: &View<N>, delivery: &Delivery) -> Markup {
    let may = view.may::<Submit>() && delivery.status.is_terminal();
    let action = view.link(&format!("/ui/deliveries/{}/resend", delivery.delivery_id), &[]);
    html! {
        @if may {
            form method="post" action=(action) { (token(&view.session)) button { "Resend" } }
        }
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: View<Read>,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let id = deliveries::delivery_id(&id)?;
    let known = endpoints::list(&state, &view.caller, Pairs::default()).await?;
    let delivery = deliveries::whole(&view.caller.engine.outbox(), id).await?;
    let stands = to_wire::status_from(delivery.status);
    let content = html! {
        section #delivery data-live aria-label="The delivery" {
            h1 { span.soft { (delivery.event) } " " code { (delivery.delivery_id) } }
            p.standing {
                (status(stands))
                span { "attempt " (delivery.attempt) " of " (delivery.max_attempts) }
                (resending(&view, &delivery))
            }
            @if let Some(error) = delivery.error.as_ref().filter(|_| stands != Status::Completed) {
                div.why role="note" aria-label="Error" { pre.error-text { (error) } }
            }
            dl.facts {
                dt { "To" } dd { (receiver(&delivery, &known.endpoints)) }
                dt { "Message" } dd { code { (delivery.message_id) } }
                @if let Some(job) = &delivery.job_id {
                    dt { "Job" }
                    dd { a href=(view.link(&format!("/ui/jobs/{job}"), &[])) { code { (job) } } }
                }
                dt { "Happened" } dd { (told(delivery.timestamp.as_str())) }
                dt { "Due" } dd { (told(delivery.run_at.as_str())) }
            }
            h2 { "What the receiver said" }
            @if delivery.attempts.is_empty() {
                p.soft { "Nothing yet." }
            } @else {
                (attempts(&delivery.attempts))
            }
        }
    };
    Ok(view.page("Delivery", Place::Webhooks, &content))
}

fn attempts(attempts: &[DeliveryAttempt]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Attempts of this delivery" {
            table {
                thead { tr { th { "When" } th { "Answer" } th { "Took" } th { "Said" } } }
                tbody {
                    @for attempt in attempts {
                        tr {
                            td { (told(attempt.at.as_str())) }
                            td {
                                @if let Some(status) = attempt.status {
                                    (status)
                                } @else {
                                    span.soft { "none" }
                                }
                            }
                            td { (attempt.latency_ms) " ms" }
                            td {
                                @if let Some(error) = &attempt.error {
                                    p.error-text { (cut(error, 400)) }
                                }
                                @if let Some(answer) = &attempt.answer {
                                    pre { (cut(answer, 1_000)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) async fn resend(
    view: View<Submit>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response, Problem> {
    let under_way = deliveries::resend(&view.caller, deliveries::delivery_id(&id)?).await?;
    Ok(view.done(&format!("/ui/deliveries/{under_way}"), "resend"))
}
