//! Leases: a renewal extends a lease, an expired lease is lost, and a lost lease cannot write.

use std::time::Duration;

use super::harness::{LEASE, StoreHarness, TICK, done, failed, json};
use crate::job::{JobId, Outcome, Record, Status, TenantId};
use crate::store::{Lease, LeaseRef, NewJob, Renewal, Store, StoreError};

async fn renew(store: &dyn Store, leases: &[&Lease]) -> Vec<Renewal> {
    store.renew(leases.iter().map(|lease| lease.to_ref()).collect(), LEASE).await.unwrap()
}

/// A worker that renews its lease in time keeps its job.
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

/// A renewal extends the lease from the time of the renewal, not from the previous expiry.
pub async fn renewal_extends_from_now(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.advance(Duration::from_secs(1));
    renew(&*harness.store(), &[&lease]).await;
    harness.advance_short_of(LEASE);
    assert!(harness.store().rescue(10).await.unwrap().is_empty());
    harness.advance(TICK * 2);
    assert_eq!(harness.store().rescue(10).await.unwrap().len(), 1);
}

/// A renewal reports a cancellation request to the worker.
pub async fn renewal_tells_of_a_cancel_request(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    let asked = Renewal::Kept { cancel_requested: true };
    assert_eq!(renew(&*harness.store(), &[&lease]).await, [asked]);
}

/// One call renews all leases of a replica and returns a result for each.
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

/// A lease on an unknown job is lost.
pub async fn lease_on_an_unknown_job_is_lost(harness: &StoreHarness) {
    let mut lease = harness.running().await;
    lease.job.id = harness.id();
    assert_eq!(renew(&*harness.store(), &[&lease]).await, [Renewal::Lost]);
    assert_eq!(harness.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.step(&lease, 0, "x", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.settle(&lease, done()).await, Err(StoreError::LeaseLost));
}

/// A lease with an epoch that was never issued is lost.
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

/// Returns the lease of a late worker, and the record that its writes must not change.
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

/// A worker whose lease expired must not take the job back from the next attempt.
pub async fn late_worker_cannot_renew(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    assert_eq!(renew(&*harness.store(), &[&late]).await, [Renewal::Lost]);
    assert_untouched(harness, &before).await;
}

/// A late renewal does not keep the current worker's lease alive either.
pub async fn late_renewal_does_not_extend_the_current_lease(harness: &StoreHarness) {
    let (late, current) = harness.superseded().await;
    harness.advance_short_of(LEASE);
    assert_eq!(renew(&*harness.store(), &[&late]).await, [Renewal::Lost]);
    harness.advance(TICK * 2);
    let rescued = harness.store().rescue(10).await.unwrap();
    assert_eq!(rescued.len(), 1);
    assert_eq!(harness.settle(&current, done()).await, Err(StoreError::LeaseLost));
}

/// Watchers must not see reports of a worker whose lease expired.
pub async fn late_worker_cannot_report(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    assert_eq!(harness.phase(&late, "late").await, Err(StoreError::LeaseLost));
    assert_untouched(harness, &before).await;
}

/// Steps of two attempts must not mix, not even if their outputs are equal.
pub async fn late_worker_cannot_checkpoint(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    for (position, step, output) in [(1, "parse", "2"), (0, "download", "9"), (0, "download", "1")]
    {
        let refused = harness.step(&late, position, step, output).await;
        assert_eq!(refused, Err(StoreError::LeaseLost), "{step} {output}");
    }
    assert_untouched(harness, &before).await;
}

/// A worker whose lease expired must not overwrite the next attempt.
pub async fn late_worker_cannot_settle(harness: &StoreHarness) {
    let (late, before) = late_worker(harness).await;
    for outcome in [done(), failed(), Outcome::Cancelled, Outcome::Released] {
        assert_eq!(harness.settle(&late, outcome).await, Err(StoreError::LeaseLost));
        assert_untouched(harness, &before).await;
    }
}

/// A lease is lost when its job is rescued, not only at the next claim.
pub async fn swept_worker_cannot_write(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.lose(&lease).await;
    let before = harness.record(lease.job.id).await;
    assert_eq!(renew(&*harness.store(), &[&lease]).await, [Renewal::Lost]);
    assert_eq!(harness.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(harness.step(&lease, 0, "x", "1").await, Err(StoreError::LeaseLost));
    // A settlement is rejected even if its outcome would lead to the same status.
    for outcome in [done(), failed(), Outcome::Cancelled, Outcome::Released] {
        assert_eq!(harness.settle(&lease, outcome).await, Err(StoreError::LeaseLost));
    }
    assert_eq!(harness.record(lease.job.id).await, before);
    assert!(harness.store().steps(&TenantId::default(), lease.job.id).await.unwrap().is_empty());
}

/// A job that another attempt finished stays finished.
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

/// A lost lease in a batch does not affect the other leases.
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

/// A rescued job returns to its queue, with the error.
pub async fn sweep_puts_back_what_was_lost(harness: &StoreHarness) {
    let lease = harness.running().await;
    let swept = harness.lose(&lease).await;
    assert_eq!((swept.status, swept.attempt), (Status::Pending, 1));
    assert_eq!(swept.error.as_ref().unwrap().code, "worker-lost");
    assert_eq!(swept, harness.record(lease.job.id).await.job);
    let again = harness.claim_one().await;
    assert_eq!((again.job.id, again.job.attempt), (lease.job.id, 2));
}

/// Jobs with valid leases are not rescued.
pub async fn sweep_leaves_live_leases_alone(harness: &StoreHarness) {
    let lease = harness.running().await;
    let before = harness.record(lease.job.id).await;
    harness.advance_short_of(LEASE);
    assert!(harness.store().rescue(10).await.unwrap().is_empty());
    assert_eq!(harness.record(lease.job.id).await, before);
}

/// A job that crashes its workers fails after its last attempt, with an error that gives the reason.
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

/// A job with a cancellation request does not start again after its worker died.
pub async fn sweep_cancels_what_was_asked_to_stop(harness: &StoreHarness) {
    let lease = harness.running().await;
    harness.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    assert_eq!(harness.lose(&lease).await.status, Status::Cancelled);
    assert!(harness.claim(10).await.is_empty());
}

/// A rescue is limited in size, and each attempt is ended once.
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

/// A rescue covers all tenants, and each job stays with its tenant.
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
