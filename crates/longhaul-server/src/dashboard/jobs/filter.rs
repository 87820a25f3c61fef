//! What the list is narrowed to, and the form that says so. All of it is in the address.

use std::time::Duration;

use longhaul::store::{Filter, PageRequest};
use longhaul::{Kind, Status, Timestamp};
use longhaul_client::wire::{Instant, JobFilter};
use maud::{Markup, html};
use url::form_urlencoded;

use super::PAGE;
use crate::api::AppState;
use crate::api::http::caller::{Admin, Read};
use crate::api::http::params::{Pairs, bad};
use crate::api::jobs::list::asked;
use crate::dashboard::view::View;
use crate::problem::Problem;
use crate::to_wire;

/// How far back the list may be asked to go.
const SPANS: [(&str, &str, Duration); 4] = [
    ("15m", "last 15 minutes", Duration::from_mins(15)),
    ("1h", "last hour", Duration::from_hours(1)),
    ("24h", "last 24 hours", Duration::from_hours(24)),
    ("7d", "last 7 days", Duration::from_hours(24 * 7)),
];

/// What somebody wants to see.
#[derive(Debug)]
pub(in crate::dashboard) struct Wish {
    pub(super) filter: Filter,
    pub(super) page: PageRequest,
    /// An id, an idempotency key, or a part of an error.
    pub(super) text: Option<String>,
    since: Option<String>,
    /// As it was asked, without the page.
    pairs: Vec<(String, String)>,
}

impl Wish {
    /// Reads the address: what the API's list takes, and `label`, `since` and `q` besides.
    pub(in crate::dashboard) fn read(
        query: &[(String, String)],
        state: &AppState,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let (mut text, mut since, mut labels, mut rest) = (None, None, Vec::new(), Vec::new());
        for (name, value) in query {
            match name.as_str() {
                "q" => text = Some(value.trim().to_owned()).filter(|text| !text.is_empty()),
                "since" => since = Some(value.clone()),
                "label" => labels.push(value.clone()),
                _ => rest.push((name.clone(), value.clone())),
            }
        }
        let mut shown = rest.clone();
        if !rest.iter().any(|(name, _)| name == "limit") {
            rest.push(("limit".to_owned(), PAGE.to_owned()));
        }
        let asked = asked(Pairs(rest), state.settings.list_limit_max)?;
        let (mut filter, page) = (asked.filter, asked.page);
        for label in &labels {
            let Some((name, value)) = label.split_once('=') else {
                return Err(bad(format_args!("a label is NAME=VALUE, not {label:?}")));
            };
            filter.labels.insert(name.trim().to_owned(), value.trim().to_owned());
            shown.push(("label".to_owned(), label.clone()));
        }
        if let Some(word) = &since {
            let span = SPANS.iter().find(|(known, _, _)| known == word);
            let Some((_, _, span)) = span else {
                return Err(bad(format_args!("since is one of 15m, 1h, 24h, 7d, not {word:?}")));
            };
            let from = Timestamp::from_millis(now.as_millis().saturating_sub(millis(*span)));
            filter.created_after = filter.created_after.max(Some(from));
            shown.push(("since".to_owned(), word.clone()));
        }
        if let Some(text) = &text {
            shown.push(("q".to_owned(), text.clone()));
        }
        let pairs = shown.into_iter().filter(|(name, _)| name != "cursor").collect();
        Ok(Self { filter, page, text, since, pairs })
    }

    /// As it was asked, without the page.
    pub(super) fn pairs(&self) -> Vec<(&str, String)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
    }

    /// The same as one text, for forms.
    pub(super) fn query(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.pairs).finish()
    }

    pub(super) fn is_everything(&self) -> bool {
        self.filter == Filter::default() && self.text.is_none() && self.page.before.is_none()
    }

    /// Whether this is not the first page.
    pub(super) fn is_later(&self) -> bool {
        self.page.before.is_some()
    }

    /// As the API takes it for many jobs at once.
    pub(super) fn to_wire(&self) -> JobFilter {
        let Filter { statuses, kind, queue, labels, created_after, .. } = &self.filter;
        JobFilter {
            status: statuses.iter().copied().map(to_wire::status).collect(),
            kind: kind.as_ref().map(ToString::to_string),
            queue: queue.as_ref().map(ToString::to_string),
            labels: labels.clone(),
            created_after: created_after.map(|at| Instant(at.to_string())),
        }
    }

    pub(super) fn form(&self, view: &View<Read>, kinds: &[Kind]) -> Markup {
        let kind = self.filter.kind.as_ref().map(ToString::to_string).unwrap_or_default();
        let queue = self.filter.queue.as_ref().map(ToString::to_string).unwrap_or_default();
        let labels = self.filter.labels.iter().map(|(name, value)| format!("{name}={value}"));
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
                                checked[self.filter.statuses.contains(&status)];
                            (super::status(status))
                        }
                    }
                }
                label { "Kind"
                    select name="kind" {
                        option value="" { "any" }
                        @if !is_known { option value=(kind) selected { (kind) } }
                        @for known in kinds {
                            option value=(known.name()) selected[known.name() == kind] {
                                (known.name())
                            }
                        }
                    }
                }
                label { "Queue" input name="queue" value=(queue) placeholder="any" size="10"; }
                @for label in &labels {
                    label {
                        "Label" input name="label" value=(label) placeholder="name=value" size="14";
                    }
                }
                label { "Accepted"
                    select name="since" {
                        option value="" { "any time" }
                        @for (word, name, _) in SPANS {
                            option value=(word) selected[self.since.as_deref() == Some(word)] {
                                (name)
                            }
                        }
                    }
                }
                @if view.may::<Admin>() {
                    label { "Tenant"
                        input name="tenant" size="10" placeholder="your own"
                            value=(view.other().map(ToString::to_string).unwrap_or_default());
                    }
                }
                label.grow { "Text"
                    input #search type="search" name="q"
                        value=(self.text.as_deref().unwrap_or_default())
                        placeholder="id, key, or part of an error";
                }
                span.choices {
                    button.primary { "Filter" }
                    a href="/ui/jobs" { "Clear" }
                }
            }
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
