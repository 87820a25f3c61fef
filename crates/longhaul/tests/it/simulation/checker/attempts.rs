//! Invariants of attempts: steps, leases and charges.

use std::time::Duration;

use longhaul::job::{Attempt, JobError};

use super::super::ledger::Event;
use super::super::plan::{LEASE, START};
use super::{Body, FinalJob, History};
use crate::random::checker::{CheckResult, Violation, ensure};

/// Duration of an outage of one replica, within a minute, from which on it may lose leases: it renews them every 5 s, and
/// each renewal may take 4 s more.
const ALONE_MAX: Duration = Duration::from_secs(6);
/// Precision of times in the ledger.
const PRECISION: Duration = Duration::from_millis(1);

/// A step does not run again after a checkpoint that the claim of its attempt could see.
pub(super) fn finished_steps_do_not_run_again(history: &History) -> CheckResult {
    for body in history.bodies() {
        let job = final_job(history, &body)?;
        let attempt = attempt_of(job, &body)?;
        let stored = job.steps.iter().find(|step| step.name == body.step);
        let is_repeated = stored.is_some_and(|step| step.completed_at < attempt.started_at);
        ensure!(
            !is_repeated,
            "[repeated] {} of {} began at {} on {}, although it was stored before",
            body.step,
            body.job,
            clock(body.began_at),
            body.engine
        );
    }
    Ok(())
}

/// A body of a step runs while its engine has the job: it begins after the claim, and has ended when the attempt is
/// settled or rescued.
pub(super) fn one_attempt_runs_at_a_time(history: &History) -> CheckResult {
    for body in history.bodies() {
        let attempt = attempt_of(final_job(history, &body)?, &body)?;
        let last_at = body.ended_at.unwrap_or(body.began_at);
        let has_job = attempt.ended_at.is_none_or(|end| last_at <= end.after(PRECISION));
        ensure!(
            has_job,
            "[copies] {} of {} ran on {} until {}, but the attempt had ended: {attempt:?}",
            body.step,
            body.job,
            body.engine,
            clock(last_at)
        );
    }
    Ok(())
}

/// An attempt is charged as lost only if its engine was killed, could not settle it before its process ended, did not
/// learn of its lease, or could alone not reach the store.
pub(super) fn only_lost_workers_cost_attempts(history: &History) -> CheckResult {
    for (id, job) in &history.jobs {
        for attempt in job.record.attempts() {
            let is_lost =
                attempt.error.as_ref().is_some_and(|error| error.code == JobError::WORKER_LOST);
            let (Some(engine), Some(ended_at), true) =
                (attempt.replica.as_deref(), attempt.ended_at, is_lost)
            else {
                continue;
            };
            let is_gone = history.any(engine, ended_at, |entry| {
                matches!(entry.event, Event::Killed)
                    || matches!(entry.event, Event::Stopped { faults } if faults > 0)
                    || (matches!(entry.event, Event::LeaseUnknown { job } if job == *id)
                        && entry.at >= attempt.started_at)
            });
            let minute_before = ended_at.before(Duration::from_mins(1));
            let replica = History::replica(engine);
            let alone = history.plan.alone_for(replica, minute_before, ended_at);
            ensure!(
                is_gone || alone >= ALONE_MAX,
                "[charge] attempt {} of {id} on {engine} was charged as lost at {}: {:?}",
                attempt.attempt,
                clock(ended_at),
                job.record.history
            );
        }
    }
    Ok(())
}

/// The registry shows an engine that runs as alive, unless its connections had a fault lately.
pub(super) fn registry_shows_running_engines(history: &History) -> CheckResult {
    for entry in history.ledger.iter().filter(|entry| entry.event == Event::SeenDead) {
        let replica = History::replica(&entry.replica);
        let started_lately = !history
            .any(&entry.replica, entry.at.before(LEASE), |entry| entry.event == Event::Started);
        ensure!(
            started_lately || !history.plan.is_calm(replica, entry.at),
            "[registry] {} runs and is shown as dead at {}",
            entry.replica,
            clock(entry.at)
        );
    }
    Ok(())
}

fn final_job<'a>(history: &'a History, body: &Body<'_>) -> CheckResult<&'a FinalJob> {
    let job = history.jobs.get(&body.job);
    job.ok_or_else(|| Violation(format!("[acknowledged] {} ran and does not exist", body.job)))
}

/// Returns the attempt to which the body belongs.
fn attempt_of(job: &FinalJob, body: &Body<'_>) -> CheckResult<Attempt> {
    let attempts = job.record.attempts().into_iter().rev();
    let mut own = attempts.filter(|attempt| {
        attempt.replica.as_deref() == Some(body.engine) && attempt.started_at <= body.handler_at
    });
    own.next().ok_or_else(|| Violation(format!("[copies] {} ran without a claim", body.job)))
}

/// Formats a time as in the trace.
pub(super) fn clock(at: longhaul::Timestamp) -> String {
    format!("{:.3}", at.since(START).as_secs_f64())
}
