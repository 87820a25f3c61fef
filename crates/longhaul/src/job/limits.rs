//! Limits on submissions and running jobs.

use std::time::Duration;

/// Limits on submissions and running jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of an input in bytes. Defaults to 1 MiB.
    pub input_bytes_max: usize,
    /// Maximum size of a result in bytes. Defaults to 16 MiB.
    pub result_bytes_max: usize,
    /// Maximum size of a step's output in bytes. Defaults to 16 MiB.
    pub step_bytes_max: usize,
    /// Maximum number of steps of a job. Defaults to 10,000.
    pub steps_max: usize,
    /// Maximum length of a phase in characters. Defaults to 255.
    pub phase_chars_max: usize,
    /// Maximum number of labels of a job. Defaults to 32.
    pub labels_max: usize,
    /// Maximum length of a label's name and of its value in characters. Defaults to 255.
    pub label_chars_max: usize,
    /// Maximum length of an idempotency key in characters. Defaults to 255.
    pub idempotency_key_chars_max: usize,
    /// Maximum absolute value of a priority. Defaults to 100.
    pub priority_max: i32,
    /// Maximum for a job's number of attempts. Defaults to 1,000.
    pub max_attempts_max: u32,
    /// Maximum for the duration of an attempt. Defaults to 30 days.
    pub timeout_max: Duration,
    /// Maximum delay of the first attempt. Defaults to 366 days.
    pub delay_max: Duration,
    /// Maximum retention of a finished job. Defaults to 366 days.
    pub retention_max: Duration,
    /// Maximum size of a payload and of an artifact in bytes. Defaults to 500 MiB.
    pub payload_bytes_max: u64,
    /// Storage quota of a tenant for payloads and artifacts in bytes. Checked when an upload
    /// starts, so that concurrent uploads may exceed it together. Defaults to 100 GiB.
    pub payload_bytes_per_tenant_max: u64,
    /// Maximum number of artifacts of a job. Defaults to 1,000.
    pub artifacts_max: usize,
    /// Maximum number of pending jobs of a tenant. Exact in one process, approximate over several
    /// replicas. Defaults to 1,000,000.
    pub pending_per_tenant_max: u64,
}

const KIB: usize = 1024;
const MIB: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_hours(24);

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bytes_max: 1024 * KIB,
            result_bytes_max: 16 * 1024 * KIB,
            step_bytes_max: 16 * 1024 * KIB,
            steps_max: 10_000,
            phase_chars_max: 255,
            labels_max: 32,
            label_chars_max: 255,
            idempotency_key_chars_max: 255,
            priority_max: 100,
            max_attempts_max: 1_000,
            timeout_max: DAY * 30,
            delay_max: DAY * 366,
            retention_max: DAY * 366,
            payload_bytes_max: 500 * MIB,
            payload_bytes_per_tenant_max: 100 * 1024 * MIB,
            artifacts_max: 1_000,
            pending_per_tenant_max: 1_000_000,
        }
    }
}

/// A value that exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is over the limit: {given}, at most {limit} ({name})")]
pub struct LimitError {
    /// The value's description.
    pub what: &'static str,
    /// Name of the limit: a field of [`Limits`].
    pub name: &'static str,
    /// The value, with its unit.
    pub given: String,
    /// The limit, with its unit.
    pub limit: String,
}

/// Returns an error if `given` exceeds `limit`.
pub(crate) fn check_limit<T: PartialOrd + std::fmt::Debug>(
    what: &'static str,
    name: &'static str,
    given: &T,
    limit: &T,
) -> Result<(), LimitError> {
    if given <= limit {
        return Ok(());
    }
    Err(LimitError { what, name, given: format!("{given:?}"), limit: format!("{limit:?}") })
}
