//! A status line that changes in place while a person waits for a job.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use longhaul::job::Timestamp;
use longhaul_client::wire::{Job, Status};

use crate::cli::output::color::{Paint, Style, printable};
use crate::cli::output::progress_bar::bar_style;
use crate::cli::output::time::{age, until};

const TICK: Duration = Duration::from_millis(100);

/// Shows kind, id, status, phase, progress and elapsed time.
pub(crate) struct LiveLine {
    bar: ProgressBar,
    style: Style,
    /// Last attempt whose error was printed.
    printed_attempt: u32,
}

impl LiveLine {
    pub(crate) fn new(job: &Job, now: Timestamp, style: Style) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
            .with_elapsed(since(now, job));
        bar.set_prefix(format!("{} {}", style.bold(&printable(&job.kind)), style.dim(&job.job_id)));
        // Before the first tick, which would use indicatif's default style.
        bar.set_style(bar_style(template(false), style));
        bar.enable_steady_tick(TICK);
        Self { bar, style, printed_attempt: 0 }
    }

    pub(crate) fn show(&mut self, job: &Job, now: Timestamp) {
        if job.status.is_terminal() {
            return;
        }
        self.print_error(job);
        let progress = job.progress.as_ref();
        let total = progress.and_then(|progress| progress.total);
        self.bar.set_message(activity(job, now, self.style));
        self.bar.set_length(total.unwrap_or_default());
        self.bar.set_position(progress.map_or(0, |progress| progress.done));
        self.bar.set_style(bar_style(template(total.is_some()), self.style));
    }

    /// Prints the error of a failed attempt on a line of its own.
    fn print_error(&mut self, job: &Job) {
        let Some(error) = &job.error else { return };
        if error.attempt <= self.printed_attempt {
            return;
        }
        self.printed_attempt = error.attempt;
        let text = format!("attempt {} failed: {}", error.attempt, printable(&error.message));
        self.bar.println(self.style.paint(Paint::Yellow, &text));
    }

    pub(crate) fn reconnecting(&self) {
        self.bar.set_message(
            self.style.paint(Paint::Yellow, "connection lost, retrying (the job is safe)"),
        );
    }
}

/// Clears the line, also after an error.
impl Drop for LiveLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn activity(job: &Job, now: Timestamp, style: Style) -> String {
    let mut parts = vec![style.status(job.status, 0)];
    parts.extend(job.phase.as_deref().map(|phase| printable(phase).into_owned()));
    if job.attempt > 1 {
        parts.push(format!("attempt {} of {}", job.attempt, job.max_attempts));
    }
    if job.status == Status::Pending {
        parts.extend(until(now, &job.run_at).map(|wait| format!("due in {}", age(wait))));
    }
    let message = job.progress.as_ref().and_then(|progress| progress.message.as_deref());
    parts.extend(message.map(|message| style.dim(&printable(message))));
    parts.join(" · ")
}

fn template(has_total: bool) -> &'static str {
    if has_total {
        "{spinner:.cyan} {prefix}  {bar:24.cyan/black.bright} {pos}/{len}  {elapsed:.dim}  {wide_msg}"
    } else {
        "{spinner:.cyan} {prefix}  {elapsed:.dim}  {wide_msg}"
    }
}

fn since(now: Timestamp, job: &Job) -> Duration {
    Timestamp::parse(job.created_at.as_str()).map_or(Duration::ZERO, |at| now.since(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::{now, pending, running};

    #[test]
    fn live_line_shows_status_phase_and_due_time() {
        insta::assert_snapshot!(activity(&running(), now(), Style::PLAIN), @"● running · parsing · src/lib.rs");
        let mut job = pending();
        job.run_at = "2026-11-15T08:05:10.000Z".into();
        insta::assert_snapshot!(activity(&job, now(), Style::PLAIN), @"○ pending · due in 5m");
    }

    #[test]
    fn live_line_templates_are_valid() {
        for has_total in [true, false] {
            for color in [true, false] {
                let style = bar_style(template(has_total), Style { color });
                let bar = ProgressBar::hidden().with_style(style);
                bar.tick();
            }
        }
    }
}
