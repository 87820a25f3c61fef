//! The only module that reads the time, so that tests can control it.

mod correction;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tokio::time::Instant;

use self::correction::Correction;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use self::correction::{Effect, Reading};
use crate::job::Timestamp;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::metrics;

/// Maximum time of one timer, because a clock that is slewed meanwhile reaches its end earlier or later.
const TIMER_MAX: Duration = Duration::from_mins(1);
/// Error of a reading of the machine's calendar.
#[cfg(feature = "sqlite")]
const CALENDAR_PRECISION: Duration = Duration::from_millis(10);

/// A clock, shared by an engine and its store.
#[derive(Debug, Clone)]
pub struct Clock(Inner);

#[derive(Debug, Clone)]
enum Inner {
    System(Arc<SystemClock>),
    Manual(Arc<watch::Sender<Timestamp>>),
    Virtual(VirtualClock),
}

/// A clock that follows the time of a tokio runtime.
#[derive(Debug, Clone, Copy)]
struct VirtualClock {
    /// The runtime's time at its creation.
    started: Instant,
    started_at: Timestamp,
}

#[derive(Debug)]
struct SystemClock {
    /// Uptime and calendar time at its creation.
    started: Duration,
    started_at: Timestamp,
    /// The correction, and the uptime at which it began.
    corrected: RwLock<(Duration, Correction)>,
}

/// A reading of the clock that a system clock follows.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReferenceTime {
    /// Name for the log, for example "the database".
    pub(crate) name: &'static str,
    pub(crate) now: Timestamp,
    pub(crate) precision: Duration,
    /// Milliseconds by which the reference is ahead of the live replica that agrees best with it. `None` without other
    /// replicas.
    pub(crate) ahead_of_replicas_ms: Option<i64>,
    /// Advice to operators after a step of the reference.
    pub(crate) advice: &'static str,
}

impl Clock {
    /// Returns the machine's clock.
    ///
    /// The calendar is read once; from then on the machine's uptime counts, so that setting the machine's clock does not
    /// expire every lease. Its store corrects it by small differences, slowly.
    pub fn system() -> Self {
        let (started, started_at) = (uptime(), calendar());
        let corrected = RwLock::new((started, Correction::default()));
        Self(Inner::System(Arc::new(SystemClock { started, started_at, corrected })))
    }

    /// Creates a clock that starts at `start` and only moves with [`Clock::advance`].
    pub fn manual(start: Timestamp) -> Self {
        Self(Inner::Manual(Arc::new(watch::Sender::new(start))))
    }

    /// Creates a clock that starts at `start` and follows the time of the current tokio runtime, for simulations.
    ///
    /// If the runtime's time is paused, the clock stands still while anything can run, and jumps to the next timer when
    /// everything waits. An engine with this clock renews its leases in a task instead of on a thread of its own, so that
    /// everything runs on one runtime, in the same order each time. It does not continue while a handler blocks the
    /// runtime, so use it in tests only. See [`EngineBuilder::random_seed`](crate::EngineBuilder::random_seed).
    pub fn virtual_time(start: Timestamp) -> Self {
        Self(Inner::Virtual(VirtualClock { started: Instant::now(), started_at: start }))
    }

    /// Returns true if the clock follows the time of a tokio runtime.
    pub(crate) fn is_virtual(&self) -> bool {
        match self.0 {
            Inner::Virtual(_) => true,
            Inner::System(_) | Inner::Manual(_) => false,
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Inner::System(system) => {
                let corrected = system.corrected.read().unwrap_or_else(PoisonError::into_inner);
                system.corrected_by(&corrected, uptime())
            }
            Inner::Manual(sender) => *sender.borrow(),
            Inner::Virtual(clock) => clock.started_at.after(clock.started.elapsed()),
        }
    }

    /// Sets a system clock, for this process, to the time of a shared store when it is opened. No effect on
    /// other clocks.
    #[cfg(feature = "postgres")]
    pub(crate) fn start_at(&self, reference: &ReferenceTime) {
        self.correct(reference, Correction::started);
    }

