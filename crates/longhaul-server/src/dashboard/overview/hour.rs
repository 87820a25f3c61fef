//! The last hour, from the newest jobs that have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::store::{Filter, PageRequest, StoreError};
use longhaul::{Engine, Job, Status, Timestamp};
use maud::{Markup, html};

use crate::api::http::caller::Inspect;
use crate::dashboard::charts::{Column, columns};
use crate::dashboard::parts::{count, cut, time, took};
use crate::dashboard::view::View;

/// Jobs that are looked at.
const JOBS_MAX: usize = 5_000;
const MINUTES: usize = 60;
/// Minutes in one column of the chart of latencies.
const COARSE: usize = 5;
/// Where the charts begin and end.
const ENDS: (&str, &str) = ("an hour ago", "now");
const HOUR: Duration = Duration::from_hours(1);
const ENDED: [Status; 3] = [Status::Completed, Status::Failed, Status::Cancelled];

/// What is kept of a job that has ended.
struct End {
    kind: String,
    status: Status,
    /// Whole minutes ago.
    ago: usize,
    /// From its acceptance to its end.
    latency: Duration,
    error: Option<String>,
    id: String,
    at: Timestamp,
}

pub(super) struct Hour {
    ends: Vec<End>,
    /// Not all of them were looked at.
    is_cut: bool,
}

