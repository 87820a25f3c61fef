//! Circuit breaker: stops sending to a target that keeps failing.
//!
//! Closed, all requests pass. After [`BreakerOptions::failures_max`] consecutive failures it opens for
//! a while, and requests are rejected. Then it is half-open: one probe passes, and the breaker closes
//! when the probe succeeds or opens for twice as long when it fails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Delay before a rejected request tries again while a probe is in flight.
const PROBE_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub struct BreakerOptions {
    /// Consecutive failures that open the breaker.
    pub failures_max: u32,
    /// Time it stays open at first. Doubles with every failed probe.
    pub open_first: Duration,
    /// Longest time it stays open.
    pub open_max: Duration,
}

impl Default for BreakerOptions {
    /// Opens after 5 failures, for 1 s to 30 s.
    fn default() -> Self {
        Self {
            failures_max: 5,
            open_first: Duration::from_secs(1),
            open_max: Duration::from_secs(30),
        }
    }
}

/// Health of one target, as seen by this process. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CircuitBreaker {
    options: BreakerOptions,
    /// A std mutex: held for a few field writes, never across an await.
    counters: Arc<Mutex<Counters>>,
}

#[derive(Debug, Default)]
struct Counters {
    /// Consecutive.
    failures: u32,
    /// Set while the breaker is open or half-open.
    open_until: Option<SystemTime>,
    probing: bool,
}

/// State of a circuit breaker at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    Closed {
        /// Consecutive failures so far.
        failures: u32,
    },
    Open,
    HalfOpen,
}

/// Permission for one request. Report its outcome with [`success`](Self::success) or
/// [`failure`](Self::failure); a permit that is dropped without either changes nothing.
#[derive(Debug)]
pub struct BreakerPermit {
    breaker: CircuitBreaker,
    is_probe: bool,
}

impl CircuitBreaker {
    pub fn new(options: BreakerOptions) -> Self {
        Self { options, counters: Arc::default() }
    }

    /// Returns a permit, or the time to wait before the next try.
    pub fn acquire(&self, now: SystemTime) -> Result<BreakerPermit, Duration> {
        let mut counters = self.lock();
        let is_probe = match counters.state(now) {
            BreakerState::Closed { .. } => false,
            BreakerState::Open => {
                let wait = counters.open_until.and_then(|until| until.duration_since(now).ok());
                return Err(wait.unwrap_or(PROBE_WAIT));
            }
            BreakerState::HalfOpen if counters.probing => return Err(PROBE_WAIT),
            BreakerState::HalfOpen => true,
        };
        counters.probing |= is_probe;
        Ok(BreakerPermit { breaker: self.clone(), is_probe })
    }

    pub fn state(&self, now: SystemTime) -> BreakerState {
        self.lock().state(now)
    }

    /// Records a success, which closes the breaker.
    pub fn success(&self) {
        let mut counters = self.lock();
        (counters.failures, counters.open_until) = (0, None);
    }

    /// Records a failure. Returns the time that the breaker stays open, if it opened.
    pub fn failure(&self, now: SystemTime) -> Option<Duration> {
        let BreakerOptions { failures_max, open_first, open_max } = self.options;
        let mut counters = self.lock();
        counters.failures = counters.failures.saturating_add(1);
        let doublings = counters.failures.checked_sub(failures_max)?.min(10);
        let open = open_first.saturating_mul(1 << doublings).min(open_max);
        counters.open_until = now.checked_add(open);
        Some(open)
    }

    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counters {
    fn state(&self, now: SystemTime) -> BreakerState {
        match self.open_until {
            None => BreakerState::Closed { failures: self.failures },
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }
}

impl BreakerPermit {
    /// Records that the target works.
    pub fn success(&self) {
        self.breaker.success();
    }

    /// Records a failure. Returns the time that the breaker stays open, if it opened.
    pub fn failure(&self, now: SystemTime) -> Option<Duration> {
        self.breaker.failure(now)
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.is_probe {
            self.breaker.lock().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn failed(times: u32) -> CircuitBreaker {
        let breaker = CircuitBreaker::default();
        for _ in 0..times {
            breaker.acquire(at(0)).unwrap().failure(at(0));
        }
        breaker
    }

    fn failures_max() -> u32 {
        BreakerOptions::default().failures_max
    }

    #[test]
    fn consecutive_failures_open_it_and_a_successful_probe_closes_it() {
        let breaker = failed(failures_max() - 1);
        assert_eq!(breaker.state(at(0)), BreakerState::Closed { failures: failures_max() - 1 });
        let breaker = failed(failures_max());
        assert_eq!(breaker.state(at(0)), BreakerState::Open);
        assert_eq!(breaker.acquire(at(0)).unwrap_err(), seconds(1));
        assert_eq!(breaker.state(at(1)), BreakerState::HalfOpen);
        let probe = breaker.acquire(at(1)).unwrap();
        assert_eq!(breaker.acquire(at(1)).unwrap_err(), PROBE_WAIT, "one probe at a time");
        assert_eq!(probe.failure(at(1)), Some(seconds(2)));
        drop(probe);
        assert_eq!(breaker.acquire(at(2)).unwrap_err(), seconds(1));
        let probe = breaker.acquire(at(3)).unwrap();
        probe.success();
        drop(probe);
        assert!((0..10).all(|_| breaker.acquire(at(3)).is_ok()));
    }

    #[test]
    fn success_resets_the_failure_count() {
        let breaker = failed(failures_max() - 1);
        breaker.acquire(at(0)).unwrap().success();
        assert_eq!(breaker.acquire(at(0)).unwrap().failure(at(0)), None);
        assert!(breaker.acquire(at(0)).is_ok());
    }

    #[test]
    fn open_time_doubles_up_to_its_maximum() {
        let breaker = failed(failures_max());
        let mut now = 0;
        for open in [2, 4, 8, 16, 30, 30, 30] {
            now += 30;
            let probe = breaker.acquire(at(now)).unwrap();
            assert_eq!(probe.failure(at(now)), Some(seconds(open)));
        }
    }

    #[test]
    fn dropped_probe_lets_the_next_request_probe() {
        let breaker = failed(failures_max());
        drop(breaker.acquire(at(1)).unwrap());
        assert!(breaker.acquire(at(1)).is_ok());
    }
}
