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

#[cfg(feature = "metrics")]
pub(crate) fn heartbeat_failed() {
    metrics::counter!("longhaul_heartbeat_failures_total").increment(1);
}

/// Records that a connection to the database was dropped, because it was closed or did not respond in time.
#[cfg(all(feature = "metrics", feature = "postgres"))]
pub(crate) fn connection_dropped() {
    metrics::counter!("longhaul_connections_dropped_total").increment(1);
}

/// Records the number of lanes with jobs or recent claims.
#[cfg(all(feature = "metrics", feature = "postgres"))]
#[expect(clippy::cast_precision_loss, reason = "exact up to 2⁵³ lanes")]
pub(crate) fn active_lanes(count: i64) {
    metrics::gauge!("longhaul_active_lanes").set(count as f64);
}

/// Records the size of SQLite's write-ahead log.
#[cfg(all(feature = "metrics", feature = "sqlite"))]
#[expect(clippy::cast_precision_loss, reason = "exact up to 2⁵³ bytes")]
pub(crate) fn sqlite_wal_bytes(bytes: i64) {
    metrics::gauge!("longhaul_sqlite_wal_bytes").set(bytes as f64);
}

/// Records by how much the reference of this replica's clock is ahead of it.
#[cfg(all(feature = "metrics", any(feature = "postgres", feature = "sqlite")))]
#[expect(clippy::cast_precision_loss, reason = "exact up to 2⁵³ milliseconds")]
pub(crate) fn clock_offset(ahead_ms: i64) {
    metrics::gauge!("longhaul_clock_offset_seconds").set(ahead_ms as f64 / 1_000.0);
}

#[cfg(not(feature = "metrics"))]
pub(crate) fn job_submitted(_: &Name) {}

#[cfg(not(feature = "metrics"))]
pub(crate) fn attempt_ended(_: &Name, _: Status, _: Duration) {}

#[cfg(not(feature = "metrics"))]
pub(crate) fn heartbeat_failed() {}

#[cfg(all(not(feature = "metrics"), feature = "postgres"))]
pub(crate) fn connection_dropped() {}

#[cfg(all(not(feature = "metrics"), feature = "postgres"))]
pub(crate) fn active_lanes(_: i64) {}

#[cfg(all(not(feature = "metrics"), feature = "sqlite"))]
pub(crate) fn sqlite_wal_bytes(_: i64) {}

#[cfg(all(not(feature = "metrics"), any(feature = "postgres", feature = "sqlite")))]
pub(crate) fn clock_offset(_: i64) {}