impl Hour {
    pub(super) async fn read(engine: &Engine) -> Result<Self, StoreError> {
        let filter = Filter { statuses: ENDED.to_vec(), ..Filter::default() };
        let page = PageRequest { limit: JOBS_MAX, before: None };
        let found = engine.jobs_page(&filter, &page).await?;
        let now = engine.now();
        let oldest_at = found.jobs.last().map(|job| job.created_at);
        // Jobs come by when they were accepted: what is behind an older one than the hour was accepted
        // before it too, and is left out only if it took longer than that.
        let is_cut = found.next.is_some() && oldest_at.is_some_and(|at| now.since(at) < HOUR);
        let ends = found.jobs.iter().filter_map(|job| End::of(job, now)).collect();
        Ok(Self { ends, is_cut })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What the numbers leave out, if they do.
    pub(super) fn note(&self) -> Option<String> {
        let jobs = count(u64::try_from(JOBS_MAX).unwrap_or(u64::MAX));
        self.is_cut.then(|| format!("The last hour had more: these are its newest {jobs} jobs."))
    }

    pub(super) fn counts(&self) -> [(Status, u64); 3] {
        ENDED.map(|status| (status, self.of(status)))
    }

    fn of(&self, status: Status) -> u64 {
        number(self.ends.iter().filter(|end| end.status == status).count())
    }

    pub(super) fn charts(&self) -> Markup {
        if self.ends.is_empty() {
            return html! {};
        }
        let (completed, failed) = (self.of(Status::Completed), self.of(Status::Failed));
        let all: Vec<Duration> = self.ends.iter().map(|end| end.latency).collect();
        let (half, most) = (quantile(all.clone(), 50), quantile(all, 95));
        let ended = format!(
            "Jobs that ended in each minute of the last hour: {completed} completed, {failed} failed in all."
        );
        let latencies = format!(
            "Time from acceptance to end over the last hour: half of the jobs took up to {}, 95 of 100 up to {}.",
            took(half),
            took(most)
        );
        html! {
            section.charts aria-label="The last hour" {
                div {
                    h2 { "Ended per minute" }
                    (columns(&self.by_minute(), &ended, ENDS, |most| format!("{most} a minute")))
                    p.legend {
                        (key("completed", "completed")) (key("failed", "failed"))
                        (key("cancelled", "cancelled"))
                    }
                }
                div {
                    h2 { "Time from acceptance to end" }
                    (columns(&self.latencies(), &latencies, ENDS, |most| took(Duration::from_millis(most))))
                    p.legend {
                        (key("half", &format!("half up to {}", took(half))))
                        (key("most", &format!("95 of 100 up to {}", took(most))))
                    }
                }
            }
        }
    }

    fn by_minute(&self) -> Vec<Column> {
        let column = |ago: usize| {
            let in_it = |status| {
                let those = self.ends.iter().filter(|end| end.ago == ago && end.status == status);
                number(those.count())
            };
            let parts = ENDED.map(|status| (status.as_str(), in_it(status)));
            let said = parts.iter().filter(|(_, number)| *number > 0);
            let said: Vec<String> = said.map(|(word, number)| format!("{number} {word}")).collect();
            let title = format!(
                "{ago} min ago: {}",
                if said.is_empty() { "none".to_owned() } else { said.join(", ") }
            );
            Column { title, parts: parts.to_vec() }
        };
        (0..MINUTES).rev().map(column).collect()
    }

    fn latencies(&self) -> Vec<Column> {
        let column = |place: usize| {
            let those = self.ends.iter().filter(|end| end.ago / COARSE == place);
            let those: Vec<Duration> = those.map(|end| end.latency).collect();
            let (half, most) = (quantile(those.clone(), 50), quantile(those.clone(), 95));
            let (from, to) = ((place + 1) * COARSE, place * COARSE);
            let title = format!(
                "{from} to {to} min ago: {} jobs, half up to {}, 95 of 100 up to {}",
                those.len(),
                took(half),
                took(most)
            );
            let (half, most) = (millis(half), millis(most));
            Column { title, parts: vec![("half", half), ("most", most.saturating_sub(half))] }
        };
        (0..MINUTES / COARSE).rev().map(column).collect()
    }

    /// Kinds with failed jobs, those with the most first: how many, and of how many that ended.
    pub(super) fn failing_kinds(&self) -> Vec<(&str, u64, u64)> {
        let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for end in &self.ends {
            let counts = kinds.entry(&end.kind).or_default();
            counts.0 += u64::from(end.status == Status::Failed);
            counts.1 += 1;
        }
        let mut failing: Vec<_> =
            kinds.into_iter().map(|(kind, (failed, all))| (kind, failed, all)).collect();
        failing.retain(|(_, failed, _)| *failed > 0);
        failing.sort_by_key(|(_, failed, _)| std::cmp::Reverse(*failed));
        failing
    }

    pub(super) fn failing(&self, view: &View<Inspect>) -> Markup {
        let kinds = self.failing_kinds();
        if kinds.is_empty() {
            return html! {};
        }
        let last = |kind: &str| {
            let those =
                self.ends.iter().filter(|end| end.kind == kind && end.status == Status::Failed);
            those.max_by_key(|end| end.at)
        };
        html! {
            section aria-labelledby="failing-title" {
                h2 #failing-title { "Failing kinds" }
                div.scroll tabindex="0" role="group" aria-label="Failing kinds" {
                    table {
                        thead {
                            tr { th { "Kind" } th { "Failed" } th { "Last one" } th { "Why" } }
                        }
                        tbody {
                            @for (kind, failed, ended) in kinds {
                                tr {
                                    td {
                                        a
                                            href=(view.link("/ui/jobs", &[("status", "failed"), ("kind", kind)])) {
                                            (kind)
                                        }
                                    }
                                    td { (count(failed)) " of " (count(ended)) }
                                    @if let Some(end) = last(kind) {
                                        td {
                                            a.id
                                                href=(view.link(&format!("/ui/jobs/{}", end.id), &[])) {
                                                (end.id)
                                            }
                                            " " (time(end.at))
                                        }
                                        td.said {
                                            span.error-text {
                                                (cut(end.error.as_deref().unwrap_or_default(), 240))
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl End {
    /// None of one that did not end in the last hour.
    fn of(job: &Job, now: Timestamp) -> Option<Self> {
        let at = job.completed_at?;
        let ago = now.since(at);
        let minutes = usize::try_from(ago.as_secs() / 60).ok().filter(|_| ago < HOUR)?;
        Some(Self {
            kind: job.kind.to_string(),
            status: job.status,
            ago: minutes,
            latency: at.since(job.created_at),
            error: job.error.as_ref().map(|error| error.message.clone()),
            id: job.id.to_string(),
            at,
        })
    }
}

fn key(class: &str, said: &str) -> Markup {
    html! {
        span {
            svg.key viewBox="0 0 10 10" aria-hidden="true" { rect.(class) width="10" height="10" {} }
            (said)
        }
    }
}

/// The least that so many of a hundred do not exceed; zero if there are none.
fn quantile(mut all: Vec<Duration>, percent: usize) -> Duration {
    all.sort_unstable();
    let place = (all.len() * percent).div_ceil(100).saturating_sub(1);
    all.get(place).copied().unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_there() {
        let all: Vec<Duration> = (1..=20).map(Duration::from_secs).collect();
        assert_eq!(quantile(all.clone(), 50), Duration::from_secs(10));
        assert_eq!(quantile(all, 95), Duration::from_secs(19));
        assert_eq!(quantile(vec![Duration::from_secs(3)], 50), Duration::from_secs(3));
        assert_eq!(quantile(Vec::new(), 95), Duration::ZERO);
    }
}
