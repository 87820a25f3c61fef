//! List of deliveries, and the page of one delivery with its attempts.

use axum::extract::State;
use axum::response::Response;
use longhaul::store::{Filter, PageRequest};
use longhaul::{JobId, Status};
use longhaul_client::wire::{self, Delivery, DeliveryAttempt, Endpoint};
use maud::{Markup, html};

use crate::api::AppState;
use crate::api::http::caller::{ManageWebhooks, Permission, Read};
use crate::api::http::params::{IdPath, Pairs, bad};
use crate::api::webhooks::{deliveries, endpoints};
use crate::dashboard::components::{status, time, token_field, truncated};
use crate::dashboard::form::Form;
use crate::dashboard::layout::Section;
use crate::dashboard::page_context::PageContext;
use crate::problem::Problem;
use crate::to_wire;

const PAGE: usize = 50;

/// Renders one page of deliveries with tabs by status.
pub(super) async fn list<N: Permission>(
    ctx: &PageContext<N>,
    endpoints: &[Endpoint],
) -> Result<Markup, Problem> {
    let status_filter = ctx.param("status").map(|word| word.parse::<wire::Status>().map_err(bad));
    let status_filter = status_filter.transpose()?;
    let before =
        ctx.param("cursor").map(|text| text.parse::<JobId>().map_err(|()| bad("invalid cursor")));
    let filter = Filter {
        statuses: status_filter.map(to_wire::status_from).into_iter().collect(),
        ..Filter::default()
    };
    let page = PageRequest { limit: PAGE, before: before.transpose()? };
    let found = deliveries::list(&ctx.caller.engine.outbox(), &filter, &page).await?;
    let word = status_filter.map(wire::Status::as_str).unwrap_or_default();
    Ok(html! {
        nav.tabs aria-label="Deliveries by status" {
            (tab(ctx, "", "All", word))
            (tab(ctx, "pending", "Pending", word))
            (tab(ctx, "completed", "Delivered", word))
            (tab(ctx, "failed", "Failed", word))
        }
        @if found.deliveries.is_empty() {
            p.soft { "No deliveries." }
        } @else {
            (table(ctx, &found.deliveries, endpoints))
        }
        @if let Some(next) = &found.next_cursor {
            nav.pages aria-label="Pages of deliveries" {
                a rel="next" href=(ctx.link("/ui/webhooks", &[("status", word), ("cursor", next)])) {
                    "Older"
                }
            }
        }
    })
}

fn tab<N: Permission>(ctx: &PageContext<N>, word: &str, label: &str, current: &str) -> Markup {
    let query: &[(&str, &str)] = if word.is_empty() { &[] } else { &[("status", word)] };
    let url = ctx.link("/ui/webhooks", query);
    html! {
        @if word == current {
            a href=(url) aria-current="page" { (label) }
        } @else {
            a href=(url) { (label) }
        }
    }
}

fn table<N: Permission>(
    ctx: &PageContext<N>,
    deliveries: &[Delivery],
    endpoints: &[Endpoint],
) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table of deliveries" {
            table.rows {
                thead {
                    tr {
                        th { "Delivery" } th { "Event" } th { "Job" } th { "To" } th { "Status" }
                        th { "Attempt" } th { "Time" } th { span.visually-hidden { "Actions" } }
                    }
                }
                tbody { @for delivery in deliveries { (row(ctx, delivery, endpoints)) } }
            }
        }
    }
}

fn row<N: Permission>(ctx: &PageContext<N>, delivery: &Delivery, endpoints: &[Endpoint]) -> Markup {
    let url = ctx.link(&format!("/ui/deliveries/{}", delivery.delivery_id), &[]);
    html! {
        tr data-row=(url) {
            td { a.id href=(url) title=(delivery.delivery_id) { (short_id(&delivery.delivery_id)) } }
            td { (delivery.event) }
            td {
                @if let Some(job) = &delivery.job_id {
                    a.id href=(ctx.link(&format!("/ui/jobs/{job}"), &[])) title=(job) { (short_id(job)) }
                }
                @else { span.soft { "–" } }
            }
            td.details title=[delivery.endpoint_id.as_deref()] { (destination(delivery, endpoints)) }
            td {
                (status(to_wire::status_from(delivery.status)))
                @if let Some(error) = &delivery.error { p.error-text { (truncated(error, 200)) } }
            }
            td { (delivery.attempt) " of " (delivery.max_attempts) }
            td { (time(&delivery.timestamp)) }
            td { (resend_button(ctx, delivery)) }
        }
    }
}

