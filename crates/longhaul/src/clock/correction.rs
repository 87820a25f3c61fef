//! The rule by which a clock follows its reference: the database's clock, or the machine's calendar.
//!
//! Drift is slewed away, so that no lease, delay or retention jumps. A step is ignored.

use std::time::Duration;

/// Largest difference that is followed, in milliseconds: the default lease. Clocks drift by less in days, so a larger
/// difference is a step, and following it would expire leases.
const FOLLOWED_MAX_MS: i64 = 15_000;
/// A clock is slewed by one millisecond in so many: a lease of 15 s lasts at most 150 ms longer or shorter, and the
/// largest followed difference is gone after 25 minutes.
const SLEW_DIVISOR: i64 = 100;

/// The correction of a clock since its last reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit, as everywhere")]
pub(super) struct Correction {
    /// Milliseconds that were added to the clock at the last reading.
    start_ms: i64,
    /// Milliseconds that are added in the end.
    target_ms: i64,
    /// Step of the reference that is not followed.
    ignored_ms: i64,
}

/// A reading of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit, as everywhere")]
pub(super) struct Reading {
    /// Milliseconds by which the reference is ahead of the corrected clock.
    pub(super) ahead_ms: i64,
    /// Smaller differences are within the reading's error.
    pub(super) precision_ms: u64,
    /// Milliseconds by which the reference is ahead of the live replica that agrees best with it. `None` without other
    /// replicas.
    pub(super) ahead_of_replicas_ms: Option<i64>,
}

/// Effect of a reading on a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The clock follows the reference.
    Followed,
    /// The reference took a step, which is ignored.
    StepIgnored,
    /// The step that was ignored is undone.
    StepUndone,
    /// The clock took a step to the reference, because another replica agrees with the reference.
    ClockSet,
}

impl Correction {
    /// Returns the milliseconds to add to the clock when `elapsed` has passed since the last reading.
    pub(super) fn at(self, elapsed: Duration) -> i64 {
        let elapsed = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        let slewed_max = elapsed / SLEW_DIVISOR;
        let left = self.target_ms.saturating_sub(self.start_ms);
        self.start_ms.saturating_add(left.clamp(-slewed_max, slewed_max))
    }

    /// Returns the correction of a clock that starts: at the time of the other live replicas, because they judge each
    /// other's leases, or at the reference's time.
    pub(super) fn started(self, elapsed: Duration, reading: Reading) -> (Self, Effect) {
        let ahead_of_replicas = reading.ahead_of_replicas_ms.unwrap_or(0);
        let start_ms =
            self.at(elapsed).saturating_add(reading.ahead_ms).saturating_sub(ahead_of_replicas);
        let ignored_ms = if is_step(ahead_of_replicas) { ahead_of_replicas } else { 0 };
        let effect = if ignored_ms == 0 { Effect::Followed } else { Effect::StepIgnored };
        (Self { start_ms, target_ms: start_ms, ignored_ms }, effect)
    }

    /// Returns the correction after a reading of the reference, `elapsed` after the previous one.
    pub(super) fn followed(self, elapsed: Duration, reading: Reading) -> (Self, Effect) {
        let Reading { ahead_ms, precision_ms, ahead_of_replicas_ms } = reading;
        let start_ms = self.at(elapsed);
        let slewed = |ignored_ms: i64| {
            let left = ahead_ms.saturating_sub(ignored_ms);
            let left = if left.unsigned_abs() > precision_ms { left } else { 0 };
            Self { start_ms, target_ms: start_ms.saturating_add(left), ignored_ms }
        };
        if !is_step(ahead_ms) {
            let effect = if self.ignored_ms == 0 { Effect::Followed } else { Effect::StepUndone };
            (slewed(0), effect)
        } else if ahead_of_replicas_ms.is_some_and(|ahead| !is_step(ahead)) {
            // This clock is wrong, not the reference, for example because the virtual machine was suspended.
            let start_ms = start_ms.saturating_add(ahead_ms);
            (Self { start_ms, target_ms: start_ms, ignored_ms: 0 }, Effect::ClockSet)
        } else if !is_step(ahead_ms.saturating_sub(self.ignored_ms)) {
            (slewed(self.ignored_ms), Effect::Followed)
        } else {
            (slewed(ahead_ms), Effect::StepIgnored)
        }
    }
}

