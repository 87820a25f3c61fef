//! Statistics of the last hour, computed from the newest finished jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::Timestamp;
use longhaul::store::{Filter, PageRequest};
use longhaul_client::wire::{JobSummary, Status};
use maud::{Markup, html};

use crate::api::http::caller::{Caller, Inspect};
use crate::dashboard::charts::{Column, columns};
use crate::dashboard::components::{count, count_of, duration, table, time, timestamp, truncated};
use crate::dashboard::page_context::PageContext;
use crate::jobs::query::{self, ListQuery};
use crate::problem::Result;
use crate::to_wire;

/// Limit of the jobs that are read.
const JOBS_MAX: usize = 5_000;
const MINUTES: usize = 60;
/// Minutes per column of the latency chart.
const LATENCY_COLUMN_MINUTES: usize = 5;
/// Labels of both ends of the time axis.
const AXIS_LABELS: (&str, &str) = ("1 hour ago", "now");
const HOUR: Duration = Duration::from_hours(1);
const FINISHED: [Status; 3] = [Status::Completed, Status::Failed, Status::Cancelled];

struct FinishedJob {
    job: JobSummary,
    completed_at: Timestamp,
    /// Whole minutes since it finished.
    ago: usize,
    /// From submission to finish.
    latency: Duration,
}

pub(super) struct LastHour {
    jobs: Vec<FinishedJob>,
    /// More jobs finished in the last hour than were read.
    is_partial: bool,
}

impl LastHour {
    pub(super) async fn read(caller: &Caller<Inspect>) -> Result<Self> {
        let statuses = FINISHED.map(to_wire::status_from).to_vec();
        let filter = Filter { statuses, ..Filter::default() };
        let page = PageRequest::new(JOBS_MAX, None);
        let found = query::list_full(caller, &ListQuery { filter, page }).await?;
        let now = caller.engine.now();
        let oldest_at = found.jobs.last().map(|job| timestamp(&job.created_at));
        // Jobs are sorted by submission. Once the oldest one was submitted more than an hour ago, only jobs
        // with a latency of more than an hour can be missing.
        let is_partial =
            found.next_cursor.is_some() && oldest_at.is_some_and(|at| now.since(at) < HOUR);
        let jobs = found.jobs.into_iter().filter_map(|job| FinishedJob::of(job, now)).collect();
        Ok(Self { jobs, is_partial })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns a note if the statistics do not cover all jobs of the hour.
    pub(super) fn note(&self) -> Option<String> {
        let jobs = count_of(JOBS_MAX);
        self.is_partial.then(|| format!("Based on the newest {jobs} jobs of the last hour."))
    }

    pub(super) fn counts(&self) -> [(Status, u64); 3] {
        FINISHED.map(|status| (status, self.of(status)))
    }

    fn of(&self, status: Status) -> u64 {
        number(self.jobs.iter().filter(|end| end.job.status == status).count())
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
                let those =
                    self.jobs.iter().filter(|end| end.ago == ago && end.job.status == status);
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
            let counts = kinds.entry(&end.job.kind).or_default();
            counts.0 += u64::from(end.job.status == Status::Failed);
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
        html! {
            section aria-labelledby="failing-title" {
                h2 #failing-title { "Failing kinds" }
                (table(
                    "Failing kinds",
                    &["Kind", "Failed", "Last failure", "Error"],
                    kinds.into_iter().map(|counts| self.failing_row(ctx, counts)),
                ))
            }
        }
    }

    fn failing_row(
        &self,
        ctx: &PageContext<Inspect>,
        (kind, failed, finished): (&str, u64, u64),
    ) -> Markup {
        let all = self.jobs.iter();
        let failures = all.filter(|end| end.job.kind == kind && end.job.status == Status::Failed);
        let last = failures.max_by_key(|end| end.completed_at).map(|end| &end.job);
        let url = ctx.link("/ui/jobs", &[("status", "failed"), ("kind", kind)]);
        html! {
            tr {
                td { a href=(url) { (kind) } }
                td { (count(failed)) " of " (count(finished)) }
                @if let Some(job) = last {
                    td {
                        a.id href=(ctx.link(&format!("/ui/jobs/{}", job.job_id), &[])) { (job.job_id) }
                        @if let Some(at) = &job.completed_at { " " (time(at)) }
                    }
                    td.details {
                        @let error = job.error.as_ref().map_or("", |error| error.message.as_str());
                        span.error-text { (truncated(error, 240)) }
                    }
                }
            }
        }
    }
}

impl FinishedJob {
    /// Returns `None` for a job that did not finish in the last hour.
    fn of(job: JobSummary, now: Timestamp) -> Option<Self> {
        let completed_at = timestamp(job.completed_at.as_ref()?);
        let ago = now.since(completed_at);
        let minutes = usize::try_from(ago.as_secs() / 60).ok().filter(|_| ago < HOUR)?;
        let latency = completed_at.since(timestamp(&job.created_at));
        Some(Self { job, completed_at, ago: minutes, latency })
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
