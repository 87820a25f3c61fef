//! Who did what.

use axum::extract::State;
use axum::response::Response;
use longhaul_client::wire::AuditEntry;
use maud::{Markup, html};

use super::layout::Place;
use super::parts::{cut, told};
use super::view::View;
use crate::api::AppState;
use crate::api::accounts::audit;
use crate::api::http::caller::Admin;
use crate::api::http::params::Pairs;
use crate::problem::Problem;

pub(super) async fn show(
    State(state): State<AppState>,
    view: View<Admin>,
) -> Result<Response, Problem> {
    let mut query = view.query.clone();
    // The tenant that is looked at, which every page takes, is also what the log is narrowed to.
    query.extend(view.other().map(|tenant| ("tenant".to_owned(), tenant.to_string())));
    let found = audit::list(&state, Pairs(query)).await?;
    let content = html! {
        h1 { "Audit" }
        form.filters method="get" action="/ui/audit" role="search" aria-label="Filter entries" {
            label {
                "Tenant"
                input name="tenant" size="12" placeholder="any"
                    value=(view.other().map(ToString::to_string).unwrap_or_default());
            }
            label.grow {
                "Job, key, tenant or queue"
                input #search name="target" type="search"
                    value=(view.asked("target").unwrap_or_default());
            }
            span.choices { button.primary { "Filter" } a href="/ui/audit" { "Clear" } }
        }
        section aria-label="Entries" {
            @if found.entries.is_empty() {
                div.empty {
                    p {
                        "Nothing was done yet. Whatever somebody does to jobs, queues, keys, tenants and \
                         endpoints is noted here, before it is done."
                    }
                }
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Audit log" {
                    table {
                        thead {
                            tr {
                                th { "When" } th { "Who" } th { "Did" } th { "To" } th { "Tenant" }
                                th { "Detail" }
                            }
                        }
                        tbody { @for entry in &found.entries { (row(entry)) } }
                    }
                }
            }
            @if let Some(next) = &found.next_cursor {
                @let target = view.asked("target").unwrap_or_default();
                nav.pages aria-label="Pages of entries" {
                    a rel="next"
                        href=(view.link("/ui/audit", &[("target", target), ("cursor", next)])) {
                        "Older"
                    }
                }
            }
        }
    };
    Ok(view.page("Audit", Place::Audit, &content))
}

fn row(entry: &AuditEntry) -> Markup {
    html! {
        tr {
            td title=(format!("request {}", entry.request_id)) { (told(entry.at.as_str())) }
            td { (cut(&entry.actor, 80)) }
            td { (entry.action) }
            td { code { (cut(&entry.target, 80)) } }
            td { (entry.tenant) }
            td { (cut(&entry.detail, 200)) }
        }
    }
}
