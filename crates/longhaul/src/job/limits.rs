//! Everything has a limit, with a name, a unit and a default.

use std::time::Duration;

/// The bounds that a submission and a running job are held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a job's input.
    pub input_bytes_max: usize,
    /// Bytes of a job's result.
    pub result_bytes_max: usize,
    /// Bytes of one step's output.
    pub step_bytes_max: usize,
    /// Steps of one job.
    pub steps_max: usize,
    /// Characters of a phase.
    pub phase_chars_max: usize,
    /// Labels of one job.
    pub labels_max: usize,
    /// Characters of a label's name and of its value.
    pub label_chars_max: usize,
    /// Characters of an idempotency key.
    pub idempotency_key_chars_max: usize,
    /// How far a priority may be from zero.
    pub priority_max: i32,
    /// Attempts that a job may be given.
    pub max_attempts_max: u32,
    /// How long one attempt may take.
    pub timeout_max: Duration,
    /// How far ahead a job may be put off.
    pub delay_max: Duration,
    /// How long a finished job may be kept.
    pub retention_max: Duration,
    /// Bytes of a job's payload, and of one artifact.
    pub payload_bytes_max: u64,
    /// Bytes of all payloads and artifacts of one tenant that are stored. Each upload looks when it
    /// begins, so those that come at the same time may together be over it.
    pub payload_bytes_per_tenant_max: u64,
    /// Artifacts of one job.
    pub artifacts_max: usize,
    /// Jobs of one tenant that are pending. Kept exactly by one process; each of several that share
    /// a store learns of the others' submissions only when it counts.
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

/// A limit that a submission exceeds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is over the limit: {given}, at most {limit} ({name})")]
pub struct LimitError {
    /// What was too large, in words.
    pub what: &'static str,
    /// The limit's name, as in the configuration.
    pub name: &'static str,
    /// What was given, with its unit.
    pub given: String,
    /// What is allowed, with its unit.
    pub limit: String,
}

/// Errs when `given` is over `limit`.
pub fn check_limit<T: PartialOrd + std::fmt::Debug>(
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
