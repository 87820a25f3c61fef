//! Attempts and steps, beside each other in time.

use longhaul::job::{Attempt, Record, Step};
use longhaul::{Status, Timestamp};
use maud::{Markup, html};

use super::actions::fork_from;
use crate::api::caller::{Read, Submit};
use crate::dashboard::charts::Span;
use crate::dashboard::parts::{cut, status, time, took};
use crate::dashboard::view::View;
use crate::dashboard::viewer;

/// Attempts that are shown, the latest ones.
const ATTEMPTS_MAX: usize = 50;
/// Steps that are shown, the first ones.
const STEPS_MAX: usize = 300;

pub(super) fn show(view: &View<Read>, record: &Record, steps: &[Step], now: Timestamp) -> Markup {
    let attempts = record.attempts();
    if attempts.is_empty() && steps.is_empty() {
        return html! { p.soft { "No attempt has begun." } };
    }
    let left_out = attempts.len().saturating_sub(ATTEMPTS_MAX);
    let span = span(&attempts, steps, now);
    let may_fork = view.may::<Submit>() && !record.job.has_payload;
    html! {
        @if left_out > 0 { p.soft { "The first " (left_out) " attempts are not shown." } }
        @if steps.len() > STEPS_MAX { p.soft { "The first " (STEPS_MAX) " of " (steps.len()) " steps are shown." } }
        div.scroll tabindex="0" role="region" aria-label="Attempts and steps" {
            table.timeline {
                thead { tr { th { "Attempt or step" } th { "Began" } th { "Took" } th.chart { "When" } th { "" } } }
                tbody {
                    @for attempt in attempts.iter().skip(left_out) { (try_row(attempt, &span, now)) }
                    @for (place, step) in steps.iter().take(STEPS_MAX).enumerate() {
                        tr.step {
                            td { (step_name(step)) }
                            td { (time(step.started_at)) }
                            td { (took(step.completed_at.since(step.started_at))) }
                            td.chart { (span.bar(step.started_at, step.completed_at, "step")) }
                            td { @if may_fork { (fork_from(view, &record.job, place, &step.name)) } }
                        }
                    }
                }
            }
        }
    }
}

/// From the first beginning to the last end.
fn span(attempts: &[Attempt], steps: &[Step], now: Timestamp) -> Span {
    let begins =
        attempts.iter().map(|one| one.started_at).chain(steps.iter().map(|one| one.started_at));
    let ends = attempts.iter().map(|one| one.ended_at.unwrap_or(now));
    let ends = ends.chain(steps.iter().map(|one| one.completed_at));
    Span::new(begins.min().unwrap_or(now), ends.max().unwrap_or(now))
}

fn try_row(attempt: &Attempt, span: &Span, now: Timestamp) -> Markup {
    let ended_at = attempt.ended_at.unwrap_or(now);
    let class = attempt.status.unwrap_or(Status::Running).as_str();
    html! {
        tr.attempt {
            td {
                strong { "Attempt " (attempt.attempt) }
                @if let Some(replica) = &attempt.replica { span.soft { " on " (cut(replica, 60)) } }
                " " @if let Some(after) = attempt.status { (status(after)) } @else { (status(Status::Running)) }
                @if let Some(error) = &attempt.error { p.error-text { (cut(&error.message, 300)) } }
            }
            td { (time(attempt.started_at)) }
            td { (took(ended_at.since(attempt.started_at))) }
            td.chart { (span.bar(attempt.started_at, ended_at, class)) }
            td {}
        }
    }
}

fn step_name(step: &Step) -> Markup {
    let id = format!("step-{}", step.position);
    html! {
        details #(id) {
            summary { (cut(&step.name, 200)) @if step.attempt > 1 { span.soft { " in attempt " (step.attempt) } } }
            (viewer::tree(step.output.as_str()))
        }
    }
}
