//! Health of the store: loops that back off continue as soon as it responds again.

use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::job::Retry;

/// Backoff of loops that call the store, while it fails.
const BACKOFF: Retry =
    Retry { max_attempts: u32::MAX, first: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Result of this process's last call to the store, as far as it was recorded.
pub(crate) struct StoreHealth {
    /// True after a failure, until any call succeeds.
    failing: watch::Sender<bool>,
}

impl StoreHealth {
    pub(super) fn new() -> Self {
        Self { failing: watch::Sender::new(false) }
    }

    pub(super) fn record_failure(&self) {
        self.failing.send_replace(true);
    }

    pub(super) fn record_success(&self) {
        // Submissions come here by the thousand, and almost always find a healthy store.
        if *self.failing.borrow() {
            self.failing.send_replace(false);
        }
    }

    /// Waits before a loop repeats its failed call: 1 s, then twice as long each time, up to 30 s. Ends early when any
    /// other call succeeds, but not within the first second, so that a loop whose own calls fail on a healthy store
    /// does not spin.
    pub(super) async fn back_off(&self, clock: &Clock, failures: u32) {
        let (mut failing, now) = (self.failing.subscribe(), clock.now());
        clock.sleep_until(now.after(BACKOFF.first)).await;
        tokio::select! {
            biased;
            // Cannot fail: `self` owns the sender.
            _ = failing.wait_for(|failing| !failing) => {}
            () = clock.sleep_until(now.after(BACKOFF.delay(failures, 1.0))) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::job::Timestamp;

    /// Returns whether a backoff has ended, polled once.
    fn has_ended(backoff: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        backoff.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn backoff_of_a_failing_store_ends_with_the_first_success() {
        let (health, clock) = (StoreHealth::new(), Clock::manual(Timestamp::from_millis(0)));
        health.record_failure();
        let mut backoff = pin!(health.back_off(&clock, 10));
        assert!(!has_ended(backoff.as_mut()));
        clock.advance(Duration::from_secs(29));
        assert!(!has_ended(backoff.as_mut()), "10 failures are worth 30 s");
        health.record_success();
        assert!(has_ended(backoff.as_mut()));
    }

    #[test]
    fn backoff_lasts_a_second_although_other_calls_succeed() {
        let (health, clock) = (StoreHealth::new(), Clock::manual(Timestamp::from_millis(0)));
        health.record_failure();
        health.record_success();
        let mut backoff = pin!(health.back_off(&clock, 10));
        // It begins when it is first polled.
        assert!(!has_ended(backoff.as_mut()));
        clock.advance(Duration::from_millis(999));
        assert!(!has_ended(backoff.as_mut()));
        clock.advance(Duration::from_millis(1));
        assert!(has_ended(backoff.as_mut()));
    }
}
