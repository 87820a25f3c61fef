//! Timeline of attempts and steps.

use longhaul::job::{Attempt, Record, Step};
use longhaul::{Status, Timestamp};
use maud::{Markup, html};

use super::actions::fork_from;
use crate::api::http::caller::{Read, Submit};
use crate::dashboard::charts::Span;
use crate::dashboard::components::{duration, status, time, truncated};
use crate::dashboard::json_tree;
use crate::dashboard::page_context::PageContext;

/// Limit of listed attempts, the latest ones.
const ATTEMPTS_MAX: usize = 50;
/// Limit of listed steps, the first ones.
const STEPS_MAX: usize = 300;

enum Row<'a> {
    Attempt(&'a Attempt),
    Step(usize, &'a Step),
}

impl Row<'_> {
    /// Sort key by start time. An attempt comes before the steps that start with it.
    fn order(&self) -> (Timestamp, usize) {
        match self {
            Self::Attempt(attempt) => (attempt.started_at, 0),
            Self::Step(index, step) => (step.started_at, index + 1),
        }
    }
}

pub(super) fn show(
    ctx: &PageContext<Read>,
    record: &Record,
    steps: &[Step],
    now: Timestamp,
) -> Markup {
    let attempts = record.attempts();
    if attempts.is_empty() && steps.is_empty() {
        return html! { p.soft { "No attempt has started." } };
    }
    let left_out = attempts.len().saturating_sub(ATTEMPTS_MAX);
    let rows = attempts.iter().skip(left_out).map(Row::Attempt);
    let stored =
        steps.iter().take(STEPS_MAX).enumerate().map(|(index, step)| Row::Step(index, step));
    let mut rows: Vec<Row<'_>> = rows.chain(stored).collect();
    rows.sort_by_key(Row::order);
    let span = span(record, &attempts, now);
    let may_fork = ctx.may::<Submit>() && !record.job.has_payload;
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
                        th { span.visually-hidden { "Actions" } }
                    }
                }
                tbody {
                    @for row in &rows {
                        @match row {
                            Row::Attempt(attempt) => { (attempt_row(attempt, &span, now)) }
                            Row::Step(index, step) => {
                                tr.step {
                                    (step_cells(record, step, &span))
                                    td {
                                        @if may_fork {
                                            (fork_from(ctx, &record.job, *index, &step.name))
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
fn span(record: &Record, attempts: &[Attempt], now: Timestamp) -> Span {
    let begin = attempts.iter().map(|one| one.started_at).min();
    let end = attempts.iter().map(|one| one.ended_at.unwrap_or(now)).max();
    Span::new(begin.unwrap_or(record.job.created_at), end.unwrap_or(now))
}

fn attempt_row(attempt: &Attempt, span: &Span, now: Timestamp) -> Markup {
    let ended_at = attempt.ended_at.unwrap_or(now);
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
            td { (duration(ended_at.since(attempt.started_at))) }
            td.chart { (span.bar(attempt.started_at, ended_at, outcome.as_str())) }
            td {}
        }
    }
}

fn step_cells(record: &Record, step: &Step, span: &Span) -> Markup {
    let id = format!("step-{}", step.position);
    let is_copied = step.completed_at < record.job.created_at;
    html! {
        td {
            details #(id) {
                summary { (truncated(&step.name, 200)) }
                (json_tree::tree(step.output.as_str()))
            }
        }
        td { (time(&step.started_at)) }
        td { (duration(step.completed_at.since(step.started_at))) }
        td.chart {
            @if is_copied { span.soft { "Copied from the forked job" } }
            @else { (span.bar(step.started_at, step.completed_at, "step")) }
        }
    }
}
