//! Operations that clients request on a job: cancel, resume, fork and purge.

use std::time::Duration;

use super::harness::{StoreHarness, done, failed, failed_for_good, name};
use crate::job::{Command, JobId, Name, Outcome, Status, Step, TenantId};
use crate::store::{Filter, Lease, NewJob, PageRequest, Start, StoreError};

fn us() -> TenantId {
    TenantId::default()
}

fn wrong(status: Status, command: Command) -> StoreError {
    StoreError::WrongStatus { status, command }
}

/// A job that is cancelled before it starts never starts.
pub async fn cancelled_job_is_not_claimed(harness: &StoreHarness) {
    let later = NewJob { start: Start::In(Duration::from_mins(1)), ..harness.job() };
    for new in [harness.job(), later] {
        let id = harness.accept(new).await.id;
        let job = harness.store().cancel(&us(), id).await.unwrap();
        assert_eq!((job.status, job.completed_at), (Status::Cancelled, Some(harness.now())));
        assert!(job.expires_at.is_some());
        assert_eq!(job, harness.record(id).await.job);
    }
    harness.advance(Duration::from_mins(1));
    assert!(harness.claim(10).await.is_empty());
}

/// Cancelling a running job requests a stop; the job runs until its worker settles it.
pub async fn running_job_is_asked_to_stop(harness: &StoreHarness) {
    let lease = harness.running().await;
    let job = harness.store().cancel(&us(), lease.job.id).await.unwrap();
    assert_eq!((job.status, job.phase.as_deref()), (Status::Running, Some("cancelling")));
    assert_eq!(job.cancel_requested_at, Some(harness.now()));
    assert!(job.version > lease.job.version);
    assert_eq!(job, harness.record(lease.job.id).await.job);
}

/// A checkpoint reports a cancellation that was requested before it, so that its worker starts no further step.
pub async fn checkpoint_reports_the_request_to_stop(harness: &StoreHarness) {
    let (lease, other) = (harness.running().await, harness.running().await);
    let step = async |lease: &Lease, position: u32, name: &str| {
        harness.step(lease, position, name, "1").await.unwrap().cancel_requested
    };
    assert!(!step(&lease, 0, "a").await);
    harness.store().cancel(&us(), lease.job.id).await.unwrap();
    assert!(step(&lease, 1, "b").await);
    assert!(step(&lease, 2, "c").await, "every later checkpoint");
    assert!(step(&lease, 0, "a").await, "one that is repeated because its response was lost");
    assert!(!step(&other, 0, "a").await, "of this job only");
    // The request ends with the attempt.
    harness.settle(&lease, Outcome::Cancelled).await.unwrap();
    harness.store().resume(&us(), lease.job.id).await.unwrap();
    let lease = harness.claim_one().await;
    assert!(!step(&lease, 3, "d").await);
}

/// Concurrent checkpoints of several jobs each report the request of their own job.
pub async fn concurrent_checkpoints_report_the_requests_of_their_jobs(harness: &StoreHarness) {
    let mut steps = Vec::new();
    for number in 0..20 {
        let lease = harness.running().await;
        let is_cancelled = number % 3 == 0;
        if is_cancelled {
            harness.store().cancel(&us(), lease.job.id).await.unwrap();
        }
        steps.push((lease, is_cancelled));
    }
    let results = steps.iter().map(async |(lease, is_cancelled)| {
        let stored = harness.step(lease, 0, "a", "1").await.unwrap();
        (stored.cancel_requested, *is_cancelled)
    });
    for (reported, is_cancelled) in futures_util::future::join_all(results).await {
        assert_eq!(reported, is_cancelled);
    }
}

/// A second cancellation request changes nothing.
pub async fn asking_twice_to_stop_changes_nothing(harness: &StoreHarness) {
    let lease = harness.running().await;
    let first = harness.store().cancel(&us(), lease.job.id).await.unwrap();
    harness.advance(Duration::from_secs(1));
    let before = harness.record(lease.job.id).await;
    assert_eq!(harness.store().cancel(&us(), lease.job.id).await, Ok(first));
    assert_eq!(harness.record(lease.job.id).await, before);
}

/// Cancelling a cancelled job succeeds, because the first response may have been lost.
pub async fn cancelling_a_cancelled_job_changes_nothing(harness: &StoreHarness) {
    let in_line = harness.pending().await.id;
    harness.store().cancel(&us(), in_line).await.unwrap();
    let stopped = harness.ended(Outcome::Cancelled).await.id;
    harness.advance(Duration::from_secs(1));
    for id in [in_line, stopped] {
        let before = harness.record(id).await;
        assert_eq!(harness.store().cancel(&us(), id).await.as_ref(), Ok(&before.job));
        assert_eq!(harness.record(id).await, before);
    }
}

