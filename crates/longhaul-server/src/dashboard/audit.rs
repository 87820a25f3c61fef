//! Audit log page.

use axum::extract::State;
use axum::response::Response;
use longhaul_client::wire::AuditEntry;
use maud::{Markup, html};

use super::components::{next_page, table, time, truncated};
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::AppState;
use crate::api::accounts::audit;
use crate::api::http::caller::Admin;
use crate::api::http::params::Pairs;
use crate::problem::Result;

pub(super) async fn show(
    State(state): State<AppState>,
    ctx: PageContext<Admin>,
) -> Result<Response> {
    let mut query = ctx.query.clone();
    // The viewed tenant also filters the log.
    query.extend(ctx.other().map(|tenant| ("tenant".to_owned(), tenant.to_string())));
    let page = audit::list(&state, Pairs(query)).await?;
    let next = page.next_cursor.as_deref().map(|next| {
        let target = ctx.param("target").unwrap_or_default();
        ctx.link("/ui/audit", &[("target", target), ("cursor", next)])
    });
    let content = html! {
        h1 { "Audit" }
        form.filters method="get" action="/ui/audit" role="search" aria-label="Filter entries" {
            label {
                "Tenant"
                input name="tenant" size="12" placeholder="Any"
                    value=(ctx.other().map(ToString::to_string).unwrap_or_default());
            }
            label.grow {
                "Job, key, tenant or queue"
                input #search name="target" type="search"
                    value=(ctx.param("target").unwrap_or_default());
            }
            span.choices { button.primary { "Filter" } a href="/ui/audit" { "Clear" } }
        }
        section aria-label="Entries" {
            @if page.entries.is_empty() {
                div.empty {
                    p {
                        "No entries. Every change to jobs, queues, keys, tenants and endpoints is recorded here \
                         before it happens."
                    }
                }
            } @else {
                (table(
                    "Audit log",
                    &["Time", "Actor", "Action", "Target", "Tenant", "Details"],
                    page.entries.iter().map(row),
                ))
            }
            (next_page("Pages of entries", "Older", next))
        }
    };
    Ok(ctx.page("Audit", Section::Audit, &content))
}

fn row(entry: &AuditEntry) -> Markup {
    html! {
        tr {
            td title=(format!("request {}", entry.request_id)) { (time(&entry.at)) }
            td { (truncated(&entry.actor, 80)) }
            td { (entry.action) }
            td { code { (truncated(&entry.target, 80)) } }
            td { (entry.tenant) }
            td { (truncated(&entry.detail, 200)) }
        }
    }
}
