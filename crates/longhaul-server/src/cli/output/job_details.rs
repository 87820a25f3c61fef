//! Detailed view of a job, in aligned rows.

use std::fmt::Write as _;

use longhaul::job::Timestamp;
use longhaul_client::wire::{Instant, Job, JobError, Progress};

use crate::cli::output::color::{Paint, Style, printable, status_color};
use crate::cli::output::job_line;
use crate::cli::output::pretty_json::pretty;
use crate::cli::output::time::{between, relative, span, until};

const BAR_CELLS: u64 = 24;

/// Formats all details of a job.
pub(crate) fn job_details(job: &Job, now: Timestamp, style: Style) -> String {
    let mut text = format!(
        "{}  {} {}",
        style.status(job.status, 0),
        style.bold(&printable(&job.kind)),
        job.job_id
    );
    if let Some(phase) = &job.phase {
        write!(text, " {}", style.dim(&format!("· {}", printable(phase)))).ok();
    }
    text.push('\n');
    for (name, value) in rows(job, now, style) {
        write!(text, "\n  {}  {value}", style.dim(&format!("{name:<9}"))).ok();
    }
    if let Some(result) = &job.result {
        write!(text, "\n\n  {}\n{}", style.dim("result"), pretty(result, style)).ok();
    }
    text
}

fn rows(job: &Job, now: Timestamp, style: Style) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let mut row = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    let at = |at: &Instant| format!("{:<8}  {}", relative(now, at), style.dim(at.as_str()));

    row("error", job.error.as_ref().map(|error| error_text(error, style)));
    row("progress", job.progress.as_ref().map(|progress| bar(progress, job, style)));
    row("attempt", Some(format!("{} of {}", job.attempt, job.max_attempts)));
    row("queue", Some(job.queue.clone()));
    row("priority", Some(job.priority).filter(|p| *p != 0).map(|p| p.to_string()));
    row("labels", Some(labels(&job.labels)).filter(|labels| !labels.is_empty()));
    row("key", job.idempotency_key.as_deref().map(|key| printable(key).into_owned()));
    row("created", Some(at(&job.created_at)));
    row("due", until(now, &job.run_at).map(|_| at(&job.run_at)));
    row("started", job.started_at.as_ref().map(at));
    row("finished", job.completed_at.as_ref().map(at));
    row("took", took(job));
    row("expires", job.expires_at.as_ref().map(at));
    row("fork of", job.forked_from.clone());
    row("parent", job.parent_id.clone());
    for artifact in &job.artifacts {
        let about = format!("{}, {} bytes", printable(&artifact.content_type), artifact.size);
        row("artifact", Some(format!("{}  {}", printable(&artifact.name), style.dim(&about))));
    }
    rows
}

fn took(job: &Job) -> Option<String> {
    between(job.started_at.as_ref()?, job.completed_at.as_ref()?).map(span)
}

fn error_text(error: &JobError, style: Style) -> String {
    let again = if error.retryable { "retryable" } else { "not retryable" };
    let about = format!("({}, attempt {}, {again})", printable(&error.code), error.attempt);
    let message = style.paint(Paint::Red, &printable(&error.message));
    format!("{message} {}", style.dim(&about))
}

/// Formats a progress bar, for example `━━━━━━──────  120/400  src/lib.rs`.
fn bar(progress: &Progress, job: &Job, style: Style) -> String {
    let text = job_line::progress(progress);
    let Some(total) = progress.total.filter(|total| *total > 0) else { return text };
    let done = progress.done.min(total);
    // u128, so that no unit count can overflow.
    let cells = u128::from(done) * u128::from(BAR_CELLS) / u128::from(total);
    let full = usize::try_from(cells).unwrap_or_default();
    let rest = usize::try_from(BAR_CELLS).unwrap_or_default().saturating_sub(full);
    let full = style.paint(status_color(job.status), &"━".repeat(full));
    format!("{full}{}  {text}", style.dim(&"─".repeat(rest)))
}

/// Formats labels, for example `env=prod team=search`.
pub(crate) fn labels(labels: &std::collections::BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = labels
        .iter()
        .map(|(name, value)| format!("{}={}", printable(name), printable(value)))
        .collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::{completed, failed, now, pending, running};

    #[test]
    fn details_of_a_running_job_show_progress() {
        insta::assert_snapshot!(job_details(&running(), now(), Style::PLAIN), @"
        ● running  graph 01KA3V8J5T0000000000000000 · parsing

          progress   ━━━━━━━─────────────────  120/400  src/lib.rs
          attempt    1 of 3
          queue      default
          labels     env=prod team=search
          key        order-4711
          created    9s ago    2026-11-15T08:00:00.000Z
          started    8s ago    2026-11-15T08:00:01.000Z
        ");
    }

    #[test]
    fn details_of_a_completed_job_show_the_result() {
        insta::assert_snapshot!(job_details(&completed(), now(), Style::PLAIN), @r#"
        ✓ completed  graph 01KA3V8J5T0000000000000000

          attempt    1 of 3
          queue      default
          labels     env=prod team=search
          key        order-4711
          created    9s ago    2026-11-15T08:00:00.000Z
          started    8s ago    2026-11-15T08:00:01.000Z
          finished   4s ago    2026-11-15T08:00:04.200Z
          took       3.2s
          expires    in 23h    2026-11-16T08:00:04.200Z

          result
        {
          "nodes": 42,
          "languages": [
            "rust"
          ]
        }
        "#);
    }

    #[test]
    fn details_of_a_failed_job_show_the_error_first() {
        insta::assert_snapshot!(job_details(&failed(), now(), Style::PLAIN), @"
        ✗ failed  graph 01KA3V8J5T0000000000000000

          error      the worker stopped renewing its lease (worker-lost, attempt 3, retryable)
          attempt    3 of 3
          queue      default
          labels     env=prod team=search
          key        order-4711
          created    9s ago    2026-11-15T08:00:00.000Z
          started    8s ago    2026-11-15T08:00:01.000Z
          finished   4s ago    2026-11-15T08:00:04.200Z
          took       3.2s
          expires    in 23h    2026-11-16T08:00:04.200Z
        ");
    }

    #[test]
    fn details_of_a_scheduled_job_show_the_due_time() {
        let mut job = pending();
        job.run_at = "2026-11-15T08:05:10.000Z".into();
        let details = job_details(&job, now(), Style::PLAIN);
        assert!(details.contains("due        in 5m"), "{details}");
    }
}
