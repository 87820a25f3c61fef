//! Backoff between retries.

use std::time::Duration;

/// Exponential backoff with jitter, so that the watchers of a restarted server do not all reconnect
/// at the same time.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0 }
    }

    /// Sets the first delay, as requested by the server.
    pub(super) fn set_first(&mut self, first: Duration) {
        self.first = first.min(self.max);
    }

    /// Starts again from the first delay.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the delay after one more failure; `chance` from 0 to 1 selects from its range.
    pub(super) fn next(&mut self, chance: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(16)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        // At least half of the delay.
        doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

/// Returns a random number from 0 to 1.
pub(super) fn chance() -> f64 {
    rand::random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_the_maximum_and_resets() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        let waits: Vec<_> = (0..4).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 350, 350]);
        backoff.reset();
        assert_eq!(backoff.next(0.0).as_millis(), 50);
    }
}