fn is_step(difference_ms: i64) -> bool {
    difference_ms.unsigned_abs() > FOLLOWED_MAX_MS.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR_MS: i64 = 3_600_000;
    const TEN_SECONDS: Duration = Duration::from_secs(10);

    fn reading(ahead_ms: i64) -> Reading {
        Reading { ahead_ms, precision_ms: 0, ahead_of_replicas_ms: None }
    }

    fn beside_replicas(ahead_ms: i64, ahead_of_replicas_ms: i64) -> Reading {
        Reading { ahead_of_replicas_ms: Some(ahead_of_replicas_ms), ..reading(ahead_ms) }
    }

    #[test]
    fn drift_is_slewed_by_one_percent_until_it_is_gone() {
        let (correction, effect) = Correction::default().followed(TEN_SECONDS, reading(250));
        assert_eq!(effect, Effect::Followed);
        let after = |seconds| correction.at(Duration::from_secs(seconds));
        assert_eq!([0, 1, 10, 25, 26].map(after), [0, 10, 100, 250, 250]);
        let (correction, _) = correction.followed(TEN_SECONDS, reading(-1_000));
        let after = |seconds| correction.at(Duration::from_secs(seconds));
        assert_eq!([0, 1, 100, 101].map(after), [100, 90, -900, -900]);
    }

    #[test]
    fn difference_within_the_error_of_the_reading_is_ignored() {
        let reading = Reading { precision_ms: 7, ..reading(7) };
        let (correction, _) = Correction::default().followed(TEN_SECONDS, reading);
        assert_eq!(correction, Correction::default());
        let (correction, _) =
            Correction::default().followed(TEN_SECONDS, Reading { ahead_ms: -8, ..reading });
        assert_eq!(correction.at(TEN_SECONDS), -8);
    }

    #[test]
    fn step_is_reported_once_and_drift_is_still_followed() {
        for step in [HOUR_MS, -HOUR_MS, 25 * HOUR_MS, FOLLOWED_MAX_MS + 1] {
            let (correction, effect) = Correction::default().followed(TEN_SECONDS, reading(step));
            assert_eq!((correction.at(TEN_SECONDS), effect), (0, Effect::StepIgnored), "{step}");
            let (correction, effect) = correction.followed(TEN_SECONDS, reading(step + 50));
            assert_eq!((correction.at(TEN_SECONDS), effect), (50, Effect::Followed), "{step}");
            let (_, effect) = correction.followed(TEN_SECONDS, reading(step - 2 * HOUR_MS));
            assert_eq!(effect, Effect::StepIgnored, "another step");
        }
    }

    #[test]
    fn reference_that_returns_is_followed_again() {
        let (stepped, _) = Correction::default().followed(TEN_SECONDS, reading(HOUR_MS));
        let (correction, effect) = stepped.followed(TEN_SECONDS, reading(20));
        assert_eq!((correction.at(TEN_SECONDS), effect), (20, Effect::StepUndone));
        let (_, effect) = correction.followed(TEN_SECONDS, reading(0));
        assert_eq!(effect, Effect::Followed);
    }

    #[test]
    fn clock_that_starts_takes_the_time_of_the_reference() {
        let (correction, effect) = Correction::default().started(TEN_SECONDS, reading(HOUR_MS));
        assert_eq!((correction.at(Duration::ZERO), effect), (HOUR_MS, Effect::Followed));
    }

    /// Otherwise the new replica would find every lease of the others expired.
    #[test]
    fn clock_that_starts_takes_the_time_of_the_live_replicas() {
        let others = beside_replicas(HOUR_MS + 70, HOUR_MS);
        let (correction, effect) = Correction::default().started(TEN_SECONDS, others);
        assert_eq!((correction.at(Duration::ZERO), effect), (70, Effect::StepIgnored));
        let (correction, effect) =
            correction.followed(TEN_SECONDS, beside_replicas(HOUR_MS, HOUR_MS));
        assert_eq!((correction.at(TEN_SECONDS), effect), (70, Effect::Followed));
        let slewing = beside_replicas(HOUR_MS, 9_000);
        let (correction, effect) = Correction::default().started(TEN_SECONDS, slewing);
        assert_eq!((correction.at(TEN_SECONDS), effect), (HOUR_MS - 9_000, Effect::Followed));
    }

    #[test]
    fn clock_that_alone_is_wrong_is_set() {
        for ahead in [HOUR_MS, -HOUR_MS] {
            let (correction, effect) =
                Correction::default().followed(TEN_SECONDS, beside_replicas(ahead, -40));
            assert_eq!((correction.at(Duration::ZERO), effect), (ahead, Effect::ClockSet));
            // Another replica may show only later that the reference is right.
            let (correction, _) = Correction::default().followed(TEN_SECONDS, reading(ahead));
            let (correction, effect) =
                correction.followed(TEN_SECONDS, beside_replicas(ahead, -40));
            assert_eq!((correction.at(Duration::ZERO), effect), (ahead, Effect::ClockSet));
            let (correction, effect) =
                Correction::default().followed(TEN_SECONDS, beside_replicas(ahead, ahead));
            assert_eq!((correction.at(TEN_SECONDS), effect), (0, Effect::StepIgnored));
        }
    }

    proptest! {
        #[test]
        fn slewed_clock_never_goes_back_or_jumps(
            readings in prop::collection::vec((0u64..100_000, -2 * HOUR_MS..2 * HOUR_MS, 0u64..50), 1..20),
            step_ms in 1u64..5_000,
        ) {
            let mut correction = Correction::default();
            for (elapsed, ahead_ms, precision_ms) in readings {
                let mut last = correction.at(Duration::ZERO);
                let mut passed = 0;
                while passed < elapsed {
                    let step = step_ms.min(elapsed - passed);
                    passed += step;
                    let now = correction.at(Duration::from_millis(passed));
                    let allowed = i64::try_from(step).unwrap() / SLEW_DIVISOR + 1;
                    prop_assert!((now - last).abs() <= allowed, "{last} {now} in {step} ms");
                    last = now;
                }
                let reading = Reading { ahead_ms, precision_ms, ahead_of_replicas_ms: None };
                (correction, _) = correction.followed(Duration::from_millis(elapsed), reading);
                prop_assert_eq!(correction.at(Duration::ZERO), last);
            }
        }
    }
}
