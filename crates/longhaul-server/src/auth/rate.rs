//! How many requests somebody may make: the generic cell rate algorithm, one number a caller.
//!
//! Each replica counts for itself: a shared count would cost a write a request. What N replicas let through
//! together is at most N times what one does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use longhaul::Timestamp;
use moka::sync::Cache;

/// Callers that are remembered. One that is forgotten starts anew, which can only be to its favour.
const CALLERS_MAX: u64 = 100_000;
/// A caller that was silent for so long has its whole allowance again anyway.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(1);
const SECOND_MICROS: i64 = 1_000_000;

/// What a caller may still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    /// Requests that may come at once.
    pub(super) remaining: u32,
    /// Until all of its allowance is there again.
    pub(super) full_in: Duration,
}

/// A caller was too fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooFast {
    /// When the next request may come.
    pub(super) again_in: Duration,
}

/// Whether one more request may come now, of `per_s` a second. A second's worth may come at once.
fn pass(next: &AtomicI64, per_s: u32, now_micros: i64) -> Result<Left, TooFast> {
    // Theoretical arrival times: a request moves it by the time that one takes, and it may be at most a
    // second ahead of now.
    let cost = (SECOND_MICROS / i64::from(per_s.max(1))).max(1);
    let mut seen = next.load(Ordering::Relaxed);
    loop {
        let moved = seen.max(now_micros) + cost;
        let over = moved - now_micros - SECOND_MICROS.max(cost);
        if over > 0 {
            return Err(TooFast { again_in: micros(over) });
        }
        match next.compare_exchange_weak(seen, moved, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let ahead = moved - now_micros;
                let remaining = (SECOND_MICROS - ahead).max(0) / cost;
                let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
                return Ok(Left { remaining, full_in: micros(ahead) });
            }
            Err(other) => seen = other,
        }
    }
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

/// The allowances of all callers.
#[derive(Debug, Clone)]
pub(super) struct Rates(Cache<String, Arc<AtomicI64>>);

impl Default for Rates {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(CALLERS_MAX).time_to_idle(FORGOTTEN_AFTER).build())
    }
}

impl Rates {
    /// Counts a request of `caller`, who may make `per_s` a second.
    pub(super) fn pass(&self, caller: &str, per_s: u32, now: Timestamp) -> Result<Left, TooFast> {
        let next = match self.0.get(caller) {
            Some(known) => known,
            None => self.0.get_with(caller.to_owned(), Arc::default),
        };
        pass(&next, per_s, now.as_millis().saturating_mul(1_000))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000 + millis)
    }

    #[test]
    fn second_s_worth_may_come_at_once_and_then_one_by_one() {
        let rates = Rates::default();
        let mut left: Vec<u32> = Vec::new();
        while let Ok(passed) = rates.pass("a", 4, at(0)) {
            left.push(passed.remaining);
        }
        assert_eq!(left, [3, 2, 1, 0]);
        let again_in = Duration::from_millis(250);
        assert_eq!(rates.pass("a", 4, at(0)), Err(TooFast { again_in }));
        assert!(rates.pass("a", 4, at(249)).is_err());
        assert!(rates.pass("a", 4, at(250)).is_ok());
        assert!(rates.pass("a", 4, at(250)).is_err());
        assert!(rates.pass("b", 4, at(250)).is_ok(), "each has its own");
    }

    proptest! {
        #[test]
        fn never_more_than_allowed_in_any_second(
            per_s in 1_u32..50,
            gaps in proptest::collection::vec(0_i64..400, 1..300),
        ) {
            let (rates, mut now, mut passed) = (Rates::default(), 0, Vec::new());
            for gap in gaps {
                now += gap;
                if rates.pass("a", per_s, at(now)).is_ok() {
                    passed.push(now);
                }
            }
            // What came at once, and what the second itself brings.
            let most = usize::try_from(per_s).unwrap() * 2;
            for (place, first) in passed.iter().enumerate() {
                let within = passed[place..].iter().take_while(|at| **at < first + 1_000).count();
                prop_assert!(within <= most, "{within} of {per_s}");
            }
        }
    }
}
