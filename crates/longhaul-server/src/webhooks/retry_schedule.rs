//! When a delivery that failed is tried again.

use std::time::Duration;

use longhaul::job::DELIVERY_ATTEMPTS;

/// How long a receiver may be away before what is owed to it is a dead letter, about.
const SPAN: Duration = Duration::from_hours(3 * 24);
/// The longest that a receiver may ask us to wait.
const ASKED_MAX: Duration = Duration::from_hours(24);
/// Delays are up to this part shorter or longer, so that what failed together does not come back together.
const JITTER: f64 = 0.2;

/// The delays between the attempts: each so many times the one before that all of them together are three
/// days.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    first: Duration,
    ratio: f64,
}

impl Schedule {
    /// With this delay before the second attempt.
    pub fn new(first: Duration) -> Self {
        let delays = i32::try_from(DELIVERY_ATTEMPTS).unwrap_or(i32::MAX) - 1;
        let total = |ratio: f64| -> f64 {
            (0..delays).map(|place| first.as_secs_f64() * ratio.powi(place)).sum()
        };
        // The sum rises with the ratio: halve what it may be until it is known well enough.
        let (mut low, mut high) = (1.0, 1_000.0);
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            if total(middle) < SPAN.as_secs_f64() { low = middle } else { high = middle }
        }
        Self { first, ratio: low }
    }

    /// How long to wait after `attempt` (from 1) failed. `random` is uniform in 0..1. What the receiver
    /// asked for counts instead, up to a day.
    pub fn delay(&self, attempt: u32, asked: Option<Duration>, random: f64) -> Duration {
        let random = random.clamp(0.0, 1.0);
        if let Some(asked) = asked {
            let asked = asked.clamp(Duration::from_secs(1), ASKED_MAX);
            // Never before that.
            return asked.mul_f64(1.0 + JITTER / 2.0 * random);
        }
        // An attempt after a resend is like the first ones again.
        let place = attempt.saturating_sub(1) % DELIVERY_ATTEMPTS;
        let exact = self.first.as_secs_f64() * self.ratio.powi(i32::try_from(place).unwrap_or(0));
        let jittered = exact * (1.0 - JITTER + 2.0 * JITTER * random);
        Duration::try_from_secs_f64(jittered).unwrap_or(SPAN).min(SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: Duration) -> Duration {
        let schedule = Schedule::new(first);
        (1..DELIVERY_ATTEMPTS).map(|attempt| schedule.delay(attempt, None, 0.5)).sum()
    }

    #[test]
    fn ten_attempts_take_about_three_days() {
        for first in [Duration::from_millis(50), Duration::from_secs(5), Duration::from_mins(5)] {
            let days = span(first).as_secs_f64() / SPAN.as_secs_f64();
            assert!((0.99..1.01).contains(&days), "{first:?}: {days}");
        }
        let schedule = Schedule::new(Duration::from_secs(5));
        assert_eq!(schedule.delay(1, None, 0.5), Duration::from_secs(5));
        assert_eq!(schedule.delay(11, None, 0.5), schedule.delay(1, None, 0.5));
    }

    #[test]
    fn receiver_may_ask_for_more_or_less_but_not_for_weeks() {
        let schedule = Schedule::new(Duration::from_secs(5));
        let asked = |seconds| schedule.delay(9, Some(Duration::from_secs(seconds)), 0.0).as_secs();
        assert_eq!([asked(0), asked(7), asked(100_000_000)], [1, 7, 86_400]);
        assert!(schedule.delay(1, Some(Duration::from_secs(10)), 1.0) >= Duration::from_secs(10));
    }

    #[test]
    fn jitter_stays_within_a_fifth() {
        let schedule = Schedule::new(Duration::from_secs(5));
        assert_eq!(schedule.delay(1, None, 0.0), Duration::from_secs(4));
        assert_eq!(schedule.delay(1, None, 1.0), Duration::from_secs(6));
    }
}
