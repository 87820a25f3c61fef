//! Retry schedule of failed deliveries.

use std::time::Duration;

use longhaul::job::DELIVERY_ATTEMPTS;

/// Approximate time from the first attempt to the last, after which a delivery is a dead letter.
const SPAN: Duration = Duration::from_hours(3 * 24);
/// Longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);
/// Relative jitter, so that deliveries that failed together are not retried together.
const JITTER: f64 = 0.2;

/// Exponential backoff whose delays add up to three days.
#[derive(Debug, Clone, Copy)]
pub struct RetrySchedule {
    first: Duration,
    ratio: f64,
}

impl RetrySchedule {
    /// Creates a schedule with this delay before the second attempt.
    pub fn new(first: Duration) -> Self {
        let delays = i32::try_from(DELIVERY_ATTEMPTS).unwrap_or(i32::MAX) - 1;
        let total = |ratio: f64| -> f64 {
            (0..delays).map(|index| first.as_secs_f64() * ratio.powi(index)).sum()
        };
        // Bisection: the sum grows with the ratio.
        let (mut low, mut high) = (1.0, 1_000.0);
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            if total(middle) < SPAN.as_secs_f64() { low = middle } else { high = middle }
        }
        Self { first, ratio: low }
    }

    /// Returns the delay after `attempt` (from 1) failed; `random` is uniform in 0..1. The endpoint's `Retry-After`
    /// takes precedence, up to a day.
    pub fn delay(&self, attempt: u32, retry_after: Option<Duration>, random: f64) -> Duration {
        let random = random.clamp(0.0, 1.0);
        if let Some(retry_after) = retry_after {
            let delay = retry_after.clamp(Duration::from_secs(1), RETRY_AFTER_MAX);
            // Never earlier.
            return delay.mul_f64(1.0 + JITTER / 2.0 * random);
        }
        // A resent delivery starts over.
        let index = attempt.saturating_sub(1) % DELIVERY_ATTEMPTS;
        let exact = self.first.as_secs_f64() * self.ratio.powi(i32::try_from(index).unwrap_or(0));
        let jittered = exact * (1.0 - JITTER + 2.0 * JITTER * random);
        Duration::try_from_secs_f64(jittered).unwrap_or(SPAN).min(SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: Duration) -> Duration {
        let schedule = RetrySchedule::new(first);
        (1..DELIVERY_ATTEMPTS).map(|attempt| schedule.delay(attempt, None, 0.5)).sum()
    }

    #[test]
    fn retry_schedule_spans_three_days() {
        for first in [Duration::from_millis(50), Duration::from_secs(5), Duration::from_mins(5)] {
            let days = span(first).as_secs_f64() / SPAN.as_secs_f64();
            assert!((0.99..1.01).contains(&days), "{first:?}: {days}");
        }
        let schedule = RetrySchedule::new(Duration::from_secs(5));
        assert_eq!(schedule.delay(1, None, 0.5), Duration::from_secs(5));
        assert_eq!(schedule.delay(11, None, 0.5), schedule.delay(1, None, 0.5));
    }

    #[test]
    fn retry_after_is_honoured_up_to_a_day() {
        let schedule = RetrySchedule::new(Duration::from_secs(5));
        let asked = |seconds| schedule.delay(9, Some(Duration::from_secs(seconds)), 0.0).as_secs();
        assert_eq!([asked(0), asked(7), asked(100_000_000)], [1, 7, 86_400]);
        assert!(schedule.delay(1, Some(Duration::from_secs(10)), 1.0) >= Duration::from_secs(10));
    }

    #[test]
    fn retry_jitter_stays_within_a_fifth() {
        let schedule = RetrySchedule::new(Duration::from_secs(5));
        assert_eq!(schedule.delay(1, None, 0.0), Duration::from_secs(4));
        assert_eq!(schedule.delay(1, None, 1.0), Duration::from_secs(6));
    }
}
