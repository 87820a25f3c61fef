//! What callers may ask of a job: to stop, to go on, to be done again from a step, to be forgotten.

use std::time::Duration;

use super::bench::{Bench, done, failed, failed_for_good, name};
use crate::job::{Command, JobId, Name, Outcome, Status, Step, TenantId};
use crate::store::{Filter, Lease, NewJob, PageRequest, Start, StoreError};

fn us() -> TenantId {
    TenantId::default()
}

fn wrong(status: Status, command: Command) -> StoreError {
    StoreError::WrongStatus { status, command }
}

/// A job that did not start never does.
pub async fn cancelled_job_is_not_claimed(bench: &Bench) {
    let later = NewJob { start: Start::In(Duration::from_mins(1)), ..bench.job() };
    for new in [bench.job(), later] {
        let id = bench.accept(new).await.id;
        let job = bench.store().cancel(&us(), id).await.unwrap();
        assert_eq!((job.status, job.completed_at), (Status::Cancelled, Some(bench.now())));
        assert!(job.expires_at.is_some());
        assert_eq!(job, bench.record(id).await.job);
    }
    bench.advance(Duration::from_mins(1));
    assert!(bench.claim(10).await.is_empty());
}

/// The worker of a running job is asked; the job goes on until it answers.
pub async fn running_job_is_asked_to_stop(bench: &Bench) {
    let lease = bench.running().await;
    let job = bench.store().cancel(&us(), lease.job.id).await.unwrap();
    assert_eq!((job.status, job.phase.as_deref()), (Status::Running, Some("cancelling")));
    assert_eq!(job.cancel_requested_at, Some(bench.now()));
    assert!(job.version > lease.job.version);
    assert_eq!(job, bench.record(lease.job.id).await.job);
}

/// An impatient caller does no harm.
pub async fn asking_twice_to_stop_changes_nothing(bench: &Bench) {
    let lease = bench.running().await;
    let first = bench.store().cancel(&us(), lease.job.id).await.unwrap();
    bench.advance(Duration::from_secs(1));
    let before = bench.record(lease.job.id).await;
    assert_eq!(bench.store().cancel(&us(), lease.job.id).await, Ok(first));
    assert_eq!(bench.record(lease.job.id).await, before);
}

/// Nor does one whose first answer got lost: the job is what they want it to be.
pub async fn cancelling_a_cancelled_job_changes_nothing(bench: &Bench) {
    let in_line = bench.pending().await.id;
    bench.store().cancel(&us(), in_line).await.unwrap();
    let stopped = bench.ended(Outcome::Cancelled).await.id;
    bench.advance(Duration::from_secs(1));
    for id in [in_line, stopped] {
        let before = bench.record(id).await;
        assert_eq!(bench.store().cancel(&us(), id).await.as_ref(), Ok(&before.job));
        assert_eq!(bench.record(id).await, before);
    }
}

/// What has ended otherwise cannot be stopped.
pub async fn ended_job_cannot_be_cancelled(bench: &Bench) {
    for outcome in [done(), failed_for_good()] {
        let job = bench.ended(outcome).await;
        let before = bench.record(job.id).await;
        let refused = bench.store().cancel(&us(), job.id).await;
        assert_eq!(refused, Err(wrong(job.status, Command::Cancel)));
        assert_eq!(bench.record(job.id).await, before);
    }
}

/// A job that ended badly goes on, as a fresh one would.
pub async fn resumed_job_is_due_at_once(bench: &Bench) {
    for outcome in [failed_for_good(), Outcome::Cancelled] {
        let ended = bench.ended(outcome).await;
        bench.advance(Duration::from_secs(5));
        let job = bench.store().resume(&us(), ended.id).await.unwrap();
        assert_eq!((job.status, job.run_at), (Status::Pending, bench.now()));
        assert_eq!((job.completed_at, job.expires_at), (None, None));
        assert_eq!(job.cancel_requested_at, None);
        assert!(job.version > ended.version);
        assert_eq!(job, bench.record(ended.id).await.job);
        let lease = bench.claim_one().await;
        assert_eq!((lease.job.id, lease.job.attempt), (ended.id, ended.attempt + 1));
        bench.settle(&lease, done()).await.unwrap();
        assert!(bench.record(ended.id).await.result.is_some());
    }
}

