//! Statistics of the last hour, computed from the newest finished jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::store::{Filter, PageRequest, StoreError};
use longhaul::{Engine, Job, Status, Timestamp};
use maud::{Markup, html};

use crate::api::http::caller::Inspect;
use crate::dashboard::charts::{Column, columns};
use crate::dashboard::components::{count, duration, time, truncated};
use crate::dashboard::page_context::PageContext;

/// Limit of the jobs that are read.
const JOBS_MAX: usize = 5_000;
const MINUTES: usize = 60;
/// Minutes per column of the latency chart.
const LATENCY_COLUMN_MINUTES: usize = 5;
/// Labels of both ends of the time axis.
const AXIS_LABELS: (&str, &str) = ("1 hour ago", "now");
const HOUR: Duration = Duration::from_hours(1);
const FINISHED: [Status; 3] = [Status::Completed, Status::Failed, Status::Cancelled];

/// The fields of a finished job that the statistics need.
struct FinishedJob {
    kind: String,
    status: Status,
    /// Whole minutes since it finished.
    ago: usize,
    /// From submission to finish.
    latency: Duration,
    error: Option<String>,
    id: String,
    at: Timestamp,
}

pub(super) struct LastHour {
    jobs: Vec<FinishedJob>,
    /// More jobs finished in the last hour than were read.
    is_partial: bool,
}