/// A completed or failed job cannot be cancelled.
pub async fn ended_job_cannot_be_cancelled(harness: &StoreHarness) {
    for outcome in [done(), failed_for_good()] {
        let job = harness.ended(outcome).await;
        let before = harness.record(job.id).await;
        let refused = harness.store().cancel(&us(), job.id).await;
        assert_eq!(refused, Err(wrong(job.status, Command::Cancel)));
        assert_eq!(harness.record(job.id).await, before);
    }
}

/// A failed or cancelled job is pending again after a resume, like a new one.
pub async fn resumed_job_is_due_at_once(harness: &StoreHarness) {
    for outcome in [failed_for_good(), Outcome::Cancelled] {
        let ended = harness.ended(outcome).await;
        harness.advance(Duration::from_secs(5));
        let job = harness.store().resume(&us(), ended.id).await.unwrap();
        assert_eq!((job.status, job.run_at), (Status::Pending, harness.now()));
        assert_eq!((job.completed_at, job.expires_at), (None, None));
        assert_eq!(job.cancel_requested_at, None);
        assert!(job.version > ended.version);
        assert_eq!(job, harness.record(ended.id).await.job);
        let lease = harness.claim_one().await;
        assert_eq!((lease.job.id, lease.job.attempt), (ended.id, ended.attempt + 1));
        harness.settle(&lease, done()).await.unwrap();
        assert!(harness.record(ended.id).await.result.is_some());
    }
}

/// A resume clears the cancellation request, so that the job does not stop again.
pub async fn resume_forgets_the_request_to_stop(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&us(), lease.job.id).await.unwrap();
    harness.settle(&lease, Outcome::Cancelled).await.unwrap();
    harness.store().resume(&us(), lease.job.id).await.unwrap();
    let lease = harness.claim_one().await;
    assert_ne!(lease.job.phase.as_deref(), Some("cancelling"));
    assert_eq!(harness.settle(&lease, Outcome::Released).await.unwrap().status, Status::Pending);
}

/// A resumed job does not repeat finished steps.
pub async fn resume_keeps_finished_steps(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.step(&lease, 0, "a", "1").await.unwrap();
    harness.settle(&lease, failed_for_good()).await.unwrap();
    harness.store().resume(&us(), lease.job.id).await.unwrap();
    let names: Vec<_> = harness.claim_one().await.steps.into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["a"]);
}

/// Each resume grants the job's original number of attempts again.
pub async fn resume_grants_as_many_attempts_as_at_first(harness: &StoreHarness) {
    let id = harness.accept(NewJob { max_attempts: 2, ..harness.job() }).await.id;
    for resumed in 0..3 {
        let first = harness.claim_one().await;
        assert_eq!(first.job.attempt, resumed * 2 + 1);
        assert_eq!(harness.settle(&first, failed()).await.unwrap().status, Status::Pending);
        let last = harness.claim_one().await;
        assert_eq!(last.job.attempt, last.job.max_attempts);
        assert_eq!(harness.settle(&last, failed()).await.unwrap().status, Status::Failed);
        harness.store().resume(&us(), id).await.unwrap();
    }
}

/// Only failed and cancelled jobs can be resumed.
pub async fn only_failed_and_cancelled_jobs_are_resumed(harness: &StoreHarness) {
    let completed = harness.ended(done()).await.id;
    let running = harness.running().await.job.id;
    let pending = harness.pending().await.id;
    for (id, status) in
        [(completed, Status::Completed), (running, Status::Running), (pending, Status::Pending)]
    {
        let before = harness.record(id).await;
        let refused = harness.store().resume(&us(), id).await;
        assert_eq!(refused, Err(wrong(status, Command::Resume)));
        assert_eq!(harness.record(id).await, before);
    }
}

