//! Jobs that are leased in the transaction of their submission.

use std::sync::Arc;
use std::time::Duration;

use super::harness::{LEASE, StoreHarness, TICK, demo, done, failed, name, tenant};
use crate::job::{Record, Status};
use crate::store::{
    Claim, FlowLimit, FlowLimits, KindCapacity, Lease, NewJob, Start, StoreError, SubmitResult,
};

async fn hand_off(harness: &StoreHarness, job: NewJob) -> (SubmitResult, Option<Lease>) {
    hand_off_within(harness, job, &harness.want(1)).await
}

async fn hand_off_within(
    harness: &StoreHarness,
    job: NewJob,
    want: &Claim,
) -> (SubmitResult, Option<Lease>) {
    harness.store().submit_and_claim(job, want).await.unwrap()
}

/// Asserts that a job was accepted without a lease.
async fn assert_pending(harness: &StoreHarness, (submitted, lease): (SubmitResult, Option<Lease>)) {
    assert!(submitted.created && lease.is_none());
    let job = &submitted.record.job;
    let stored = harness.store().job(&job.tenant, job.id).await.unwrap();
    assert_eq!(stored.job.status, Status::Pending);
}

/// A job that is alone gets its lease with its submission: the same lease, and the same history, as by a claim.
pub async fn lone_job_is_leased_with_its_submission(harness: &StoreHarness) {
    let (input, started_at) = (harness.job().input, harness.now());
    let (submitted, lease) = hand_off(harness, harness.job()).await;
    let lease = lease.expect("nothing else is due");
    assert!(submitted.created);
    assert_eq!((submitted.record.job.status, submitted.record.job.version), (Status::Pending, 1));
    assert_eq!((lease.epoch, lease.expires_at), (1, harness.now().after(LEASE)));
    assert_eq!((lease.input, lease.steps.len()), (input, 0));
    assert_eq!((lease.job.status, lease.job.attempt), (Status::Running, 1));
    assert_eq!(lease.job.started_at, Some(started_at));
    let Record { job, history, .. } = harness.record(lease.job.id).await;
    assert_eq!(job, lease.job);
    let events: Vec<_> = history.iter().map(|event| (event.version, event.status)).collect();
    assert_eq!(events, [(1, Status::Pending), (2, Status::Running)]);
    assert!(harness.claim(5).await.is_empty());
}

/// A handed-off attempt is charged, settled and retried like any other.
pub async fn handed_off_job_is_settled_and_retried_like_others(harness: &StoreHarness) {
    let job = NewJob { max_attempts: 2, ..harness.job() };
    let lease = hand_off(harness, job).await.1.unwrap();
    harness.settle(&lease, failed()).await.unwrap();
    harness.advance(Duration::from_hours(1));
    let again = harness.claim_one().await;
    assert_eq!((again.job.id, again.job.attempt, again.epoch), (lease.job.id, 2, 2));
    harness.settle(&again, done()).await.unwrap();
    assert_eq!(harness.record(lease.job.id).await.job.status, Status::Completed);
}

/// A process that dies after the commit loses the lease, and the job continues elsewhere.
pub async fn handed_off_job_of_a_dead_process_is_rescued(harness: &StoreHarness) {
    let lease = hand_off(harness, harness.job()).await.1.unwrap();
    harness.lose(&lease).await;
    harness.advance(Duration::from_hours(1));
    let again = harness.claim_one().await;
    assert_eq!((again.job.id, again.job.attempt), (lease.job.id, 2));
}

/// A due job of the same tenant goes first, whatever its queue.
pub async fn due_job_of_the_tenant_goes_before_a_handed_off_one(harness: &StoreHarness) {
    let first = harness.accept(NewJob { queue: name("other"), ..harness.job() }).await;
    let second = hand_off(harness, harness.job()).await;
    let second_id = second.0.record.job.id;
    assert_pending(harness, second).await;
    let claimed = harness.claim(5).await;
    assert_eq!(claimed.iter().map(|one| one.job.id).collect::<Vec<_>>(), [first.id, second_id]);
}

/// Jobs that a claim could not take either do not hold a new job back: those of other tenants, of kinds that run
/// elsewhere, in paused queues, and those that are not due yet.
pub async fn jobs_that_are_not_claimable_hold_no_job_back(harness: &StoreHarness) {
    let paused = name("paused");
    harness.accept(harness.job_of(&tenant("other"))).await;
    harness.accept(NewJob { kind: name("elsewhere"), ..harness.job() }).await;
    harness.accept(NewJob { start: Start::In(TICK * 9), ..harness.job() }).await;
    harness.accept(NewJob { queue: paused.clone(), ..harness.job() }).await;
    let us = harness.job().tenant;
    harness.store().pause_queue(&us, &paused, true).await.unwrap();
    assert!(hand_off(harness, harness.job()).await.1.is_some());
    harness.advance(TICK * 9);
    assert_pending(harness, hand_off(harness, harness.job()).await).await;
}

/// A job in a paused queue is not started.
pub async fn job_in_a_paused_queue_is_not_handed_off(harness: &StoreHarness) {
    let job = harness.job();
    harness.store().pause_queue(&job.tenant, &job.queue, true).await.unwrap();
    assert_pending(harness, hand_off(harness, job).await).await;
    assert!(harness.claim(5).await.is_empty());
}

/// A delayed job, one of a kind without capacity and one with a limit are left to claims.
pub async fn job_that_has_to_wait_is_not_handed_off(harness: &StoreHarness) {
    let delayed = NewJob { start: Start::In(TICK), ..harness.job() };
    assert_pending(harness, hand_off(harness, delayed).await).await;
    let full = KindCapacity { kind: demo(), capacity: 0, code_version: None };
    let full = Claim { kinds: vec![full], ..harness.want(1) };
    let other = harness.job_of(&tenant("full"));
    assert_pending(harness, hand_off_within(harness, other, &full).await).await;
    let other = harness.job_of(&tenant("limited"));
    let limits = FlowLimits { tenants: FlowLimit::running(9), ..FlowLimits::default() };
    let limited = Claim { limits: Arc::new(limits), ..harness.want(1) };
    assert_pending(harness, hand_off_within(harness, other, &limited).await).await;
}

/// A key that exists returns its job, without a lease.
pub async fn known_key_is_not_handed_off(harness: &StoreHarness) {
    let (first, lease) = hand_off(harness, harness.keyed("k")).await;
    assert!(lease.is_some());
    let (again, lease) = hand_off(harness, harness.keyed("k")).await;
    assert!(!again.created && lease.is_none());
    assert_eq!(again.record.job.id, first.record.job.id);
    let other = NewJob { input: harness.job_with("7").input, ..harness.keyed("k") };
    let other = NewJob { fingerprint: harness.job_with("7").fingerprint, ..other };
    let refused = harness.store().submit_and_claim(other, &harness.want(1)).await.unwrap_err();
    assert_eq!(refused, StoreError::KeyReused { existing: first.record.job.id });
}