/// Returns the URL of the delivery or of its endpoint, or the id of a deleted endpoint.
fn destination(delivery: &Delivery, endpoints: &[Endpoint]) -> String {
    let id = delivery.endpoint_id.as_deref();
    let known = endpoints.iter().find(|endpoint| Some(endpoint.id.as_str()) == id);
    let url = delivery.url.as_deref().or(known.map(|endpoint| endpoint.url.as_str()));
    truncated(url.or(id).unwrap_or("–"), 80)
}

/// Returns the last 8 characters of an id. They differ between neighbours, whereas the beginning is a time.
fn short_id(id: &str) -> String {
    let rest = id.char_indices().rev().nth(7).and_then(|(at, _)| id.get(at..));
    rest.map_or_else(|| id.to_owned(), |rest| format!("…{rest}"))
}

fn resend_button<N: Permission>(ctx: &PageContext<N>, delivery: &Delivery) -> Markup {
    let may_resend = ctx.may::<ManageWebhooks>() && delivery.status.is_terminal();
    let action = ctx.link(&format!("/ui/deliveries/{}/resend", delivery.delivery_id), &[]);
    html! {
        @if may_resend {
            form method="post" action=(action) { (token_field(&ctx.session)) button { "Resend" } }
        }
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    ctx: PageContext<Read>,
    IdPath(id): IdPath,
) -> Result<Response, Problem> {
    let id = deliveries::delivery_id(&id)?;
    let known = endpoints::list(&state, &ctx.caller, Pairs::default()).await?;
    let delivery = deliveries::with_attempts(&ctx.caller.engine.outbox(), id).await?;
    let delivery_status = to_wire::status_from(delivery.status);
    let content = html! {
        section #delivery data-live aria-label="Delivery" {
            h1 { span.soft { (delivery.event) } " " code { (delivery.delivery_id) } }
            p.headline {
                (status(delivery_status))
                span { "Attempt " (delivery.attempt) " of " (delivery.max_attempts) }
                (resend_button(&ctx, &delivery))
            }
            @if let Some(error) = delivery.error.as_ref().filter(|_| delivery_status != Status::Completed) {
                div.error-box role="note" aria-label="Error" { pre.error-text { (error) } }
            }
            dl.facts {
                dt { "To" } dd { (destination(&delivery, &known.endpoints)) }
                dt { "Message" } dd { code { (delivery.message_id) } }
                @if let Some(job) = &delivery.job_id {
                    dt { "Job" }
                    dd { a href=(ctx.link(&format!("/ui/jobs/{job}"), &[])) { code { (job) } } }
                }
                dt { "Occurred" } dd { (time(&delivery.timestamp)) }
                dt { "Due" } dd { (time(&delivery.run_at)) }
            }
            h2 { "Attempts" }
            @if delivery.attempts.is_empty() {
                p.soft { "Nothing yet." }
            } @else {
                (attempts(&delivery.attempts))
            }
        }
    };
    Ok(ctx.page("Delivery", Section::Webhooks, &content))
}

fn attempts(attempts: &[DeliveryAttempt]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Attempts of this delivery" {
            table {
                thead { tr { th { "Time" } th { "Response" } th { "Duration" } th { "Body" } } }
                tbody {
                    @for attempt in attempts {
                        tr {
                            td { (time(&attempt.at)) }
                            td {
                                @if let Some(status) = attempt.status {
                                    (status)
                                } @else {
                                    span.soft { "None" }
                                }
                            }
                            td { (attempt.latency_ms) " ms" }
                            td {
                                @if let Some(error) = &attempt.error {
                                    p.error-text { (truncated(error, 400)) }
                                }
                                @if let Some(answer) = &attempt.answer {
                                    pre { (truncated(answer, 1_000)) }
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
    ctx: PageContext<ManageWebhooks>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response, Problem> {
    let resent = deliveries::resend(&ctx.caller, deliveries::delivery_id(&id)?).await?;
    Ok(ctx.done(&format!("/ui/deliveries/{resent}"), "resend"))
}
