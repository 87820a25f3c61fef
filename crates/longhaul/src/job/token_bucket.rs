//! Rate limits: the arithmetic of a token bucket.
//!
//! A bucket has as many tokens as its rate allows jobs, and starts full. Starting a job takes one;
//! tokens return evenly. The store keeps the bucket, and the time is an argument.

use std::time::Duration;

use super::Timestamp;

/// Fractions per token, so that slow rates lose nothing to rounding.
const PARTS: u64 = 1_000_000;

/// A rate limit, for example 100 jobs per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Jobs that may start within `per`; also the maximum burst.
    pub jobs: u32,
    /// The period.
    pub per: Duration,
}

/// The remaining tokens of a rate, as of when some were last taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Remaining millionths of a token.
    pub parts: u64,
    /// Time of the last withdrawal.
    pub as_of: Timestamp,
}

impl Rate {
    /// Creates a rate limit.
    pub const fn new(jobs: u32, per: Duration) -> Self {
        Self { jobs, per }
    }

    /// Returns the number of jobs that may start now. A missing bucket is full.
    pub fn available(&self, bucket: Option<TokenBucket>, now: Timestamp) -> u32 {
        u32::try_from(self.parts(bucket, now) / PARTS).unwrap_or(u32::MAX)
    }

    /// Returns the time at which the next job may start: `now` if one may, `None` if none ever may.
    pub fn next_at(&self, bucket: Option<TokenBucket>, now: Timestamp) -> Option<Timestamp> {
        let missing = PARTS.saturating_sub(self.parts(bucket, now));
        if missing == 0 {
            return Some(now);
        }
        let since = bucket.map_or(now, |bucket| bucket.as_of);
        let missing = PARTS.saturating_sub(bucket.map_or(0, |bucket| bucket.parts));
        let parts_in_period = u128::from(self.jobs) * u128::from(PARTS);
        let wait_ms = (u128::from(missing) * self.per_ms()).checked_div(parts_in_period)?;
        let exact = wait_ms * parts_in_period == u128::from(missing) * self.per_ms();
        let wait_ms = u64::try_from(wait_ms + u128::from(!exact)).unwrap_or(u64::MAX);
        Some(since.after(Duration::from_millis(wait_ms)).max(now))
    }

    /// Returns the bucket after `jobs` have started.
    #[must_use]
    pub fn take(&self, bucket: Option<TokenBucket>, jobs: u32, now: Timestamp) -> TokenBucket {
        let parts = self.parts(bucket, now).saturating_sub(u64::from(jobs) * PARTS);
        // A clock behind the last writer's must not refill the bucket twice.
        let as_of = bucket.map_or(now, |bucket| bucket.as_of.max(now));
        TokenBucket { parts, as_of }
    }

    /// Returns the current fractions, rounded down. Only here, because a bucket is written when
    /// tokens are taken: reading it often loses nothing.
    fn parts(&self, bucket: Option<TokenBucket>, now: Timestamp) -> u64 {
        let full = u64::from(self.jobs) * PARTS;
        let Some(bucket) = bucket else { return full };
        let elapsed = now.since(bucket.as_of).as_millis();
        let refilled = elapsed.saturating_mul(u128::from(full)) / self.per_ms();
        u64::try_from(refilled).map_or(full, |parts| bucket.parts.saturating_add(parts).min(full))
    }

    /// Never zero, because it divides.
    fn per_ms(&self) -> u128 {
        self.per.as_millis().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn full_at_first_and_refilled_evenly() {
        let rate = Rate::new(3, Duration::from_secs(3));
        assert_eq!(rate.available(None, at(0)), 3);
        let empty = Some(rate.take(None, 3, at(0)));
        assert_eq!(
            [0, 999, 1_000, 2_500, 9_000].map(|ms| rate.available(empty, at(ms))),
            [0, 0, 1, 2, 3]
        );
        assert_eq!(rate.next_at(empty, at(0)), Some(at(1_000)));
        assert_eq!(rate.next_at(empty, at(400)), Some(at(1_000)));
        assert_eq!(rate.next_at(empty, at(1_700)), Some(at(1_700)));
    }

    #[test]
    fn looking_often_does_not_slow_a_slow_rate_down() {
        let rate = Rate::new(1, Duration::from_hours(1));
        let empty = Some(rate.take(None, 1, at(0)));
        assert_eq!(rate.next_at(empty, at(17)), Some(at(3_600_000)));
        assert_eq!(rate.available(empty, at(3_600_000)), 1);
    }

    #[test]
    fn clock_that_is_behind_fills_nothing_twice() {
        let rate = Rate::new(1, Duration::from_secs(1));
        let taken = rate.take(None, 1, at(5_000));
        assert_eq!(rate.available(Some(taken), at(4_000)), 0);
        assert_eq!(rate.take(Some(taken), 0, at(4_000)).as_of, at(5_000));
        assert_eq!(rate.next_at(Some(taken), at(4_000)), Some(at(6_000)));
    }

    #[test]
    fn rate_of_nothing_never_lets_anything_start() {
        let rate = Rate::new(0, Duration::from_secs(1));
        assert_eq!((rate.available(None, at(0)), rate.next_at(None, at(0))), (0, None));
    }

    #[test]
    fn lower_rate_takes_away_what_is_over_it() {
        let generous = Rate::new(100, Duration::from_secs(1));
        let bucket = Some(generous.take(None, 10, at(0)));
        assert_eq!(Rate::new(5, Duration::from_secs(1)).available(bucket, at(0)), 5);
    }

    proptest! {
        /// In any period, no more jobs start than the burst and the refill allow.
        #[test]
        fn never_more_than_the_rate(
            jobs in 1u32..50,
            per_ms in 1u64..100_000,
            looks in proptest::collection::vec((0i64..5_000, 0u32..60), 1..50),
        ) {
            let rate = Rate::new(jobs, Duration::from_millis(per_ms));
            let (mut bucket, mut now, mut started) = (None, 0, 0u64);
            for (later, wanted) in looks {
                now += later;
                let taken = wanted.min(rate.available(bucket, at(now)));
                if taken > 0 {
                    bucket = Some(rate.take(bucket, taken, at(now)));
                }
                started += u64::from(taken);
                let refilled = u64::try_from(now).unwrap() * u64::from(jobs) / per_ms;
                prop_assert!(started <= u64::from(jobs) + refilled);
            }
        }

        /// A token is available at the announced time, and not earlier.
        #[test]
        fn token_is_there_when_told_and_not_before(
            jobs in 1u32..1_000,
            per_ms in 1u64..10_000_000,
            parts in 0u64..PARTS,
            later in 0i64..1_000,
        ) {
            let rate = Rate::new(jobs, Duration::from_millis(per_ms));
            let bucket = Some(TokenBucket { parts, as_of: at(0) });
            let next_at = rate.next_at(bucket, at(later)).unwrap();
            prop_assert!(rate.available(bucket, next_at) >= 1);
            if next_at > at(later) {
                prop_assert_eq!(rate.available(bucket, at(next_at.as_millis() - 1)), 0);
            }
        }
    }
}
