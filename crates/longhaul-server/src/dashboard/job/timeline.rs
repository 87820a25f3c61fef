//! Timeline of attempts and steps.

use longhaul::Timestamp;
use longhaul_client::wire::{Attempt, Instant, Status, Step};
use maud::{Markup, html};

use super::actions::fork_from;
use crate::api::http::caller::{Read, Submit};
use crate::dashboard::charts::GanttSpan;
use crate::dashboard::components::{
    ACTIONS, column_heading, duration, status, time, timestamp, truncated,
};
use crate::dashboard::json_tree;
use crate::dashboard::page_context::PageContext;
use crate::jobs::details::JobDetails;

/// Limit of listed attempts, the latest ones.
const ATTEMPTS_MAX: usize = 50;
/// Limit of listed steps, the first ones.
const STEPS_MAX: usize = 300;

enum TimelineRow<'a> {
    Attempt(&'a Attempt),
    Step(usize, &'a Step),
}

impl TimelineRow<'_> {
    /// Sort key by start time. An attempt comes before the steps that start with it.
    fn order(&self) -> (Timestamp, usize) {
        match self {
            Self::Attempt(attempt) => (timestamp(&attempt.started_at), 0),
            Self::Step(index, step) => (timestamp(&step.started_at), index + 1),
        }
    }
}

pub(super) fn show(ctx: &PageContext<Read>, details: &JobDetails, now: Timestamp) -> Markup {
    let JobDetails { job, attempts, steps, has_payload, .. } = details;
    if attempts.is_empty() && steps.is_empty() {
        return html! { p.soft { "No attempt has started." } };
    }
    let left_out = attempts.len().saturating_sub(ATTEMPTS_MAX);
    let rows = attempts.iter().skip(left_out).map(TimelineRow::Attempt);
    let stored = steps
        .iter()
        .take(STEPS_MAX)
        .enumerate()
        .map(|(index, step)| TimelineRow::Step(index, step));
    let mut rows: Vec<TimelineRow<'_>> = rows.chain(stored).collect();
    rows.sort_by_key(TimelineRow::order);
    let created_at = timestamp(&job.created_at);
    let span = span(created_at, attempts, now);
    let may_fork = ctx.may::<Submit>() && !has_payload;
    html! {
        @if left_out > 0 { p.soft { "The first " (left_out) " attempts are not listed." } }
        @if steps.len() > STEPS_MAX {
            p.soft { "Showing the first " (STEPS_MAX) " of " (steps.len()) " steps." }
        }
        div.scroll tabindex="0" role="group" aria-label="Attempts and steps" {
            table.timeline {
                thead {
                    tr {
                        th { "Attempt or step" } th { "Started" } th { "Duration" } th.chart { "Timeline" }
                        th { (column_heading(ACTIONS)) }
                    }
                }
                tbody {
                    @for row in &rows {
                        @match row {
                            TimelineRow::Attempt(attempt) => { (attempt_row(attempt, &span, now)) }
                            TimelineRow::Step(index, step) => {
                                tr.step {
                                    (step_cells(step, &span, created_at))
                                    td {
                                        @if may_fork {
                                            (fork_from(ctx, &job.job_id, *index, &step.name))
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

/// Returns the span from the first attempt to the end of the last. Steps copied by a fork are older.
fn span(created_at: Timestamp, attempts: &[Attempt], now: Timestamp) -> GanttSpan {
    let begin = attempts.iter().map(|one| timestamp(&one.started_at)).min();
    let end = attempts.iter().map(|one| end(one.ended_at.as_ref(), now)).max();
    GanttSpan::new(begin.unwrap_or(created_at), end.unwrap_or(now))
}

fn end(ended_at: Option<&Instant>, now: Timestamp) -> Timestamp {
    ended_at.map_or(now, timestamp)
}

fn attempt_row(attempt: &Attempt, span: &GanttSpan, now: Timestamp) -> Markup {
    let started_at = timestamp(&attempt.started_at);
    let ended_at = end(attempt.ended_at.as_ref(), now);
    // A failed attempt with retries left has the status `pending`, that of its job.
    let outcome = match (attempt.status, &attempt.error) {
        (None, _) => Status::Running,
        (Some(_), Some(_)) => Status::Failed,
        (Some(status), None) => status,
    };
    html! {
        tr.attempt {
            td {
                strong { "Attempt " (attempt.attempt) } " " (status(outcome))
                @if let Some(replica) = &attempt.replica { span.soft { " on " (truncated(replica, 60)) } }
                @if let Some(error) = &attempt.error { p.error-text { (truncated(&error.message, 300)) } }
            }
            td { (time(&attempt.started_at)) }
            td { (duration(ended_at.since(started_at))) }
            td.chart { (span.bar(started_at, ended_at, outcome.as_str())) }
            td {}
        }
    }
}

fn step_cells(step: &Step, span: &GanttSpan, job_created_at: Timestamp) -> Markup {
    let id = format!("step-{}", step.position);
    let (started_at, completed_at) = (timestamp(&step.started_at), timestamp(&step.completed_at));
    let is_copied = completed_at < job_created_at;
    html! {
        td {
            details #(id) {
                summary { (truncated(&step.name, 200)) }
                (json_tree::tree(step.output.as_str()))
            }
        }
        td { (time(&step.started_at)) }
        td { (duration(completed_at.since(started_at))) }
        td.chart {
            @if is_copied { span.soft { "Copied from the forked job" } }
            @else { (span.bar(started_at, completed_at, "step")) }
        }
    }
}
