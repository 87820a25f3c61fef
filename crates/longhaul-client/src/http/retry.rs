//! Backoff between retries.

use std::time::Duration;

use tokio::time::Instant;

use super::ClientError;

/// Delays between the connections of a stream.
const FIRST_RECONNECT: Duration = Duration::from_millis(500);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

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

/// Reconnection of a stream, which fails after a time without a connection.
#[derive(Debug)]
pub(super) struct Reconnection {
    pub(super) backoff: Backoff,
    pub(super) give_up_after: Duration,
    failing_since: Option<Instant>,
}

impl Reconnection {
    pub(super) fn new(give_up_after: Duration) -> Self {
        let backoff = Backoff::new(FIRST_RECONNECT, RECONNECT_MAX);
        Self { backoff, give_up_after, failing_since: None }
    }

    /// Records that data arrived.
    pub(super) fn succeeded(&mut self) {
        self.failing_since = None;
        self.backoff.reset();
    }

    /// Returns the delay before the next attempt; `None` if the stream fails with this error.
    pub(super) fn delay_after(&mut self, error: &ClientError) -> Option<Duration> {
        let failing_since = *self.failing_since.get_or_insert_with(Instant::now);
        let goes_on = error.is_transient() && failing_since.elapsed() < self.give_up_after;
        goes_on.then(|| self.backoff.next(chance()))
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
