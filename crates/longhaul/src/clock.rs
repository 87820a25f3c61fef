//! The only module that reads the time, so that tests can control it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

use crate::job::Timestamp;

/// A clock, shared by an engine and its store.
#[derive(Debug, Clone)]
pub struct Clock(Inner);

#[derive(Debug, Clone)]
enum Inner {
    /// Uptime and calendar time at its creation.
    System {
        started: Duration,
        started_at: Timestamp,
        /// Milliseconds by which the store's time is ahead. Shared by all clones.
        ahead: Arc<AtomicI64>,
    },
    Manual(Arc<watch::Sender<Timestamp>>),
}

impl Clock {
    /// Returns the machine's clock.
    ///
    /// The calendar is read once; from then on the machine's uptime counts, so that setting the
    /// machine's clock forward does not expire every lease.
    pub fn system() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_at = Timestamp::from_millis(0).after(since_1970);
        Self(Inner::System { started: uptime(), started_at, ahead: Arc::default() })
    }

    /// Creates a clock that starts at `start` and only moves with [`Clock::advance`].
    pub fn manual(start: Timestamp) -> Self {
        Self(Inner::Manual(Arc::new(watch::Sender::new(start))))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Inner::System { started, started_at, ahead } => {
                let here = started_at.after(uptime().saturating_sub(*started));
                let ahead = ahead.load(Ordering::Relaxed);
                Timestamp::from_millis(here.as_millis().saturating_add(ahead))
            }
            Inner::Manual(sender) => *sender.borrow(),
        }
    }

    /// Adjusts a system clock, for this process, to the time of a shared store. Differences of less
    /// than `within`, the precision of `at`, are ignored. No effect on a manual clock.
    #[cfg(feature = "postgres")]
    pub(crate) fn set_to(&self, at: Timestamp, within: Duration) {
        if let Inner::System { ahead, .. } = &self.0 {
            let off = at.as_millis().saturating_sub(self.now().as_millis());
            if off.unsigned_abs() > u64::try_from(within.as_millis()).unwrap_or(u64::MAX) {
                ahead.fetch_add(off, Ordering::Relaxed);
            }
        }
    }

    /// Moves a manual clock forward and wakes sleepers whose time has come. No effect on a system
    /// clock.
    pub fn advance(&self, by: Duration) {
        if let Inner::Manual(sender) = &self.0 {
            sender.send_modify(|now| *now = now.after(by));
        }
    }

    /// Waits until the clock reaches `at`.
    pub async fn sleep_until(&self, at: Timestamp) {
        match &self.0 {
            Inner::System { .. } => tokio::time::sleep(at.since(self.now())).await,
            Inner::Manual(sender) => {
                let mut receiver = sender.subscribe();
                // An error means that the clock was dropped, with all its users.
                if receiver.wait_for(|now| *now >= at).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Waits until the clock has moved by `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now().after(duration)).await;
    }
}

/// Returns the machine's uptime, including suspension, so that leases expire while a laptop is
/// closed.
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