/// A request to stop is over with the resume: the job does not stop again by itself.
pub async fn resume_forgets_the_request_to_stop(bench: &Bench) {
    let lease = bench.running().await;
    bench.store().cancel(&us(), lease.job.id).await.unwrap();
    bench.settle(&lease, Outcome::Cancelled).await.unwrap();
    bench.store().resume(&us(), lease.job.id).await.unwrap();
    let lease = bench.claim_one().await;
    assert_ne!(lease.job.phase.as_deref(), Some("cancelling"));
    assert_eq!(bench.settle(&lease, Outcome::Released).await.unwrap().status, Status::Pending);
}

/// Finished steps are not run again.
pub async fn resume_keeps_finished_steps(bench: &Bench) {
    let lease = bench.running().await;
    bench.step(&lease, 0, "a", "1").await.unwrap();
    bench.settle(&lease, failed_for_good()).await.unwrap();
    bench.store().resume(&us(), lease.job.id).await.unwrap();
    let names: Vec<_> = bench.claim_one().await.steps.into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["a"]);
}

/// Each resume grants as many further attempts as the job had at first.
pub async fn resume_grants_as_many_attempts_as_at_first(bench: &Bench) {
    let id = bench.accept(NewJob { max_attempts: 2, ..bench.job() }).await.id;
    for resumed in 0..3 {
        let first = bench.claim_one().await;
        assert_eq!(first.job.attempt, resumed * 2 + 1);
        assert_eq!(bench.settle(&first, failed()).await.unwrap().status, Status::Pending);
        let last = bench.claim_one().await;
        assert_eq!(last.job.attempt, last.job.max_attempts);
        assert_eq!(bench.settle(&last, failed()).await.unwrap().status, Status::Failed);
        bench.store().resume(&us(), id).await.unwrap();
    }
}

/// Only what ended badly can go on.
pub async fn only_failed_and_cancelled_jobs_are_resumed(bench: &Bench) {
    let completed = bench.ended(done()).await.id;
    let running = bench.running().await.job.id;
    let pending = bench.pending().await.id;
    for (id, status) in
        [(completed, Status::Completed), (running, Status::Running), (pending, Status::Pending)]
    {
        let before = bench.record(id).await;
        let refused = bench.store().resume(&us(), id).await;
        assert_eq!(refused, Err(wrong(status, Command::Resume)));
        assert_eq!(bench.record(id).await, before);
    }
}

