//! Usage of finished jobs, and its metering.

use std::ops::AddAssign;
use std::time::Duration;

use super::{Name, Timestamp};

/// Retention of usage: thirteen months, so that a month can be compared with the same month of the
/// year before.
pub const USAGE_RETENTION: Duration = Duration::from_hours(24 * (365 + 31));

const HOUR_MS: i64 = 3_600_000;

/// Usage of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Jobs that ended, each counted once even if it was resumed and ended again.
    pub jobs: u64,
    /// Total duration of attempts, in milliseconds.
    pub run_ms: u64,
    /// Total size of payloads, in bytes.
    pub payload_bytes: u64,
    /// Finished steps. Steps that a fork starts with count for the original job only.
    pub steps: u64,
    /// Tokens of language models.
    pub tokens: Tokens,
}

/// Tokens that a language model reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens read.
    pub prompt: u64,
    /// Tokens written.
    pub completion: u64,
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, more: Self) {
        self.prompt = self.prompt.saturating_add(more.prompt);
        self.completion = self.completion.saturating_add(more.completion);
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.jobs = self.jobs.saturating_add(more.jobs);
        self.run_ms = self.run_ms.saturating_add(more.run_ms);
        self.payload_bytes = self.payload_bytes.saturating_add(more.payload_bytes);
        self.steps = self.steps.saturating_add(more.steps);
        self.tokens += more.tokens;
    }
}

/// Usage of one tenant's jobs of one kind and API key that ended within one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// Start of the hour, in UTC.
    pub hour: Timestamp,
    /// Kind of the jobs.
    pub kind: Name,
    /// Id of the API key that submitted the jobs, if any.
    pub key: Option<String>,
    /// Total usage of these jobs.
    pub usage: Usage,
}

/// Returns the start of the hour that contains `at`.
pub fn hour_of(at: Timestamp) -> Timestamp {
    let millis = at.as_millis();
    Timestamp::from_millis(millis.saturating_sub(millis.rem_euclid(HOUR_MS)))
}

/// Usage of one job that is not metered yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageMeter {
    /// Id of the API key that submitted the job.
    pub key: Option<String>,
    /// Start of the running attempt.
    pub claimed_at: Option<Timestamp>,
    /// Duration of attempts since the job was last metered, in milliseconds.
    pub run_ms: u64,
    /// Size of the payload, in bytes.
    pub payload_bytes: u64,
    /// True if the job itself was metered.
    pub metered: bool,
    /// Steps that were metered, or that a fork started with.
    pub metered_steps: u64,
    /// Tokens of the attempt that is ending. Not stored: only the attempt that ends a job counts.
    pub tokens: Tokens,
}

impl UsageMeter {
    /// Records the start of an attempt.
    pub fn start(&mut self, now: Timestamp) {
        self.claimed_at = Some(now);
    }

    /// Records the end of an attempt.
    pub fn stop(&mut self, at: Timestamp) {
        if let Some(claimed_at) = self.claimed_at.take() {
            let ran = u64::try_from(at.since(claimed_at).as_millis()).unwrap_or(u64::MAX);
            self.run_ms = self.run_ms.saturating_add(ran);
        }
    }

    /// Returns the usage to add when the job ends with this number of finished steps. Nothing is
    /// counted twice, however often a job is resumed.
    pub fn meter(&mut self, steps: u64) -> Usage {
        let first = !std::mem::replace(&mut self.metered, true);
        let known = std::mem::replace(&mut self.metered_steps, steps);
        Usage {
            jobs: u64::from(first),
            run_ms: std::mem::take(&mut self.run_ms),
            payload_bytes: if first { self.payload_bytes } else { 0 },
            steps: steps.saturating_sub(known),
            tokens: std::mem::take(&mut self.tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn resumed_job_adds_only_what_is_new() {
        let mut meter = UsageMeter { payload_bytes: 9, ..UsageMeter::default() };
        meter.start(at(1_000));
        meter.stop(at(1_250));
        let tokens = Tokens { prompt: 5, completion: 7 };
        meter.tokens = tokens;
        let first = Usage { jobs: 1, run_ms: 250, payload_bytes: 9, steps: 2, tokens };
        assert_eq!(meter.meter(2), first);
        meter.start(at(5_000));
        meter.stop(at(5_001));
        assert_eq!(meter.meter(3), Usage { run_ms: 1, steps: 1, ..Usage::default() });
        assert_eq!(meter.meter(3), Usage::default());
    }

    #[test]
    fn attempt_that_ends_before_it_began_took_no_time() {
        let mut meter = UsageMeter::default();
        meter.start(at(5));
        meter.stop(at(0));
        meter.stop(at(100));
        assert_eq!(meter.meter(0), Usage { jobs: 1, ..Usage::default() });
    }

    #[test]
    fn hours_are_those_of_the_clock() {
        let hour = |text| hour_of(Timestamp::parse(text).unwrap()).to_string();
        assert_eq!(hour("2026-11-15T10:59:59.999Z"), "2026-11-15T10:00:00.000Z");
        assert_eq!(hour("2026-11-15T10:00:00Z"), "2026-11-15T10:00:00.000Z");
        assert_eq!(hour_of(at(-1)), at(-3_600_000));
    }
}
