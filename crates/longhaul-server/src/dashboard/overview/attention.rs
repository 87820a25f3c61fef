//! Problems that need attention, the most severe first.

use std::time::Duration;

use maud::{Markup, html};

use super::{COUNTED_MAX, OverviewData};
use crate::api::http::caller::Inspect;
use crate::dashboard::components::{count, count_of, duration, timestamp};
use crate::dashboard::page_context::PageContext;

/// A queue is stalled if its oldest job has been due for this long.
const STALLED_AFTER: Duration = Duration::from_mins(1);

pub(super) fn show(ctx: &PageContext<Inspect>, data: &OverviewData) -> Markup {
    let problems = problems(ctx, data);
    html! {
        section.attention.all-clear[problems.is_empty()] aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            @if problems.is_empty() {
                p {
                    "All clear. No failures, stalled queues or undelivered webhooks in the last hour."
                }
            } @else {
                ul { @for problem in &problems { li { (problem) } } }
            }
        }
    }
}

fn problems(ctx: &PageContext<Inspect>, data: &OverviewData) -> Vec<Markup> {
    let mut problems = Vec::new();
    let works = |role: &str| role != "api";
    if !data.replicas.iter().any(|replica| replica.alive && works(&replica.role)) {
        problems.push(
            html! { strong { "No replica runs jobs." } " Start one with " code { "longhaul serve" } },
        );
    }
    for replica in data.replicas.iter().filter(|replica| !replica.alive) {
        problems.push(html! {
            strong { "Replica " (replica.name) " is unresponsive" }
            @if let Some(host) = &replica.host { " on host " (host) }
            ". Other replicas take over its jobs."
        });
    }
    for queue in &data.queues {
        let url = ctx.link("/ui/jobs", &[("queue", &queue.name), ("status", "pending")]);
        if queue.paused && queue.pending > 0 {
            problems.push(html! {
                strong { "Queue " a href=(url) { (queue.name) } " is paused" }
                " with " (count(queue.pending)) " pending " (plural(queue.pending)) "."
            });
            continue;
        }
        let late = queue.oldest_due_at.as_ref().map(|at| data.now.since(timestamp(at)));
        if let Some(late) = late.filter(|late| *late >= STALLED_AFTER) {
            problems.push(html! {
                strong {
                    "Queue " a href=(url) { (queue.name) } " is stalled: its oldest job has been due for "
                    (duration(late))
                }
                ". " (count(queue.pending)) " pending " (plural(queue.pending)) "."
            });
        }
    }
    for (kind, failed, finished) in data.hour.iter().flat_map(|hour| hour.failing_kinds()) {
        let url = ctx.link("/ui/jobs", &[("status", "failed"), ("kind", kind)]);
        problems.push(html! {
            code { (kind) } ": "
            strong { a href=(url) { (count(failed)) " of " (count(finished)) " jobs failed" } }
            " in the last hour (" (percent(failed, finished)) ")."
        });
    }
    if data.failed_deliveries > 0 {
        let more = if data.failed_deliveries >= COUNTED_MAX { " or more" } else { "" };
        problems.push(html! {
            strong { (count_of(data.failed_deliveries)) (more) " webhook deliveries failed." } " "
            a href=(ctx.link("/ui/webhooks", &[("status", "failed")])) {
                "Show failed deliveries"
            }
        });
    }
    problems
}

fn plural(jobs: u64) -> &'static str {
    if jobs == 1 { "job" } else { "jobs" }
}

/// Formats a share with one decimal place, for example "7.3%".
fn percent(part: u64, whole: u64) -> String {
    let tenths = part.saturating_mul(1_000) / whole.max(1);
    format!("{}.{}%", tenths / 10, tenths % 10)
}