/// A job with three finished steps, two of them side by side.
async fn with_steps(bench: &Bench) -> Lease {
    let new = NewJob {
        queue: name("slow"),
        priority: 3,
        idempotency_key: Some("k".to_owned()),
        ..bench.job_with(r#"{"page":2}"#)
    };
    let lease = bench.running_as(new).await;
    for (position, name) in [(2, "c"), (0, "a"), (1, "b")] {
        bench.step(&lease, position, name, &position.to_string()).await.unwrap();
    }
    lease
}

async fn step_names(bench: &Bench, id: JobId) -> Vec<String> {
    let steps = bench.store().steps(&us(), id).await.unwrap();
    steps.into_iter().map(|Step { name, .. }| name).collect()
}

/// A fork is a new job with the same work to do.
pub async fn fork_is_a_new_pending_job_with_the_same_input(bench: &Bench) {
    let parent = with_steps(bench).await;
    bench.settle(&parent, done()).await.unwrap();
    let before = bench.record(parent.job.id).await;
    bench.advance(Duration::from_secs(5));
    let new_id = bench.id();
    let fork = bench.store().fork(&us(), parent.job.id, new_id, None).await.unwrap();
    assert_eq!((fork.id, fork.forked_from), (new_id, Some(parent.job.id)));
    assert_eq!((fork.status, fork.attempt), (Status::Pending, 0));
    assert_eq!((&fork.kind, &fork.queue), (&parent.job.kind, &parent.job.queue));
    assert_eq!((fork.created_at, fork.run_at), (bench.now(), bench.now()));
    assert_eq!((fork.completed_at, &fork.error), (None, &None));
    assert_eq!(fork.idempotency_key, None, "the key names the parent");
    assert_eq!(fork, bench.record(new_id).await.job);
    assert_eq!(bench.record(new_id).await.result, None);
    assert_eq!(bench.store().input(&us(), new_id).await.unwrap(), parent.input);
    assert_eq!(bench.claim_one().await.job.id, new_id);
    assert_eq!(bench.record(parent.job.id).await, before, "the parent is left alone");
}

/// A fork shares exactly its parent's steps before the fork point.
pub async fn fork_shares_exactly_the_steps_before_the_fork_point(bench: &Bench) {
    let parent = with_steps(bench).await;
    let parents = bench.store().steps(&us(), parent.job.id).await.unwrap();
    for (from, shared) in [(Some("a"), 0), (Some("b"), 1), (Some("c"), 2), (None, 3)] {
        let id = bench.id();
        bench.store().fork(&us(), parent.job.id, id, from).await.unwrap();
        let steps = bench.store().steps(&us(), id).await.unwrap();
        let outputs = |steps: &[Step]| -> Vec<_> {
            steps.iter().map(|step| (step.name.clone(), step.output.clone())).collect()
        };
        assert_eq!(outputs(&steps), outputs(&parents[..shared]), "from {from:?}");
        let lease = bench.claim_one().await;
        assert_eq!((lease.job.id, lease.steps), (id, steps));
    }
}

/// What happens to one of them does not happen to the other.
pub async fn fork_and_parent_go_their_own_ways(bench: &Bench) {
    let parent = with_steps(bench).await;
    let id = bench.id();
    bench.store().fork(&us(), parent.job.id, id, Some("b")).await.unwrap();
    let fork = bench.claim_one().await;
    bench.step(&fork, 1, "b", "99").await.unwrap();
    bench.step(&parent, 3, "d", "3").await.unwrap();
    assert_eq!(step_names(bench, id).await, ["a", "b"]);
    assert_eq!(step_names(bench, parent.job.id).await, ["a", "b", "c", "d"]);
    bench.settle(&parent, done()).await.unwrap();
    bench.store().purge(&us(), parent.job.id).await.unwrap();
    assert_eq!(step_names(bench, id).await, ["a", "b"], "steps outlive the parent");
    bench.settle(&fork, done()).await.unwrap();
}

/// A fork from a step that is not there is a mistake of the caller, and makes no job.
pub async fn fork_from_an_unknown_step_is_refused(bench: &Bench) {
    let parent = with_steps(bench).await;
    let id = bench.id();
    let refused = bench.store().fork(&us(), parent.job.id, id, Some("z")).await;
    assert_eq!(refused, Err(StoreError::UnknownStep { name: "z".to_owned() }));
    assert_eq!(bench.try_record(id).await.unwrap_err(), StoreError::NotFound);
    let refused = bench.store().fork(&us(), bench.id(), id, None).await;
    assert_eq!(refused, Err(StoreError::NotFound));
}

/// A purged job is gone with all that belongs to it, and remembered as gone.
pub async fn purged_job_is_gone_in_every_way(bench: &Bench) {
    let lease = with_steps(bench).await;
    bench.settle(&lease, done()).await.unwrap();
    let (store, id) = (bench.store(), lease.job.id);
    store.purge(&us(), id).await.unwrap();
    assert_eq!(store.job(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.input(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.steps(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.cancel(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.resume(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.fork(&us(), id, bench.id(), None).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.purge(&us(), id).await.unwrap_err(), StoreError::Gone);
    assert_eq!(store.job_by_key(&us(), "k").await.unwrap_err(), StoreError::NotFound);
    assert_eq!(bench.settle(&lease, failed()).await, Err(StoreError::LeaseLost));
    let page = PageRequest { limit: 10, before: None };
    assert!(store.jobs(&us(), &Filter::default(), &page).await.unwrap().jobs.is_empty());
}

/// What has not ended is not deleted.
pub async fn only_ended_jobs_are_purged(bench: &Bench) {
    let running = bench.running().await.job.id;
    let pending = bench.pending().await.id;
    for (id, status) in [(running, Status::Running), (pending, Status::Pending)] {
        let before = bench.record(id).await;
        let refused = bench.store().purge(&us(), id).await;
        assert_eq!(refused, Err(wrong(status, Command::Purge)));
        assert_eq!(bench.record(id).await, before);
    }
    // The pending job stays in line, so what ends here waits in another queue.
    bench.store().pause_queue(&us(), &Name::default_queue(), true).await.unwrap();
    for outcome in [done(), failed_for_good(), Outcome::Cancelled] {
        let lease = bench.running_as(NewJob { queue: name("beside"), ..bench.job() }).await;
        bench.settle(&lease, outcome).await.unwrap();
        bench.store().purge(&us(), lease.job.id).await.unwrap();
    }
}
