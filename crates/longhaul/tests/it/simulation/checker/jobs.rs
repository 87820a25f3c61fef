//! Invariants of jobs as clients see them.

use std::collections::{BTreeMap, BTreeSet};

use longhaul::Status;
use longhaul::job::{JobError, Step};

use super::super::workload::PLANNED_ERROR;
use super::{Event, History};
use crate::random::checker::{CheckResult, ensure};

/// Every accepted job exists, and so does the request of every acknowledged cancellation.
pub(super) fn acknowledged_jobs_exist(history: &History) -> CheckResult {
    for entry in &history.ledger {
        if let Event::Accepted { job, key } = &entry.event {
            let exists = history.jobs.contains_key(job);
            ensure!(exists, "[acknowledged] {job} with the key {key} does not exist");
        }
        if let Event::CancelAcknowledged { job } = &entry.event {
            let events = history.jobs.get(job).map(|job| &job.record.history);
            let mut before = events.into_iter().flatten().filter(|event| event.at <= entry.at);
            let is_known = before.any(|event| {
                event.status.is_terminal() || event.phase.as_deref() == Some("cancelling")
            });
            ensure!(is_known, "[acknowledged] the cancellation of {job} is not stored");
        }
    }
    Ok(())
}

/// One idempotency key names one job.
pub(super) fn keys_name_one_job(history: &History) -> CheckResult {
    let mut jobs = BTreeMap::new();
    for (id, job) in &history.jobs {
        let key = job.record.job.idempotency_key.clone().unwrap_or_default();
        let other = jobs.insert(key.clone(), *id);
        ensure!(other.is_none() && !key.is_empty(), "[key] {key:?} names {id} and {other:?}");
    }
    for entry in &history.ledger {
        if let Event::Accepted { key, job } = &entry.event {
            ensure!(jobs.get(key) == Some(job), "[key] {key} was accepted as {job}");
        }
    }
    Ok(())
}

/// Versions rise by one with each event, attempts stay below their maximum, and an end is followed by a resume only.
pub(super) fn histories_are_legal(history: &History) -> CheckResult {
    for (id, job) in &history.jobs {
        let (job, events) = (&job.record.job, &job.record.history);
        for (event, version) in events.iter().zip(1..) {
            ensure!(event.version == version, "[history] {id}: {version} is missing: {events:?}");
        }
        for pair in events.windows(2) {
            let is_legal = !pair[0].status.is_terminal() || pair[1].status == Status::Pending;
            ensure!(is_legal, "[history] {id}: {:?} after its end", pair[1]);
        }
        ensure!(job.attempt <= job.max_attempts, "[history] {id}: {} attempts", job.attempt);
    }
    Ok(())
}

/// A job's errors are those of its handler, and of lost workers.
pub(super) fn errors_are_planned(history: &History) -> CheckResult {
    for (id, job) in &history.jobs {
        let errors = job.record.history.iter().filter_map(|event| event.error.as_ref());
        for error in errors {
            let is_planned = error.code == JobError::WORKER_LOST || error.message == PLANNED_ERROR;
            ensure!(is_planned, "[errors] {id} has an error that was not planned: {error:?}");
        }
    }
    Ok(())
}

/// The result of a completed job has the outputs of its stored steps, and no step was ever stored with two outputs.
pub(super) fn results_consist_of_stored_outputs(history: &History) -> CheckResult {
    let mut outputs = BTreeMap::new();
    for entry in &history.ledger {
        if let Event::CheckpointCommitted { job, step, output, .. } = &entry.event {
            let other = outputs.insert((*job, step.clone()), output.clone());
            ensure!(
                other.is_none_or(|other| other == *output),
                "[outputs] {step} of {job} was stored twice"
            );
        }
    }
    for (id, job) in &history.jobs {
        let is_step = |step: &&Step| step.name.starts_with("step");
        for step in &job.steps {
            let stored = outputs.get(&(*id, step.name.clone()));
            let is_same = stored.is_some_and(|output| output == step.output.as_str());
            ensure!(is_same, "[outputs] {} of {id} is stored as {:?}", step.name, step.output);
        }
        let Some(result) = &job.record.result else { continue };
        let stored: BTreeSet<String> = job
            .steps
            .iter()
            .filter(is_step)
            .map(|step| step.output.to::<String>().unwrap())
            .collect();
        let result: BTreeSet<String> = result.to::<Vec<String>>().unwrap().into_iter().collect();
        ensure!(stored == result, "[outputs] {id} returned {result:?} and stored {stored:?}");
    }
    Ok(())
}

/// Every job has ended.
pub(super) fn jobs_have_ended(history: &History) -> CheckResult {
    for (id, job) in &history.jobs {
        let status = job.record.job.status;
        ensure!(status.is_terminal(), "[end] {id} is {status} after all faults");
    }
    Ok(())
}