impl LastHour {
    pub(super) async fn read(engine: &Engine) -> Result<Self, StoreError> {
        let filter = Filter { statuses: FINISHED.to_vec(), ..Filter::default() };
        let request = PageRequest { limit: JOBS_MAX, before: None };
        let page = engine.jobs_page(&filter, &request).await?;
        let now = engine.now();
        let oldest_at = page.jobs.last().map(|job| job.created_at);
        // Jobs are sorted by submission. Once the oldest one was submitted more than an hour ago, only jobs
        // with a latency of more than an hour can be missing.
        let is_partial = page.next.is_some() && oldest_at.is_some_and(|at| now.since(at) < HOUR);
        let jobs = page.jobs.iter().filter_map(|job| FinishedJob::of(job, now)).collect();
        Ok(Self { jobs, is_partial })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns a note if the statistics do not cover all jobs of the hour.
    pub(super) fn note(&self) -> Option<String> {
        let jobs = count(u64::try_from(JOBS_MAX).unwrap_or(u64::MAX));
        self.is_partial.then(|| format!("Based on the newest {jobs} jobs of the last hour."))
    }

    pub(super) fn counts(&self) -> [(Status, u64); 3] {
        FINISHED.map(|status| (status, self.of(status)))
    }

    fn of(&self, status: Status) -> u64 {
        number(self.jobs.iter().filter(|job| job.status == status).count())
    }

    pub(super) fn charts(&self) -> Markup {
        if self.jobs.is_empty() {
            return html! {};
        }
        let (completed, failed) = (self.of(Status::Completed), self.of(Status::Failed));
        let all: Vec<Duration> = self.jobs.iter().map(|job| job.latency).collect();
        let (p50, p95) = (quantile(all.clone(), 50), quantile(all, 95));
        let throughput_label = format!(
            "Finished jobs per minute in the last hour: {completed} completed, {failed} failed in total."
        );
        let latency_label = format!(
            "Latency from submit to finish in the last hour: p50 {}, p95 {}.",
            duration(p50),
            duration(p95)
        );
        html! {
            section.charts aria-label="The last hour" {
                div {
                    h2 { "Throughput" }
                    (columns(&self.by_minute(), &throughput_label, AXIS_LABELS, |peak| format!("{}/min", count(peak))))
                    p.legend {
                        (key("completed", "completed")) (key("failed", "failed"))
                        (key("cancelled", "cancelled"))
                    }
                }
                div {
                    h2 { "Latency (submit to finish)" }
                    (columns(&self.latencies(), &latency_label, AXIS_LABELS, |peak| duration(Duration::from_millis(peak))))
                    p.legend {
                        (key("half", &format!("p50 {}", duration(p50))))
                        (key("most", &format!("p95 {}", duration(p95))))
                    }
                }
            }
        }
    }

    fn by_minute(&self) -> Vec<Column> {
        let column = |ago: usize| {
            let count_of = |status| {
                let those = self.jobs.iter().filter(|job| job.ago == ago && job.status == status);
                number(those.count())
            };
            let parts = FINISHED.map(|status| (status.as_str(), count_of(status)));
            let counts = parts.iter().filter(|(_, number)| *number > 0);
            let counts: Vec<String> =
                counts.map(|(word, number)| format!("{number} {word}")).collect();
            let title = format!(
                "{ago} min ago: {}",
                if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
            );
            Column { title, parts: parts.to_vec() }
        };
        (0..MINUTES).rev().map(column).collect()
    }

    fn latencies(&self) -> Vec<Column> {
        let column = |index: usize| {
            let jobs = self.jobs.iter().filter(|job| job.ago / LATENCY_COLUMN_MINUTES == index);
            let latencies: Vec<Duration> = jobs.map(|job| job.latency).collect();
            let (p50, p95) = (quantile(latencies.clone(), 50), quantile(latencies.clone(), 95));
            let (from, to) = ((index + 1) * LATENCY_COLUMN_MINUTES, index * LATENCY_COLUMN_MINUTES);
            let title = format!(
                "{from} to {to} min ago: {} jobs, p50 {}, p95 {}",
                latencies.len(),
                duration(p50),
                duration(p95)
            );
            let (p50, p95) = (millis(p50), millis(p95));
            Column { title, parts: vec![("half", p50), ("most", p95.saturating_sub(p50))] }
        };
        (0..MINUTES / LATENCY_COLUMN_MINUTES).rev().map(column).collect()
    }

    /// Returns each kind with failed jobs, its number of failed and of finished jobs, most failures first.
    pub(super) fn failing_kinds(&self) -> Vec<(&str, u64, u64)> {
        let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for end in &self.jobs {
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

    pub(super) fn failing(&self, ctx: &PageContext<Inspect>) -> Markup {
        let kinds = self.failing_kinds();
        if kinds.is_empty() {
            return html! {};
        }
        let last = |kind: &str| {
            let those =
                self.jobs.iter().filter(|job| job.kind == kind && job.status == Status::Failed);
            those.max_by_key(|job| job.at)
        };
        html! {
            section aria-labelledby="failing-title" {
                h2 #failing-title { "Failing kinds" }
                div.scroll tabindex="0" role="group" aria-label="Failing kinds" {
                    table {
                        thead {
                            tr { th { "Kind" } th { "Failed" } th { "Last failure" } th { "Error" } }
                        }
                        tbody {
                            @for (kind, failed, finished) in kinds {
                                tr {
                                    td {
                                        a
                                            href=(ctx.link("/ui/jobs", &[("status", "failed"), ("kind", kind)])) {
                                            (kind)
                                        }
                                    }
                                    td { (count(failed)) " of " (count(finished)) }
                                    @if let Some(end) = last(kind) {
                                        td {
                                            a.id
                                                href=(ctx.link(&format!("/ui/jobs/{}", end.id), &[])) {
                                                (end.id)
                                            }
                                            " " (time(&end.at))
                                        }
                                        td.details {
                                            span.error-text {
                                                (truncated(end.error.as_deref().unwrap_or_default(), 240))
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

impl FinishedJob {
    /// Returns `None` for a job that did not finish in the last hour.
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

fn key(class: &str, label: &str) -> Markup {
    html! {
        span {
            svg.key viewBox="0 0 10 10" aria-hidden="true" { rect.(class) width="10" height="10" {} }
            (label)
        }
    }
}

/// Returns a percentile by the nearest-rank method, zero for an empty list.
fn quantile(mut all: Vec<Duration>, percent: usize) -> Duration {
    all.sort_unstable();
    let index = (all.len() * percent).div_ceil(100).saturating_sub(1);
    all.get(index).copied().unwrap_or_default()
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
    fn quantile_is_the_nearest_rank() {
        let all: Vec<Duration> = (1..=20).map(Duration::from_secs).collect();
        assert_eq!(quantile(all.clone(), 50), Duration::from_secs(10));
        assert_eq!(quantile(all, 95), Duration::from_secs(19));
        assert_eq!(quantile(vec![Duration::from_secs(3)], 50), Duration::from_secs(3));
        assert_eq!(quantile(Vec::new(), 95), Duration::ZERO);
    }
}
