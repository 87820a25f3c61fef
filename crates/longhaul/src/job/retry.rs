//! Retry policy: exponential backoff with full jitter and a bound.

use std::time::Duration;

/// Number of attempts and backoff between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// Maximum delay before the second attempt. It doubles with each further attempt.
    pub first: Duration,
    /// Maximum delay before any attempt.
    pub max: Duration,
}

impl Retry {
    /// Default for jobs: 3 attempts, up to 1 s before the second, at most 5 minutes.
    pub const JOB: Self =
        Self { max_attempts: 3, first: Duration::from_secs(1), max: Duration::from_mins(5) };

    /// One attempt only.
    pub const NEVER: Self = Self { max_attempts: 1, first: Duration::ZERO, max: Duration::ZERO };

    /// Returns a policy of `max_attempts` with the delays of [`Retry::JOB`].
    pub const fn times(max_attempts: u32) -> Self {
        Self { max_attempts, ..Self::JOB }
    }

    /// Sets the maximum delay before the second attempt.
    #[must_use]
    pub const fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// Sets the maximum delay before any attempt.
    #[must_use]
    pub const fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    /// Returns the delay after attempt number `attempt` (from 1) failed. `random` is uniform in
    /// 0..1.
    ///
    /// Full jitter, so that many jobs that failed together, because a target went down, are not
    /// retried together.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let ceiling = self.first.saturating_mul(1 << doublings);
        ceiling.min(self.max).mul_f64(random.clamp(0.0, 1.0))
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::JOB
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ceiling_doubles_until_the_bound() {
        let retry = Retry::times(10).first(Duration::from_secs(1)).max(Duration::from_secs(10));
        let ceilings: Vec<u64> = (1..=6).map(|n| retry.delay(n, 1.0).as_secs()).collect();
        assert_eq!(ceilings, [1, 2, 4, 8, 10, 10]);
    }

    proptest! {
        #[test]
        fn delay_never_exceeds_the_bound(attempt in 0u32..=u32::MAX, random in 0.0f64..1.0, first_ms in 0u64..10_000_000, max_ms in 0u64..10_000_000) {
            let retry = Retry::times(3).first(Duration::from_millis(first_ms)).max(Duration::from_millis(max_ms));
            prop_assert!(retry.delay(attempt, random) <= Duration::from_millis(max_ms));
        }
    }
}
