//! Request rate limits by the generic cell rate algorithm (GCRA), one number per caller.
//!
//! Each replica counts for itself, because a shared count would cost a write per request. N replicas together
//! admit at most N times the limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use longhaul::Timestamp;
use moka::sync::Cache;

/// Callers in the cache. An evicted caller starts with its full allowance.
const CALLERS_MAX: u64 = 100_000;
/// Idle time after which a caller is evicted; by then its full allowance is available again.
const IDLE_MAX: Duration = Duration::from_mins(1);
const SECOND_MICROS: i64 = 1_000_000;

/// Remaining allowance of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateAllowance {
    /// Requests allowed immediately.
    pub(super) remaining: u32,
    /// Time until the full allowance is available again.
    pub(super) full_in: Duration,
}

/// A caller exceeded its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateExceeded {
    /// Time until the next request is allowed.
    pub(super) retry_in: Duration,
}

/// Counts one request at `count` per `window`, with a burst of one window's worth.
fn check(
    next: &AtomicI64,
    count: u32,
    window: i64,
    now_micros: i64,
) -> Result<RateAllowance, RateExceeded> {
    // `next` is the theoretical arrival time: each request advances it by its cost, and it may be at most a
    // window ahead of now.
    let cost = (window / i64::from(count.max(1))).max(1);
    let mut seen = next.load(Ordering::Relaxed);
    loop {
        let moved = seen.max(now_micros) + cost;
        let over = moved - now_micros - window.max(cost);
        if over > 0 {
            return Err(RateExceeded { retry_in: micros(over) });
        }
        match next.compare_exchange_weak(seen, moved, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let ahead = moved - now_micros;
                let remaining = (window - ahead).max(0) / cost;
                let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
                return Ok(RateAllowance { remaining, full_in: micros(ahead) });
            }
            Err(other) => seen = other,
        }
    }
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

/// Rate limits of all callers.
#[derive(Debug, Clone)]
pub(super) struct RateLimiter(Cache<String, Arc<AtomicI64>>);

impl Default for RateLimiter {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(CALLERS_MAX).time_to_idle(IDLE_MAX).build())
    }
}

impl RateLimiter {
    /// Counts a request of `caller`, whose limit is `per_s` requests per second.
    pub(super) fn check(
        &self,
        caller: &str,
        per_s: u32,
        now: Timestamp,
    ) -> Result<RateAllowance, RateExceeded> {
        self.count(caller, per_s, SECOND_MICROS, now)
    }

    /// Like [`RateLimiter::check`], with a limit per minute.
    pub(super) fn check_per_minute(
        &self,
        caller: &str,
        per_minute: u32,
        now: Timestamp,
    ) -> Result<RateAllowance, RateExceeded> {
        self.count(caller, per_minute, 60 * SECOND_MICROS, now)
    }

    fn count(
        &self,
        caller: &str,
        count: u32,
        window: i64,
        now: Timestamp,
    ) -> Result<RateAllowance, RateExceeded> {
        let next = match self.0.get(caller) {
            Some(cached) => cached,
            None => self.0.get_with(caller.to_owned(), Arc::default),
        };
        check(&next, count, window, now.as_millis().saturating_mul(1_000))
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
    fn rate_limit_allows_a_burst_of_one_second_then_single_requests() {
        let rates = RateLimiter::default();
        let mut left: Vec<u32> = Vec::new();
        while let Ok(passed) = rates.check("a", 4, at(0)) {
            left.push(passed.remaining);
        }
        assert_eq!(left, [3, 2, 1, 0]);
        let retry_in = Duration::from_millis(250);
        assert_eq!(rates.check("a", 4, at(0)), Err(RateExceeded { retry_in }));
        assert!(rates.check("a", 4, at(249)).is_err());
        assert!(rates.check("a", 4, at(250)).is_ok());
        assert!(rates.check("a", 4, at(250)).is_err());
        assert!(rates.check("b", 4, at(250)).is_ok(), "callers are counted separately");
    }

    proptest! {
        #[test]
        fn rate_limit_holds_in_every_second(
            per_s in 1_u32..50,
            gaps in proptest::collection::vec(0_i64..400, 1..300),
        ) {
            let (rates, mut now, mut passed) = (RateLimiter::default(), 0, Vec::new());
            for gap in gaps {
                now += gap;
                if rates.check("a", per_s, at(now)).is_ok() {
                    passed.push(now);
                }
            }
            // The burst, and the second's own allowance.
            let most = usize::try_from(per_s).unwrap() * 2;
            for (index, first) in passed.iter().enumerate() {
                let within = passed[index..].iter().take_while(|at| **at < first + 1_000).count();
                prop_assert!(within <= most, "{within} of {per_s}");
            }
        }
    }
}
