//! The one place that reads the time. Tests own it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

use crate::job::Timestamp;

/// Where an engine and its store get the time from.
#[derive(Debug, Clone)]
pub struct Clock(Inner);

#[derive(Debug, Clone)]
enum Inner {
    /// When it was made, by the machine's uptime and by its calendar.
    System {
        started: Duration,
        started_at: Timestamp,
        /// Milliseconds that a store's time is ahead of it; shared by all clones.
        ahead: Arc<AtomicI64>,
    },
    Manual(Arc<Mutex<watch::Sender<Timestamp>>>),
}

impl Clock {
    /// The machine's time.
    ///
    /// Read once, then carried on by the machine's uptime: somebody who sets its clock forward by an
    /// hour must not end every lease.
    pub fn system() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_at = Timestamp::from_millis(0).after(since_1970);
        Self(Inner::System { started: uptime(), started_at, ahead: Arc::default() })
    }

    /// A clock that stands at `start` and moves only by [`Clock::advance`].
    pub fn manual(start: Timestamp) -> Self {
        Self(Inner::Manual(Arc::new(Mutex::new(watch::Sender::new(start)))))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Inner::System { started, started_at, ahead } => {
                let here = started_at.after(uptime().saturating_sub(*started));
                let ahead = ahead.load(Ordering::Relaxed);
                Timestamp::from_millis(here.as_millis().saturating_add(ahead))
            }
            Inner::Manual(sender) => {
                *sender.lock().unwrap_or_else(PoisonError::into_inner).borrow()
            }
        }
    }

    /// Sets the machine's clock, for this process, to the time of a store that others share. `within`
    /// is how exactly that is known: a smaller difference changes nothing. A manual clock does not
    /// listen.
    #[cfg(feature = "postgres")]
    pub(crate) fn set_to(&self, at: Timestamp, within: Duration) {
        if let Inner::System { ahead, .. } = &self.0 {
            let off = at.as_millis().saturating_sub(self.now().as_millis());
            if off.unsigned_abs() > u64::try_from(within.as_millis()).unwrap_or(u64::MAX) {
                ahead.fetch_add(off, Ordering::Relaxed);
            }
        }
    }

    /// Moves a manual clock on and wakes whoever slept until then. The machine's clock does not
    /// listen.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Inner::System { .. } => {}
            Inner::Manual(sender) => {
                let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
                sender.send_modify(|now| *now = now.after(by));
            }
        }
    }

    /// Returns once this clock shows `at` or later.
    pub async fn sleep_until(&self, at: Timestamp) {
        match &self.0 {
            Inner::System { .. } => tokio::time::sleep(at.since(self.now())).await,
            Inner::Manual(sender) => {
                let mut receiver =
                    sender.lock().unwrap_or_else(PoisonError::into_inner).subscribe();
                // An error means that the clock is gone, and with it everybody who waits.
                if receiver.wait_for(|now| *now >= at).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Returns after this clock has moved by `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now().after(duration)).await;
    }
}

/// How long the machine has been up, the time that it was suspended included: after a night in a
/// closed laptop it is the next day.
fn uptime() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const UPTIME: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const UPTIME: ClockId = ClockId::Monotonic;
    let now = clock_gettime(UPTIME);
    let seconds = Duration::from_secs(u64::try_from(now.tv_sec).unwrap_or(0));
    seconds + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn manual_clock_wakes_sleepers_when_it_gets_there() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_mins(1)).await }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(59));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
    }
}
