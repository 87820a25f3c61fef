//! Metrics of the engine, without effect unless the feature `metrics` is on.

use std::time::Duration;

use crate::job::{Name, Status};

#[cfg(feature = "metrics")]
pub(crate) fn job_submitted(kind: &Name) {
    metrics::counter!("longhaul_jobs_submitted_total", "kind" => kind.to_string()).increment(1);
}

#[cfg(feature = "metrics")]
pub(crate) fn attempt_ended(kind: &Name, status: Status, took: Duration) {
    let (kind, status) = (kind.to_string(), status.as_str());
    metrics::counter!("longhaul_attempts_ended_total", "kind" => kind.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("longhaul_attempt_seconds", "kind" => kind).record(took.as_secs_f64());
}

#[cfg(not(feature = "metrics"))]
pub(crate) fn job_submitted(_: &Name) {}

#[cfg(not(feature = "metrics"))]
pub(crate) fn attempt_ended(_: &Name, _: Status, _: Duration) {}
