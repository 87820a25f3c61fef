//! One-line summaries of a job: a change, and its end.

use std::fmt::Write as _;

use longhaul::job::Timestamp;
use longhaul_client::wire::{Job, Progress, Status};

use crate::cli::output::color::{Paint, Style, printable, sign, status_color};
use crate::cli::output::time::{between, clock_time, span, until};

/// Formats one change of a job: time, status and details.
pub(crate) fn transition(job: &Job, now: Timestamp, style: Style) -> String {
    let mut line = format!("{}  {}", style.dim(&clock_time(now)), style.status(job.status, 9));
    for part in details(job, now) {
        // Writing to a string cannot fail.
        write!(line, "  {part}").ok();
    }
    line.trim_end().to_owned()
}

/// Details besides the status, most important first.
fn details(job: &Job, now: Timestamp) -> Vec<String> {
    let mut parts = Vec::new();
    match job.status {
        Status::Pending => {
            parts.extend(until(now, &job.run_at).map(|wait| format!("due in {}", span(wait))));
        }
        Status::Running | Status::Waiting => {
            parts.push(format!("attempt {}/{}", job.attempt, job.max_attempts));
        }
        Status::Completed | Status::Failed | Status::Cancelled => parts.extend(took(job)),
    }
    parts.extend(job.phase.as_deref().map(|phase| printable(phase).into_owned()));
    if !job.status.is_terminal() {
        parts.extend(job.progress.as_ref().map(progress));
    }
    // A running attempt has no error yet; the error is that of an earlier one.
    let error = job.error.as_ref().filter(|_| job.status != Status::Running);
    parts.extend(error.map(|error| printable(&error.message).into_owned()));
    parts
}

/// Formats progress, for example `120/400  src/lib.rs`.
pub(crate) fn progress(progress: &Progress) -> String {
    match &progress.message {
        Some(message) => format!("{}  {}", units(progress), printable(message)),
        None => units(progress),
    }
}

/// Formats the finished units of work, for example `120/400`.
pub(crate) fn units(progress: &Progress) -> String {
    match progress.total {
        Some(total) => format!("{}/{total}", progress.done),
        None => progress.done.to_string(),
    }
}

/// Formats the end of a job that a command waited for.
pub(crate) fn ending(job: &Job, style: Style) -> String {
    let mark = style.paint(status_color(job.status), &sign(job.status).to_string());
    let status = style.paint(status_color(job.status), job.status.as_str());
    let mut line = format!("{mark} {} {} {status}", style.bold(&printable(&job.kind)), job.job_id);
    if let Some(took) = took(job) {
        write!(line, " {}", style.dim(&took)).ok();
    }
    if job.attempt > 1 {
        let attempts = format!("· attempt {} of {}", job.attempt, job.max_attempts);
        write!(line, " {}", style.dim(&attempts)).ok();
    }
    if let Some(error) = job.error.as_ref().filter(|_| job.status != Status::Completed) {
        let message = style.paint(Paint::Red, &printable(&error.message));
        write!(line, "\n  {message} {}", style.dim(&format!("({})", printable(&error.code)))).ok();
    }
    line
}

/// Time from the submission to the end.
fn took(job: &Job) -> Option<String> {
    let completed_at = job.completed_at.as_ref()?;
    between(&job.created_at, completed_at).map(|duration| format!("in {}", span(duration)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::{completed, failed, now, pending, running};

    #[test]
    fn each_change_is_a_line() {
        let mut retrying = failed();
        retrying.status = Status::Pending;
        retrying.run_at = "2026-11-15T08:00:14.200Z".into();
        let lines = [pending(), running(), retrying, completed(), failed()]
            .map(|job| transition(&job, now(), Style::PLAIN))
            .join("\n");
        insta::assert_snapshot!(lines, @"
        08:00:09Z  ○ pending
        08:00:09Z  ● running    attempt 1/3  parsing  120/400  src/lib.rs
        08:00:09Z  ○ pending    due in 5.2s  the worker stopped renewing its lease
        08:00:09Z  ✓ completed  in 4.2s
        08:00:09Z  ✗ failed     in 4.2s  the worker stopped renewing its lease
        ");
    }

    #[test]
    fn an_ending_says_how_it_went_and_how_long_it_took() {
        insta::assert_snapshot!(ending(&completed(), Style::PLAIN), @"✓ graph 01KA3V8J5T0000000000000000 completed in 4.2s");
        insta::assert_snapshot!(ending(&failed(), Style::PLAIN), @"
        ✗ graph 01KA3V8J5T0000000000000000 failed in 4.2s · attempt 3 of 3
          the worker stopped renewing its lease (worker-lost)
        ");
    }
}
