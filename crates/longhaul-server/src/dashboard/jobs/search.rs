//! Search and filters of the job list, and their form. The query string holds all of them.

use std::time::Duration;

use longhaul::store::Filter;
use longhaul::{Kind, Timestamp};
use longhaul_client::wire::{JobFilter, Status};
use maud::{Markup, html};
use url::form_urlencoded;

use super::PAGE;
use crate::api::AppState;
use crate::api::http::caller::{Admin, Read};
use crate::api::http::params::{Pairs, bad};
use crate::dashboard::page_context::PageContext;
use crate::jobs::query::{ListQuery, parse_query};
use crate::problem::Result;
use crate::to_wire;

/// Choices for the time of submission: parameter, label and duration.
const SPANS: [(&str, &str, Duration); 4] = [
    ("15m", "Last 15 minutes", Duration::from_mins(15)),
    ("1h", "Last hour", Duration::from_hours(1)),
    ("24h", "Last 24 hours", Duration::from_hours(24)),
    ("7d", "Last 7 days", Duration::from_hours(24 * 7)),
];

#[derive(Debug)]
pub(in crate::dashboard) struct JobSearch {
    pub(super) query: ListQuery,
    /// An id, an idempotency key, or part of an error.
    pub(super) text: Option<String>,
    since: Option<String>,
    /// The query without the page cursor.
    pairs: Vec<(String, String)>,
}

impl JobSearch {
    /// Parses the parameters of the API's list, and also `label`, `since` and `q`.
    pub(in crate::dashboard) fn parse(
        parameters: &[(String, String)],
        state: &AppState,
        now: Timestamp,
    ) -> Result<Self> {
        let (mut text, mut since, mut labels, mut rest) = (None, None, Vec::new(), Vec::new());
        for (name, value) in parameters {
            match name.as_str() {
                "q" => text = Some(value.trim().to_owned()).filter(|text| !text.is_empty()),
                "since" => since = Some(value.clone()),
                "label" => labels.push(value.clone()),
                _ => rest.push((name.clone(), value.clone())),
            }
        }
        let mut query_pairs = rest.clone();
        if !rest.iter().any(|(name, _)| name == "limit") {
            rest.push(("limit".to_owned(), PAGE.to_owned()));
        }
        let mut query = parse_query(Pairs(rest), state.settings.list_limit_max)?;
        let filter = &mut query.filter;
        for label in &labels {
            let Some((name, value)) = label.split_once('=') else {
                return Err(bad(format_args!("a label must be NAME=VALUE, not {label:?}")));
            };
            filter.labels.insert(name.trim().to_owned(), value.trim().to_owned());
            query_pairs.push(("label".to_owned(), label.clone()));
        }
        if let Some(word) = &since {
            let span = SPANS.iter().find(|(known, _, _)| known == word);
            let Some((_, _, span)) = span else {
                return Err(bad(format_args!("since must be 15m, 1h, 24h or 7d, not {word:?}")));
            };
            filter.created_after = filter.created_after.max(Some(now.before(*span)));
            query_pairs.push(("since".to_owned(), word.clone()));
        }
        if let Some(text) = &text {
            query_pairs.push(("q".to_owned(), text.clone()));
        }
        let pairs = query_pairs.into_iter().filter(|(name, _)| name != "cursor").collect();
        Ok(Self { query, text, since, pairs })
    }

    /// Returns the query without the page cursor.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Returns the query as text for a hidden form field.
    pub(super) fn query_text(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.pairs).finish()
    }

    pub(super) fn is_unfiltered(&self) -> bool {
        self.query.filter == Filter::default() && self.text.is_none() && !self.is_later_page()
    }

    /// Reports whether this is not the first page.
    pub(super) fn is_later_page(&self) -> bool {
        self.query.page.before.is_some()
    }

    /// Returns the filter in the form of the API's bulk operations.
    pub(super) fn to_wire(&self) -> JobFilter {
        let Filter { statuses, kind, queue, labels, created_after, .. } = &self.query.filter;
        JobFilter {
            status: statuses.iter().copied().map(to_wire::status).collect(),
            kind: kind.as_ref().map(ToString::to_string),
            queue: queue.as_ref().map(ToString::to_string),
            labels: labels.clone(),
            created_after: created_after.map(to_wire::instant),
        }
    }

    pub(super) fn form(&self, ctx: &PageContext<Read>, kinds: &[Kind]) -> Markup {
        let JobFilter { status: statuses, kind, queue, labels, .. } = self.to_wire();
        let (kind, queue) = (kind.unwrap_or_default(), queue.unwrap_or_default());
        let labels = labels.iter().map(|(name, value)| format!("{name}={value}"));
        let mut labels: Vec<String> = labels.collect();
        if labels.is_empty() {
            labels.push(String::new());
        }
        let is_known = kind.is_empty() || kinds.iter().any(|known| known.name() == kind);
        html! {
            form.filters method="get" action="/ui/jobs" role="search" aria-label="Filter jobs" {
                fieldset.statuses {
                    legend { "Status" }
                    @for status in Status::ALL {
                        label.chip {
                            input type="checkbox" name="status" value=(status.as_str())
                                checked[statuses.contains(&status)];
                            (super::status(status))
                        }
                    }
                }
                label { "Kind"
                    select name="kind" {
                        option value="" { "Any" }
                        @if !is_known { option value=(kind) selected { (kind) } }
                        @for known in kinds {
                            option value=(known.name()) selected[known.name() == kind] {
                                (known.name())
                            }
                        }
                    }
                }
                label { "Queue" input name="queue" value=(queue) placeholder="Any" size="10"; }
                @for label in &labels {
                    label {
                        "Label" input name="label" value=(label) placeholder="name=value" size="14";
                    }
                }
                label { "Submitted"
                    select name="since" {
                        option value="" { "Any time" }
                        @for (word, name, _) in SPANS {
                            option value=(word) selected[self.since.as_deref() == Some(word)] {
                                (name)
                            }
                        }
                    }
                }
                @if ctx.may::<Admin>() {
                    label { "Tenant"
                        input name="tenant" size="10" placeholder="Your own"
                            value=(ctx.other().map(ToString::to_string).unwrap_or_default());
                    }
                }
                label.grow { "Text"
                    input #search type="search" name="q"
                        value=(self.text.as_deref().unwrap_or_default())
                        placeholder="Id, key or part of an error";
                }
                span.choices {
                    button.primary { "Filter" }
                    a href="/ui/jobs" { "Clear" }
                }
            }
        }
    }
}