/// Returns a job with three finished steps, two of which ran concurrently.
async fn with_steps(harness: &StoreHarness) -> Lease {
    let new = NewJob {
        queue: name("slow"),
        priority: 3,
        idempotency_key: Some("k".to_owned()),
        ..harness.job_with(r#"{"page":2}"#)
    };
    let lease = harness.running_as(new).await;
    for (position, name) in [(2, "c"), (0, "a"), (1, "b")] {
        harness.step(&lease, position, name, &position.to_string()).await.unwrap();
    }
    lease
}

async fn step_names(harness: &StoreHarness, id: JobId) -> Vec<String> {
    let steps = harness.store().steps(&us(), id).await.unwrap();
    steps.into_iter().map(|Step { name, .. }| name).collect()
}

/// A fork is a new job with the same input.
pub async fn fork_is_a_new_pending_job_with_the_same_input(harness: &StoreHarness) {
    let parent = with_steps(harness).await;
    harness.settle(&parent, done()).await.unwrap();
    let before = harness.record(parent.job.id).await;
    harness.advance(Duration::from_secs(5));
    let new_id = harness.id();
    let fork = harness.store().fork(&us(), parent.job.id, new_id, None).await.unwrap();
    assert_eq!((fork.id, fork.forked_from), (new_id, Some(parent.job.id)));
    assert_eq!((fork.status, fork.attempt), (Status::Pending, 0));
    assert_eq!((&fork.kind, &fork.queue), (&parent.job.kind, &parent.job.queue));
    assert_eq!((fork.created_at, fork.run_at), (harness.now(), harness.now()));
    assert_eq!((fork.completed_at, &fork.error), (None, &None));
    assert_eq!(fork.idempotency_key, None, "the key belongs to the parent");
    assert_eq!(fork, harness.record(new_id).await.job);
    assert_eq!(harness.record(new_id).await.result, None);
    assert_eq!(harness.store().input(&us(), new_id).await.unwrap(), parent.input);
    assert_eq!(harness.claim_one().await.job.id, new_id);
    assert_eq!(harness.record(parent.job.id).await, before, "the parent is unchanged");
}

/// A fork shares exactly its parent's steps before the fork point.
pub async fn fork_shares_exactly_the_steps_before_the_fork_point(harness: &StoreHarness) {
    let parent = with_steps(harness).await;
    let parents = harness.store().steps(&us(), parent.job.id).await.unwrap();
    for (from, shared) in [(Some("a"), 0), (Some("b"), 1), (Some("c"), 2), (None, 3)] {
        let id = harness.id();
        harness.store().fork(&us(), parent.job.id, id, from).await.unwrap();
        let steps = harness.store().steps(&us(), id).await.unwrap();
        let outputs = |steps: &[Step]| -> Vec<_> {
            steps.iter().map(|step| (step.name.clone(), step.output.clone())).collect()
        };
        assert_eq!(outputs(&steps), outputs(&parents[..shared]), "from {from:?}");
        let lease = harness.claim_one().await;
        assert_eq!((lease.job.id, lease.steps), (id, steps));
    }
}

/// Later changes to a fork or its parent do not affect the other.
pub async fn fork_and_parent_go_their_own_ways(harness: &StoreHarness) {
    let parent = with_steps(harness).await;
    let id = harness.id();
    harness.store().fork(&us(), parent.job.id, id, Some("b")).await.unwrap();
    let fork = harness.claim_one().await;
    harness.step(&fork, 1, "b", "99").await.unwrap();
    harness.step(&parent, 3, "d", "3").await.unwrap();
    assert_eq!(step_names(harness, id).await, ["a", "b"]);
    assert_eq!(step_names(harness, parent.job.id).await, ["a", "b", "c", "d"]);
    harness.settle(&parent, done()).await.unwrap();
    harness.store().purge(&us(), parent.job.id).await.unwrap();
    assert_eq!(step_names(harness, id).await, ["a", "b"], "steps outlive the parent");
    harness.settle(&fork, done()).await.unwrap();
}

/// A fork from an unknown step is rejected and creates no job.
pub async fn fork_from_an_unknown_step_is_refused(harness: &StoreHarness) {
    let parent = with_steps(harness).await;
    let id = harness.id();
    let refused = harness.store().fork(&us(), parent.job.id, id, Some("z")).await;
    assert_eq!(refused, Err(StoreError::UnknownStep { name: "z".to_owned() }));
    assert_eq!(harness.try_record(id).await.unwrap_err(), StoreError::NotFound);
    let refused = harness.store().fork(&us(), harness.id(), id, None).await;
    assert_eq!(refused, Err(StoreError::NotFound));
}

/// A purged job is deleted with all of its data, and its id is reported as gone.
pub async fn purged_job_is_gone_in_every_way(harness: &StoreHarness) {
    let lease = with_steps(harness).await;
    harness.settle(&lease, done()).await.unwrap();
    let (store, id) = (harness.store(), lease.job.id);
    store.purge(&us(), id).await.unwrap();
    assert_eq!(store.job(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.input(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.steps(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.cancel(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.resume(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.fork(&us(), id, harness.id(), None).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.purge(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.job_by_key(&us(), "k").await.unwrap_err(), StoreError::NotFound);
    assert_eq!(harness.settle(&lease, failed()).await, Err(StoreError::LeaseLost));
    let page = PageRequest::new(10, None);
    assert!(store.jobs(&us(), &Filter::default(), &page).await.unwrap().jobs.is_empty());
}

/// A job that has not finished cannot be purged.
pub async fn only_ended_jobs_are_purged(harness: &StoreHarness) {
    let running = harness.running().await.job.id;
    let pending = harness.pending().await.id;
    for (id, status) in [(running, Status::Running), (pending, Status::Pending)] {
        let before = harness.record(id).await;
        let refused = harness.store().purge(&us(), id).await;
        assert_eq!(refused, Err(wrong(status, Command::Purge)));
        assert_eq!(harness.record(id).await, before);
    }
    // The pending job keeps its queue, so the jobs that finish here use another one.
    harness.store().pause_queue(&us(), &Name::default_queue(), true).await.unwrap();
    for outcome in [done(), failed_for_good(), Outcome::Cancelled] {
        let lease = harness.running_as(NewJob { queue: name("beside"), ..harness.job() }).await;
        harness.settle(&lease, outcome).await.unwrap();
        harness.store().purge(&us(), lease.job.id).await.unwrap();
    }
}
