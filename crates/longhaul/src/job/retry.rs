//! When to try again: exponential, full jitter, bounded.

use std::time::Duration;

/// How often and how soon something that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, the first included.
    pub max_attempts: u32,
    /// The longest possible delay before the second try; it doubles from there.
    pub first: Duration,
    /// The longest possible delay before any try.
    pub max: Duration,
}

impl Retry {
    /// What a job gets when nobody says otherwise.
    pub const JOB: Self =
        Self { max_attempts: 3, first: Duration::from_secs(1), max: Duration::from_mins(5) };

    /// One try, and no second.
    pub const NEVER: Self = Self { max_attempts: 1, first: Duration::ZERO, max: Duration::ZERO };

    /// `max_attempts` tries with the delays of [`Retry::JOB`].
    pub const fn times(max_attempts: u32) -> Self {
        Self { max_attempts, ..Self::JOB }
    }

    /// Sets the longest possible delay before the second try.
    #[must_use]
    pub const fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// Sets the longest possible delay before any try.
    #[must_use]
    pub const fn max(mut self, max: Duration) -> Self {
        self.max = max;
        self
    }

    /// How long to wait after `attempt` (from 1) failed. `random` is uniform in 0..1.
    ///
    /// Full jitter: many jobs that failed together, because one target went down, do not come
    /// back together.
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
