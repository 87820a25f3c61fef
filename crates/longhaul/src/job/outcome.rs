//! The decision that follows from the end of an attempt. Pure, and the same for every store.

use std::time::Duration;

use super::{Command, JobError, Json, Timestamp};

/// The end of an attempt, as its worker reports it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The handler returned a result.
    Completed(Json),
    /// The handler returned an error, or the engine failed the attempt.
    Failed {
        /// The error; `retryable` decides whether the job is attempted again.
        error: JobError,
        /// Delay before the next attempt.
        retry_in: Duration,
    },
    /// The handler stopped because the job was cancelled.
    Cancelled,
    /// The replica is stopping; the attempt is not charged.
    Released,
    /// The job sleeps; the attempt is not charged.
    Sleep {
        /// End of the sleep.
        until: Timestamp,
    },
}

/// The state of an attempt at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptContext {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// True if cancellation was requested during the attempt.
    pub cancel_requested: bool,
}

/// The store's action on a job whose attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Disposition {
    /// Completes it with this result.
    Complete(Json),
    /// Fails it with this error.
    Fail(JobError),
    /// Ends it as cancelled.
    Stop,
    /// Returns it to its queue.
    Requeue {
        /// Time at which it is due.
        run_at: Timestamp,
        /// The error of the attempt, if it failed.
        error: Option<JobError>,
        /// True if the next claim counts as a further attempt.
        charge: bool,
    },
}

impl Outcome {
    /// Returns the store's action on a job whose attempt ended at `now`.
    ///
    /// A result wins over a cancellation that came too late; otherwise a cancelled job never
    /// continues.
    pub fn disposition(self, context: AttemptContext, now: Timestamp) -> Disposition {
        let put_back = |run_at, error, charge| {
            if context.cancel_requested {
                Disposition::Stop
            } else {
                Disposition::Requeue { run_at, error, charge }
            }
        };
        match self {
            Self::Completed(result) => Disposition::Complete(result),
            Self::Cancelled => Disposition::Stop,
            Self::Released => put_back(now, None, false),
            Self::Sleep { until } => put_back(until, None, false),
            Self::Failed { error, retry_in } => {
                let error = error.in_attempt(context.attempt);
                let (charge, is_last) = (!error.uncharged, context.attempt >= context.max_attempts);
                if error.retryable && !(charge && is_last) {
                    put_back(now.after(retry_in), Some(error), charge)
                } else if context.cancel_requested {
                    Disposition::Stop
                } else {
                    Disposition::Fail(error)
                }
            }
        }
    }
}

impl Disposition {
    /// Returns the store's action on a job whose lease expired.
    pub fn after_lost_lease(context: AttemptContext, replica: &str, now: Timestamp) -> Self {
        let error = JobError::worker_lost(replica, context.attempt, context.max_attempts);
        Outcome::Failed { error, retry_in: Duration::ZERO }.disposition(context, now)
    }

    /// Returns the command for the status machine.
    pub fn command(&self) -> Command {
        match self {
            Self::Complete(_) => Command::Complete,
            Self::Fail(_) => Command::Fail,
            Self::Stop => Command::Stop,
            Self::Requeue { .. } => Command::Requeue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn context(attempt: u32, cancel_requested: bool) -> AttemptContext {
        AttemptContext { attempt, max_attempts: 3, cancel_requested }
    }

    fn failed(error: JobError) -> Outcome {
        Outcome::Failed { error, retry_in: Duration::from_millis(50) }
    }

    #[test]
    fn retryable_error_goes_on_until_attempts_are_used_up() {
        let next = failed(JobError::retryable("x")).disposition(context(2, false), NOW);
        let error = Some(JobError::retryable("x").in_attempt(2));
        assert_eq!(
            next,
            Disposition::Requeue { run_at: Timestamp::from_millis(1_050), error, charge: true }
        );
        let next = failed(JobError::retryable("x")).disposition(context(3, false), NOW);
        assert_eq!(next, Disposition::Fail(JobError::retryable("x").in_attempt(3)));
    }

    #[test]
    fn uncharged_error_never_uses_up_the_attempts() {
        let error = JobError::retryable("x").uncharged();
        let next = failed(error.clone()).disposition(context(3, false), NOW);
        let (run_at, error) = (Timestamp::from_millis(1_050), Some(error.in_attempt(3)));
        assert_eq!(next, Disposition::Requeue { run_at, error, charge: false });
        let fatal = failed(JobError::fatal("x").uncharged()).disposition(context(1, false), NOW);
        assert!(matches!(fatal, Disposition::Fail(_)), "{fatal:?}");
    }

    #[test]
    fn fatal_error_ends_the_job_at_once() {
        assert!(matches!(
            failed(JobError::fatal("x")).disposition(context(1, false), NOW),
            Disposition::Fail(_)
        ));
    }

    #[test]
    fn release_and_sleep_charge_nothing() {
        for outcome in [Outcome::Released, Outcome::Sleep { until: Timestamp::from_millis(9_000) }]
        {
            assert!(matches!(
                outcome.disposition(context(3, false), NOW),
                Disposition::Requeue { charge: false, error: None, .. }
            ));
        }
    }

    #[test]
    fn job_that_kills_its_worker_fails_with_a_reason_that_says_so() {
        let Disposition::Fail(error) = Disposition::after_lost_lease(context(3, false), "r1", NOW)
        else {
            panic!("should fail");
        };
        assert_eq!(error.code, "worker-lost");
        assert!(error.message.contains("attempt 3 of 3"), "{error}");
    }

    proptest! {
        #[test]
        fn cancelled_job_never_goes_back_in_line(attempt in 1u32..5, kind in 0..5) {
            let outcome = match kind {
                0 => failed(JobError::retryable("x")),
                1 => failed(JobError::fatal("x")),
                2 => Outcome::Released,
                3 => failed(JobError::retryable("x").uncharged()),
                _ => Outcome::Sleep { until: NOW },
            };
            prop_assert_eq!(outcome.disposition(context(attempt, true), NOW), Disposition::Stop);
        }
    }
}
