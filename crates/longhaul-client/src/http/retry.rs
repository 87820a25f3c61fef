//! How long to wait before trying again.

use std::time::Duration;

/// Doubling waits with full jitter, so that a thousand watchers of one restarted server do not
/// come back in the same instant.
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

    /// Takes the server's word for the first wait.
    pub(super) fn set_first(&mut self, first: Duration) {
        self.first = first.min(self.max);
    }

    /// Things work again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure; `chance` in 0..1 picks from its range.
    pub(super) fn next(&mut self, chance: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(16)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        // At least half of it: a wait of nothing would be no wait.
        doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

/// A number in 0..1.
pub(super) fn chance() -> f64 {
    rand::random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        let waits: Vec<_> = (0..4).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 350, 350]);
        backoff.reset();
        assert_eq!(backoff.next(0.0).as_millis(), 50);
    }
}
