//! Leaves what keeps failing alone for a while.
//!
//! After some failures in a row nobody passes until a while is over; then one may try, and the others wait
//! for what it finds out. Whoever may not pass is told until when, and what to do meanwhile is its own affair.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::Timestamp;

/// Failures in a row after which nobody passes.
const FAILURES_MAX: u32 = 5;
/// For how long at first; it doubles with each failure from there.
const ALONE_FIRST: Duration = Duration::from_secs(1);
/// Not longer than this.
const ALONE_MAX: Duration = Duration::from_secs(30);
/// When to look again while another one tries.
const TRIED: Duration = Duration::from_secs(1);

/// What is known of something that others depend on. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Breaker(
    /// A std mutex: held for a few field writes, never across an await.
    Arc<Mutex<State>>,
);

#[derive(Debug, Default)]
struct State {
    /// In a row.
    failures: u32,
    /// Until when nobody passes; then one may try.
    alone_until: Option<Timestamp>,
    trying: bool,
}

/// Leave to go on. Whoever has it says how that went; dropped without a word, it says nothing.
#[derive(Debug)]
pub struct Pass {
    breaker: Breaker,
    tries: bool,
}

impl Breaker {
    /// Lets the caller pass, or says when to ask again.
    pub fn enter(&self, now: Timestamp) -> Result<Pass, Timestamp> {
        let mut state = self.lock();
        let tries = match state.alone_until {
            None => false,
            Some(until) if now < until => return Err(until),
            Some(_) if state.trying => return Err(now.after(TRIED)),
            Some(_) => true,
        };
        state.trying |= tries;
        Ok(Pass { breaker: self.clone(), tries })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// It works.
    pub fn well(&self) {
        let mut state = self.breaker.lock();
        (state.failures, state.alone_until) = (0, None);
    }

    /// It failed. Returns for how long it is left alone, if it is from now on.
    pub fn failed(&self, now: Timestamp) -> Option<Duration> {
        let mut state = self.breaker.lock();
        state.failures = state.failures.saturating_add(1);
        let beyond = state.failures.checked_sub(FAILURES_MAX)?;
        let alone = ALONE_FIRST.saturating_mul(1 << beyond.min(10)).min(ALONE_MAX);
        state.alone_until = Some(now.after(alone));
        Some(alone)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.tries {
            self.breaker.lock().trying = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Duration::from_secs(seconds))
    }

    fn broken(failures: u32) -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..failures {
            breaker.enter(at(0)).unwrap().failed(at(0));
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_close_it_and_one_tries_when_the_time_is_over() {
        assert!(broken(FAILURES_MAX - 1).enter(at(0)).is_ok());
        let breaker = broken(FAILURES_MAX);
        assert_eq!(breaker.enter(at(0)).unwrap_err(), at(1));
        let probe = breaker.enter(at(1)).unwrap();
        assert_eq!(breaker.enter(at(1)).unwrap_err(), at(2), "another one tries");
        assert_eq!(probe.failed(at(1)), Some(Duration::from_secs(2)));
        drop(probe);
        assert_eq!(breaker.enter(at(2)).unwrap_err(), at(3));
        let probe = breaker.enter(at(3)).unwrap();
        probe.well();
        drop(probe);
        assert!((0..10).all(|_| breaker.enter(at(3)).is_ok()));
    }

    #[test]
    fn success_in_between_begins_anew() {
        let breaker = broken(FAILURES_MAX - 1);
        breaker.enter(at(0)).unwrap().well();
        assert_eq!(breaker.enter(at(0)).unwrap().failed(at(0)), None);
        assert!(breaker.enter(at(0)).is_ok());
    }

    #[test]
    fn it_is_never_closed_for_longer_than_half_a_minute() {
        let breaker = broken(FAILURES_MAX);
        let mut now = 0;
        for alone in [2, 4, 8, 16, 30, 30, 30] {
            now += 30;
            let probe = breaker.enter(at(now)).unwrap();
            assert_eq!(probe.failed(at(now)), Some(Duration::from_secs(alone)));
        }
    }

    #[test]
    fn one_that_is_dropped_without_a_word_lets_the_next_one_try() {
        let breaker = broken(FAILURES_MAX);
        drop(breaker.enter(at(1)).unwrap());
        assert!(breaker.enter(at(1)).is_ok());
    }
}
