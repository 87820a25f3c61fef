//! List of deliveries, and the page of one delivery with its attempts.

use axum::extract::State;
use axum::response::Response;
use longhaul::JobId;
use longhaul::store::{Filter, PageRequest};
use longhaul_client::wire::{Delivery, DeliveryAttempt, Endpoint, Status};
use maud::{Markup, html};

use crate::api::AppState;
use crate::api::http::caller::{ManageWebhooks, Permission, Read};
use crate::api::http::params::{IdPath, Pairs, bad};
use crate::api::webhooks::{deliveries, endpoints};
use crate::dashboard::components::{
    ACTIONS, column_heading, next_page, post_button, status, tab, table, time, truncated,
};
use crate::dashboard::form::Form;
use crate::dashboard::layout::Section;
use crate::dashboard::page_context::PageContext;
use crate::problem::Result;
use crate::to_wire;

const PAGE: usize = 50;
/// Tabs: status filter and label.
const TABS: [(&str, &str); 4] =
    [("", "All"), ("pending", "Pending"), ("completed", "Delivered"), ("failed", "Failed")];

/// Renders one page of deliveries with tabs by status.
pub(super) async fn list<N: Permission>(
    ctx: &PageContext<N>,
    endpoints: &[Endpoint],
) -> Result<Markup> {
    let status_filter = ctx.param("status").map(|word| word.parse::<Status>().map_err(bad));
    let status_filter = status_filter.transpose()?;
    let before =
        ctx.param("cursor").map(|text| text.parse::<JobId>().map_err(|()| bad("invalid cursor")));
    let filter = Filter {
        statuses: status_filter.map(to_wire::status_from).into_iter().collect(),
        ..Filter::default()
    };
    let page = PageRequest::new(PAGE, before.transpose()?);
    let found = deliveries::list(&ctx.caller.engine.outbox(), &filter, &page).await?;
    let word = status_filter.map(Status::as_str).unwrap_or_default();
    let next = found.next_cursor.as_deref();
    let next = next.map(|next| ctx.link("/ui/webhooks", &[("status", word), ("cursor", next)]));
    Ok(html! {
        nav.tabs aria-label="Deliveries by status" {
            @for (filter, label) in TABS {
                @let query: &[(&str, &str)] = if filter.is_empty() { &[] } else { &[("status", filter)] };
                (tab(&ctx.link("/ui/webhooks", query), label, filter == word))
            }
        }
        @if found.deliveries.is_empty() {
            p.soft { "No deliveries." }
        } @else {
            (delivery_table(ctx, &found.deliveries, endpoints))
        }
        (next_page("Pages of deliveries", "Older", next))
    })
}

fn delivery_table<N: Permission>(
    ctx: &PageContext<N>,
    deliveries: &[Delivery],
    endpoints: &[Endpoint],
) -> Markup {
    let headings = ["Delivery", "Event", "Job", "To", "Status", "Attempt", "Time", ACTIONS];
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table of deliveries" {
            table.rows {
                thead { tr { @for heading in headings { th { (column_heading(heading)) } } } }
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
            (delivery_cells(delivery))
            td { (resend_button(ctx, delivery, "/ui/deliveries")) }
        }
    }
}

/// Renders the cells for the status, attempt and time of a delivery.
pub(in crate::dashboard) fn delivery_cells(delivery: &Delivery) -> Markup {
    html! {
        td {
            (status(delivery.status))
            @if let Some(error) = &delivery.error { p.error-text { (truncated(error, 200)) } }
        }
        td { (delivery.attempt) " of " (delivery.max_attempts) }
        td { (time(&delivery.timestamp)) }
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

/// Renders the button that resends a finished delivery; `folder` is the path of its page.
pub(in crate::dashboard) fn resend_button<N: Permission>(
    ctx: &PageContext<N>,
    delivery: &Delivery,
    folder: &str,
) -> Markup {
    let action = ctx.link(&format!("{folder}/{}/resend", delivery.delivery_id), &[]);
    html! {
        @if ctx.may::<ManageWebhooks>() && delivery.status.is_terminal() {
            (post_button(&ctx.session, &action, "Resend"))
        }
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    ctx: PageContext<Read>,
    IdPath(id): IdPath,
) -> Result<Response> {
    let id = deliveries::delivery_id(&id)?;
    let known = endpoints::list(&state, &ctx.caller, Pairs::default()).await?;
    let delivery = deliveries::with_attempts(&ctx.caller.engine.outbox(), id).await?;
    let content = html! {
        section #delivery data-live aria-label="Delivery" {
            h1 { span.soft { (delivery.event) } " " code { (delivery.delivery_id) } }
            p.headline {
                (status(delivery.status))
                span { "Attempt " (delivery.attempt) " of " (delivery.max_attempts) }
                (resend_button(&ctx, &delivery, "/ui/deliveries"))
            }
            @if let Some(error) = delivery.error.as_ref().filter(|_| delivery.status != Status::Completed) {
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
                (table(
                    "Attempts of this delivery",
                    &["Time", "Response", "Duration", "Body"],
                    delivery.attempts.iter().map(attempt_row),
                ))
            }
        }
    };
    Ok(ctx.page("Delivery", Section::Webhooks, &content))
}

fn attempt_row(attempt: &DeliveryAttempt) -> Markup {
    html! {
        tr {
            td { (time(&attempt.at)) }
            td { @if let Some(status) = attempt.status { (status) } @else { span.soft { "None" } } }
            td { (attempt.latency_ms) " ms" }
            td {
                @if let Some(error) = &attempt.error { p.error-text { (truncated(error, 400)) } }
                @if let Some(answer) = &attempt.answer { pre { (truncated(answer, 1_000)) } }
            }
        }
    }
}

pub(super) async fn resend(
    ctx: PageContext<ManageWebhooks>,
    IdPath(id): IdPath,
    _form: Form,
) -> Result<Response> {
    let resent = deliveries::resend(&ctx.caller, deliveries::delivery_id(&id)?).await?;
    Ok(ctx.done(&format!("/ui/deliveries/{resent}"), "resend"))
}
