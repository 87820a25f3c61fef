//! Attempts and steps, beside each other in time.

use longhaul::job::{Attempt, Record, Step};
use longhaul::{Status, Timestamp};
use maud::{Markup, html};

use super::actions::fork_from;
use crate::api::http::caller::{Read, Submit};
use crate::dashboard::charts::Span;
use crate::dashboard::parts::{cut, status, time, took};
use crate::dashboard::view::View;
use crate::dashboard::viewer;

/// Attempts that are shown, the latest ones.
const ATTEMPTS_MAX: usize = 50;
/// Steps that are shown, the first ones.
const STEPS_MAX: usize = 300;

/// One row: what began when.
enum Row<'a> {
    Try(&'a Attempt),
    Step(usize, &'a Step),
}

impl Row<'_> {
    /// An attempt comes before the steps that it began with.
    fn order(&self) -> (Timestamp, usize) {
        match self {
            Self::Try(attempt) => (attempt.started_at, 0),
            Self::Step(place, step) => (step.started_at, place + 1),
        }
    }
}

pub(super) fn show(view: &View<Read>, record: &Record, steps: &[Step], now: Timestamp) -> Markup {
    let attempts = record.attempts();
    if attempts.is_empty() && steps.is_empty() {
        return html! { p.soft { "No attempt has begun." } };
    }
    let left_out = attempts.len().saturating_sub(ATTEMPTS_MAX);
    let tries = attempts.iter().skip(left_out).map(Row::Try);
    let stored =
        steps.iter().take(STEPS_MAX).enumerate().map(|(place, step)| Row::Step(place, step));
    let mut rows: Vec<Row<'_>> = tries.chain(stored).collect();
    rows.sort_by_key(Row::order);
    let span = span(record, &attempts, now);
    let may_fork = view.may::<Submit>() && !record.job.has_payload;
    html! {
        @if left_out > 0 { p.soft { "The first " (left_out) " attempts are not shown." } }
        @if steps.len() > STEPS_MAX {
            p.soft { "The first " (STEPS_MAX) " of " (steps.len()) " steps are shown." }
        }
        div.scroll tabindex="0" role="group" aria-label="Attempts and steps" {
            table.timeline {
                thead {
                    tr {
                        th { "Attempt or step" } th { "Began" } th { "Took" } th.chart { "When" }
                        th { span.unseen { "What can be done" } }
                    }
                }
                tbody {
                    @for row in &rows {
                        @match row {
                            Row::Try(attempt) => { (try_row(attempt, &span, now)) }
                            Row::Step(place, step) => {
                                tr.step {
                                    (step_cells(record, step, &span))
                                    td {
                                        @if may_fork {
                                            (fork_from(view, &record.job, *place, &step.name))
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

/// From the first attempt to the end of the last. What a fork brought along was before.
fn span(record: &Record, attempts: &[Attempt], now: Timestamp) -> Span {
    let begin = attempts.iter().map(|one| one.started_at).min();
    let end = attempts.iter().map(|one| one.ended_at.unwrap_or(now)).max();
    Span::new(begin.unwrap_or(record.job.created_at), end.unwrap_or(now))
}

fn try_row(attempt: &Attempt, span: &Span, now: Timestamp) -> Markup {
    let ended_at = attempt.ended_at.unwrap_or(now);
    // One that failed and is tried again leaves its job pending.
    let stands = match (attempt.status, &attempt.error) {
        (None, _) => Status::Running,
        (Some(_), Some(_)) => Status::Failed,
        (Some(status), None) => status,
    };
    html! {
        tr.attempt {
            td {
                strong { "Attempt " (attempt.attempt) } " " (status(stands))
                @if let Some(replica) = &attempt.replica { span.soft { " on " (cut(replica, 60)) } }
                @if let Some(error) = &attempt.error { p.error-text { (cut(&error.message, 300)) } }
            }
            td { (time(attempt.started_at)) }
            td { (took(ended_at.since(attempt.started_at))) }
            td.chart { (span.bar(attempt.started_at, ended_at, stands.as_str())) }
            td {}
        }
    }
}

fn step_cells(record: &Record, step: &Step, span: &Span) -> Markup {
    let id = format!("step-{}", step.position);
    let is_kept = step.completed_at < record.job.created_at;
    html! {
        td {
            details #(id) {
                summary { (cut(&step.name, 200)) }
                (viewer::tree(step.output.as_str()))
            }
        }
        td { (time(step.started_at)) }
        td { (took(step.completed_at.since(step.started_at))) }
        td.chart {
            @if is_kept { span.soft { "kept from the job that it was forked from" } }
            @else { (span.bar(step.started_at, step.completed_at, "step")) }
        }
    }
}
