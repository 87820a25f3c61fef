//! Invariants of cancellations.

use std::time::Duration;

use longhaul::job::Event as JobEvent;
use longhaul::{Status, Timestamp};

use super::super::ledger::Event;
use super::attempts::clock;
use super::{FinalJob, History};
use crate::random::checker::{CheckResult, ensure};

/// Time in which a silent query may delay the next one: its limit in the store.
const SILENCE_MAX: Duration = Duration::from_secs(12);
/// Time from a notification to the end of a step, besides latencies: the interval between queries, and some precision.
const NOTIFIED: Duration = Duration::from_millis(150);
/// Maximum latency of a slow call.
const SLOW: Duration = Duration::from_secs(2);

/// A cancellation of a running job, from its transaction to the end of the job.
struct Request<'a> {
    at: Timestamp,
    end: Option<&'a JobEvent>,
}

/// After a cancellation at most the step under way is stored, no other begins, and the job is not claimed again.
pub(super) fn at_most_the_step_under_way_finishes(history: &History) -> CheckResult {
    let bodies = history.bodies();
    for (id, job) in &history.jobs {
        for Request { at, end } in requests(job) {
            let is_end = |status| matches!(status, Status::Completed | Status::Cancelled);
            ensure!(
                end.is_none_or(|end| is_end(end.status)),
                "[cancel] {id} was cancelled at {} and continued: {end:?}",
                clock(at)
            );
            let is_late = |time| at < time && end.is_none_or(|end| time <= end.at);
            let late = job.steps.iter().filter(|step| is_late(step.completed_at));
            let late: Vec<_> = late.map(|step| (&step.name, step.completed_at)).collect();
            ensure!(
                late.len() <= 1,
                "[cancel] {id} was cancelled at {} and stored {late:?}",
                clock(at)
            );
            let Some((_, last_at)) = late.first() else { continue };
            let further = bodies
                .iter()
                .find(|body| body.job == *id && *last_at < body.began_at && is_late(body.began_at));
            ensure!(
                further.is_none(),
                "[cancel] {id} was cancelled at {} and began {:?} after its last checkpoint",
                clock(at),
                further.map(|body| (body.step, clock(body.began_at)))
            );
        }
    }
    Ok(())
}

/// An engine that is notified of a cancellation drops the step under way, if its connections work.
pub(super) fn notified_engines_drop_the_step_under_way(history: &History) -> CheckResult {
    let traffic = &history.plan.traffic;
    let slow = if traffic.slow_per_mille > 0 { SLOW } else { Duration::ZERO };
    let limit = NOTIFIED + Duration::from_millis(2 * traffic.latency_ms) + slow;
    let bodies = history.bodies();
    let notifications =
        history.ledger.iter().filter(|entry| entry.event == Event::CancellationNotified);
    for notification in notifications {
        let (engine, notified_at) = (&notification.replica, notification.at);
        let ends_at = notified_at.after(limit);
        let has_fault = history.any(engine, ends_at, |entry| {
            matches!(entry.event, Event::Killed | Event::Stopping)
                || (matches!(entry.event, Event::CallLost { call: "versions", .. })
                    && entry.at >= notified_at.before(SILENCE_MAX))
        });
        if has_fault {
            continue;
        }
        for body in
            bodies.iter().filter(|body| body.engine == engine && body.began_at < notified_at)
        {
            let requests = history.jobs.get(&body.job).map(requests).into_iter().flatten();
            let mut current =
                requests.filter(|request| body.began_at <= request.at && request.at <= notified_at);
            ensure!(
                current.next().is_none() || body.ended_at.is_some_and(|end| end <= ends_at),
                "[notified] {engine} was notified at {} and {} of {} ran until {:?}",
                clock(notified_at),
                body.step,
                body.job,
                body.ended_at.map(clock)
            );
        }
    }
    Ok(())
}

fn requests(job: &FinalJob) -> Vec<Request<'_>> {
    let events = &job.record.history;
    let is_request = |event: &JobEvent| event.phase.as_deref() == Some("cancelling");
    let requests = events.iter().enumerate().filter(|(_, event)| is_request(event));
    let with_end = requests.map(|(index, request)| {
        let end = events[index + 1..].iter().find(|event| !is_request(event));
        Request { at: request.at, end }
    });
    with_end.collect()
}
