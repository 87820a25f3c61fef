//! A lease is a timed right: renewed it goes on, run out it is lost, and a lost one writes nothing.

use std::time::Duration;

use super::harness::{LEASE, StoreHarness, TICK, done, failed, json};
use crate::job::{JobId, Outcome, Record, Status, TenantId};
use crate::store::{Lease, LeaseRef, NewJob, Renewal, Store, StoreError};

async fn renew(store: &dyn Store, leases: &[&Lease]) -> Vec<Renewal> {
    store.renew(leases.iter().map(|lease| lease.to_ref()).collect(), LEASE).await.unwrap()
}

/// A worker that keeps renewing keeps its job.
pub async fn renewed_lease_goes_on(harness: &StoreHarness) {
    let lease = harness.running().await;
    for _ in 0..5 {
        harness.advance_short_of(LEASE);
        let kept = Renewal::Kept { cancel_requested: false };
        assert_eq!(renew(&*harness.store(), &[&lease]).await, [kept]);
        assert!(harness.store().rescue(10).await.unwrap().is_empty());
    }
    harness.settle(&lease, done()).await.unwrap();
}

/// A renewal counts from when it is made, not from when the lease would have ended.
pub async fn renewal_extends_from_now(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.advance(Duration::from_secs(1));
    renew(&*harness.store(), &[&lease]).await;
    harness.advance_short_of(LEASE);
    assert!(harness.store().rescue(10).await.unwrap().is_empty());
    harness.advance(TICK * 2);
    assert_eq!(harness.store().rescue(10).await.unwrap().len(), 1);
}

/// A renewal is how a worker learns that somebody wants the job to stop.
pub async fn renewal_tells_of_a_cancel_request(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    let asked = Renewal::Kept { cancel_requested: true };
    assert_eq!(renew(&*harness.store(), &[&lease]).await, [asked]);
}

/// One statement serves all jobs of a replica; each answer is for its own lease.
pub async fn renewals_are_answered_one_by_one_in_order(harness: &StoreHarness) {
    let (late, current) = harness.superseded().await;
    let asked = harness.running().await;
    harness.store().cancel(&TenantId::default(), asked.job.id).await.unwrap();
    let ended = harness.running().await;
    harness.settle(&ended, done()).await.unwrap();
    assert_eq!(
        renew(&*harness.store(), &[&late, &asked, &current, &ended]).await,
        [
            Renewal::Lost,
            Renewal::Kept { cancel_requested: true },
            Renewal::Kept { cancel_requested: false },
            Renewal::Lost,
        ]
    );
}