    /// Slews a system clock towards its reference. Ignores and reports steps of the reference. No effect on
    /// other clocks.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn follow(&self, reference: &ReferenceTime) {
        self.correct(reference, Correction::followed);
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn correct(
        &self,
        reference: &ReferenceTime,
        rule: impl FnOnce(Correction, Duration, Reading) -> (Correction, Effect),
    ) {
        let Inner::System(system) = &self.0 else { return };
        let mut corrected = system.corrected.write().unwrap_or_else(PoisonError::into_inner);
        let uptime = uptime();
        let now = system.corrected_by(&corrected, uptime);
        let reading = Reading {
            ahead_ms: reference.now.as_millis().saturating_sub(now.as_millis()),
            precision_ms: u64::try_from(reference.precision.as_millis()).unwrap_or(u64::MAX),
            ahead_of_replicas_ms: reference.ahead_of_replicas_ms,
        };
        let (since, correction) = *corrected;
        let (correction, effect) = rule(correction, uptime.saturating_sub(since), reading);
        *corrected = (uptime, correction);
        let offset_ms = reference
            .now
            .as_millis()
            .saturating_sub(system.corrected_by(&corrected, uptime).as_millis());
        drop(corrected);
        metrics::clock_offset(offset_ms);
        reference.log(effect, reading.ahead_ms);
    }

    /// Slews a system clock towards the machine's calendar. No effect on other clocks.
    #[cfg(feature = "sqlite")]
    pub(crate) fn follow_calendar(&self) {
        self.follow(&ReferenceTime {
            name: "the machine's calendar",
            now: calendar(),
            precision: CALENDAR_PRECISION,
            ahead_of_replicas_ms: None,
            advice: "correct the machine's clock, or restart this process to take its time over",
        });
    }

    /// Moves a manual clock forward and wakes sleepers whose time has come. No effect on other
    /// clocks.
    pub fn advance(&self, by: Duration) {
        if let Inner::Manual(sender) = &self.0 {
            sender.send_modify(|now| *now = now.after(by));
        }
    }

    /// Waits until the clock reaches `at`.
    pub async fn sleep_until(&self, at: Timestamp) {
        match &self.0 {
            Inner::System(_) | Inner::Virtual(_) => loop {
                tokio::time::sleep(at.since(self.now()).min(TIMER_MAX)).await;
                if self.now() >= at {
                    break;
                }
            },
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

impl SystemClock {
    /// Returns the time at `uptime`.
    fn corrected_by(
        &self,
        (since, correction): &(Duration, Correction),
        uptime: Duration,
    ) -> Timestamp {
        let uncorrected = self.started_at.after(uptime.saturating_sub(self.started));
        let correction_ms = correction.at(uptime.saturating_sub(*since));
        Timestamp::from_millis(uncorrected.as_millis().saturating_add(correction_ms))
    }
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl ReferenceTime {
    fn log(&self, effect: Effect, ahead_ms: i64) {
        let Self { name, advice, .. } = self;
        match effect {
            Effect::Followed => {}
            Effect::StepIgnored => tracing::error!(
                ahead_ms,
                "{name} differs from this replica's clock by more than a lease, and is not followed, because leases, \
                 delays and retention would jump: {advice}",
            ),
            Effect::StepUndone => {
                tracing::info!(ahead_ms, "{name} agrees with this replica's clock again");
            }
            Effect::ClockSet => tracing::warn!(
                ahead_ms,
                "this replica's clock was wrong and is set: {name} and another replica agree",
            ),
        }
    }
}

/// Returns the time of the machine's calendar.
fn calendar() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(0).after(since_1970)
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

    #[tokio::test(start_paused = true)]
    async fn virtual_clock_jumps_to_the_next_timer() {
        let clock = Clock::virtual_time(Timestamp::from_millis(0));
        clock.sleep(Duration::from_hours(25)).await;
        assert_eq!(clock.now(), Timestamp::from_millis(25 * 60 * 60 * 1_000));
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn system_clock_ignores_a_step_and_a_sleeper_reaches_its_end() {
        let clock = Clock::system();
        let before = clock.now();
        let stepped = |now| ReferenceTime {
            name: "the reference",
            now,
            precision: Duration::ZERO,
            ahead_of_replicas_ms: None,
            advice: "none",
        };
        clock.follow(&stepped(before.after(Duration::from_hours(25))));
        clock.follow(&stepped(before.before(Duration::from_hours(1))));
        // Slows the clock down while a sleeper waits.
        clock.follow(&stepped(
            before.before(Duration::from_hours(1)).before(Duration::from_secs(5)),
        ));
        let end = clock.now().after(Duration::from_millis(2));
        clock.sleep_until(end).await;
        assert!(clock.now() >= end);
        assert!(clock.now().since(before) < Duration::from_mins(10));
        assert!(clock.now() >= before);
    }
}