/// A worker that nobody knows holds nothing.
pub async fn lease_on_an_unknown_job_is_lost(harness: &StoreHarness) {
    let mut lease = harness.running().await;
    lease.job.id = harness.id();
    assert_eq!(renew(&*harness.store(), &[&lease]).await, [Renewal::Lost]);
    assert_eq!(harness.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.step(&lease, 0, "x", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.settle(&lease, done()).await, Err(StoreError::LeaseLost));
}

/// A fencing number that was never given out opens nothing.
pub async fn lease_with_an_epoch_from_the_future_is_lost(harness: &StoreHarness) {
    let lease = harness.running().await;
    let before = harness.record(lease.job.id).await;
    let forged = Lease { epoch: lease.epoch + 1, ..lease };
    assert_eq!(renew(&*harness.store(), &[&forged]).await, [Renewal::Lost]);
    assert_eq!(harness.phase(&forged, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.step(&forged, 0, "x", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.settle(&forged, done()).await, Err(StoreError::LeaseLost));
    assert_eq!(harness.record(before.job.id).await, before);
}

/// A late worker, and the record and steps that its write must leave alone.
async fn late_worker(harness: &StoreHarness) -> (Lease, Record) {
    let (late, current) = harness.superseded().await;
    harness.step(&current, 0, "download", "1").await.unwrap();
    (late, harness.record(current.job.id).await)
}

async fn assert_untouched(harness: &StoreHarness, before: &Record) {
    let id = before.job.id;
    assert_eq!(&harness.record(id).await, before);
    let steps = harness.store().steps(&TenantId::default(), id).await.unwrap();
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].output, json("1"));
}

/// A worker that slept through its lease must not take the job back from its successor.
pub async fn late_worker_cannot_renew(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    assert_eq!(renew(&*harness.store(), &[&late]).await, [Renewal::Lost]);
    assert_untouched(harness, &before).await;
}

/// Watchers must not see the words of a worker that was replaced.
pub async fn late_worker_cannot_report(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    assert_eq!(harness.phase(&late, "late").await, Err(StoreError::LeaseLost));
    assert_untouched(harness, &before).await;
}

/// Two workers must not mix their steps, not even if they agree on an output.
pub async fn late_worker_cannot_checkpoint(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    for (position, step, output) in [(1, "parse", "2"), (0, "download", "9"), (0, "download", "1")]
    {
        let refused = harness.step(&late, position, step, output).await;
        assert_eq!(refused, Err(StoreError::LeaseLost), "{step} {output}");
    }
    assert_untouched(harness, &before).await;
}

/// A worker that slept through its lease must not overwrite its successor.
pub async fn late_worker_cannot_settle(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    for outcome in [done(), failed(), Outcome::Cancelled, Outcome::Released] {
        assert_eq!(harness.settle(&late, outcome).await, Err(StoreError::LeaseLost));
        assert_untouched(harness, &before).await;
    }
}

/// The lease is lost with the sweep, not only with the next claim.
pub async fn swept_worker_cannot_write(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.lose(&lease).await;
    let before = harness.record(lease.job.id).await;
    assert_eq!(renew(&*harness.store(), &[&lease]).await, [Renewal::Lost]);
    assert_eq!(harness.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.step(&lease, 0, "x", "1").await, Err(StoreError::LeaseLost));
    // Its own end of the attempt is not what happened, even where it would have led to the same.
    for outcome in [done(), failed(), Outcome::Cancelled, Outcome::Released] {
        assert_eq!(harness.settle(&lease, outcome).await, Err(StoreError::LeaseLost));
    }
    assert_eq!(harness.record(lease.job.id).await, before);
    assert!(harness.store().steps(&TenantId::default(), lease.job.id).await.unwrap().is_empty());
}

/// A job that somebody else finished stays finished.
pub async fn late_worker_cannot_write_to_a_finished_job(harness: &StoreHarness) {
    let (late, current) = harness.superseded().await;
    harness.settle(&current, done()).await.unwrap();
    let before = harness.record(current.job.id).await;
    assert_eq!(renew(&*harness.store(), &[&late]).await, [Renewal::Lost]);
    assert_eq!(harness.phase(&late, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.step(&late, 0, "x", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.settle(&late, failed()).await, Err(StoreError::LeaseLost));
    assert_eq!(harness.record(current.job.id).await, before);
}

/// One late worker in a batch does not hold up the others.
pub async fn lost_lease_does_not_touch_the_others_of_its_batch(harness: &StoreHarness) {
    let (late, current) = harness.superseded().await;
    let other = harness.running().await;
    let batch = [&other, &late, &current].map(|lease| super::harness::settlement(lease, done()));
    let answers = harness.store().settle(batch.into()).await;
    let statuses: Vec<_> = answers.into_iter().map(|a| a.map(|settled| settled.status)).collect();
    assert_eq!(
        statuses,
        [Ok(Status::Completed), Err(StoreError::LeaseLost), Ok(Status::Completed)]
    );
}

/// A crashed worker's job is put back in line, with the reason.
pub async fn sweep_puts_back_what_was_lost(harness: &StoreHarness) {
    let lease = harness.running().await;
    let swept = harness.lose(&lease).await;
    assert_eq!((swept.status, swept.attempt), (Status::Pending, 1));
    assert_eq!(swept.error.as_ref().unwrap().code, "worker-lost");
    assert_eq!(swept, harness.record(lease.job.id).await.job);
    let again = harness.claim_one().await;
    assert_eq!((again.job.id, again.job.attempt), (lease.job.id, 2));
}

/// Live leases are left alone.
pub async fn sweep_leaves_live_leases_alone(harness: &StoreHarness) {
    let lease = harness.running().await;
    let before = harness.record(lease.job.id).await;
    harness.advance_short_of(LEASE);
    assert!(harness.store().rescue(10).await.unwrap().is_empty());
    assert_eq!(harness.record(lease.job.id).await, before);
}

/// A job that kills its worker fails in the end, with a reason that says so.
pub async fn job_that_kills_its_workers_fails_after_its_attempts(harness: &StoreHarness) {
    harness.accept(NewJob { max_attempts: 2, ..harness.job() }).await;
    let first = harness.claim_one().await;
    assert_eq!(harness.lose(&first).await.status, Status::Pending);
    let second = harness.claim_one().await;
    let swept = harness.lose(&second).await;
    assert_eq!((swept.status, swept.attempt), (Status::Failed, 2));
    let error = swept.error.unwrap();
    assert_eq!((error.code.as_str(), error.attempt), ("worker-lost", 2));
    assert!(error.message.contains("replica-1"), "{error}");
    assert!(harness.claim(10).await.is_empty());
}

/// A job that was asked to stop does not start again because its worker died.
pub async fn sweep_cancels_what_was_asked_to_stop(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    assert_eq!(harness.lose(&lease).await.status, Status::Cancelled);
    assert!(harness.claim(10).await.is_empty());
}

/// Sweeping is done in bites, and each job is ended once.
pub async fn sweep_respects_its_limit(harness: &StoreHarness) {
    harness.store().submit((0..5).map(|_| harness.job()).collect()).await;
    assert_eq!(harness.claim(5).await.len(), 5);
    harness.advance(LEASE + TICK);
    let mut swept: Vec<JobId> = Vec::new();
    for most in [2, 2, 1, 0] {
        let bite = harness.store().rescue(2).await.unwrap();
        assert_eq!(bite.len(), most);
        swept.extend(bite.iter().map(|job| job.id));
    }
    swept.sort_unstable();
    swept.dedup();
    assert_eq!(swept.len(), 5);
}

/// Leases of all tenants are swept, each job stays with its own.
pub async fn sweep_serves_all_tenants(harness: &StoreHarness) {
    let tenants = ["a", "b"].map(super::harness::tenant);
    for tenant in &tenants {
        harness.accept(harness.job_of(tenant)).await;
    }
    let leases = harness.claim(2).await;
    harness.advance(LEASE + TICK);
    let swept = harness.store().rescue(10).await.unwrap();
    assert_eq!(swept.len(), 2);
    for lease in leases {
        let LeaseRef { tenant, job, .. } = lease.to_ref();
        assert!(swept.iter().any(|swept| swept.tenant == tenant && swept.id == job));
    }
}
