//! A lease is a timed right: renewed it goes on, run out it is lost, and a lost one writes nothing.

use std::time::Duration;

use super::bench::{Bench, LEASE, TICK, done, failed, json};
use crate::job::{JobId, Outcome, Record, Status, TenantId};
use crate::store::{Lease, LeaseRef, NewJob, Renewal, Store, StoreError};

async fn renew(store: &dyn Store, leases: &[&Lease]) -> Vec<Renewal> {
    store.renew(leases.iter().map(|lease| lease.to_ref()).collect(), LEASE).await.unwrap()
}

/// A worker that keeps renewing keeps its job.
pub async fn renewed_lease_goes_on(bench: &Bench) {
    let lease = bench.running().await;
    for _ in 0..5 {
        bench.advance_short_of(LEASE);
        let kept = Renewal::Kept { cancel_requested: false };
        assert_eq!(renew(&*bench.store(), &[&lease]).await, [kept]);
        assert!(bench.store().rescue(10).await.unwrap().is_empty());
    }
    bench.settle(&lease, done()).await.unwrap();
}

/// A renewal counts from when it is made, not from when the lease would have ended.
pub async fn renewal_extends_from_now(bench: &Bench) {
    let lease = bench.running().await;
    bench.advance(Duration::from_secs(1));
    renew(&*bench.store(), &[&lease]).await;
    bench.advance_short_of(LEASE);
    assert!(bench.store().rescue(10).await.unwrap().is_empty());
    bench.advance(TICK * 2);
    assert_eq!(bench.store().rescue(10).await.unwrap().len(), 1);
}

/// A renewal is how a worker learns that somebody wants the job to stop.
pub async fn renewal_tells_of_a_cancel_request(bench: &Bench) {
    let lease = bench.running().await;
    bench.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    let asked = Renewal::Kept { cancel_requested: true };
    assert_eq!(renew(&*bench.store(), &[&lease]).await, [asked]);
}

/// One statement serves all jobs of a replica; each answer is for its own lease.
pub async fn renewals_are_answered_one_by_one_in_order(bench: &Bench) {
    let (late, current) = bench.superseded().await;
    let asked = bench.running().await;
    bench.store().cancel(&TenantId::default(), asked.job.id).await.unwrap();
    let ended = bench.running().await;
    bench.settle(&ended, done()).await.unwrap();
    assert_eq!(
        renew(&*bench.store(), &[&late, &asked, &current, &ended]).await,
        [
            Renewal::Lost,
            Renewal::Kept { cancel_requested: true },
            Renewal::Kept { cancel_requested: false },
            Renewal::Lost,
        ]
    );
}

/// A worker that nobody knows holds nothing.
pub async fn lease_on_an_unknown_job_is_lost(bench: &Bench) {
    let mut lease = bench.running().await;
    lease.job.id = bench.id();
    assert_eq!(renew(&*bench.store(), &[&lease]).await, [Renewal::Lost]);
    assert_eq!(bench.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.step(&lease, 0, "x", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.settle(&lease, done()).await, Err(StoreError::LeaseLost));
}

/// A fencing number that was never given out opens nothing.
pub async fn lease_with_an_epoch_from_the_future_is_lost(bench: &Bench) {
    let lease = bench.running().await;
    let before = bench.record(lease.job.id).await;
    let forged = Lease { epoch: lease.epoch + 1, ..lease };
    assert_eq!(renew(&*bench.store(), &[&forged]).await, [Renewal::Lost]);
    assert_eq!(bench.phase(&forged, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.step(&forged, 0, "x", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.settle(&forged, done()).await, Err(StoreError::LeaseLost));
    assert_eq!(bench.record(before.job.id).await, before);
}

/// A late worker, and the record and steps that its write must leave alone.
async fn late_worker(bench: &Bench) -> (Lease, Record) {
    let (late, current) = bench.superseded().await;
    bench.step(&current, 0, "download", "1").await.unwrap();
    (late, bench.record(current.job.id).await)
}

async fn assert_untouched(bench: &Bench, before: &Record) {
    let id = before.job.id;
    assert_eq!(&bench.record(id).await, before);
    let steps = bench.store().steps(&TenantId::default(), id).await.unwrap();
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].output, json("1"));
}

/// A worker that slept through its lease must not take the job back from its successor.
pub async fn late_worker_cannot_renew(bench: &Bench) {
    let (late, before) = late_worker(bench).await;
    assert_eq!(renew(&*bench.store(), &[&late]).await, [Renewal::Lost]);
    assert_untouched(bench, &before).await;
}

/// Watchers must not see the words of a worker that was replaced.
pub async fn late_worker_cannot_report(bench: &Bench) {
    let (late, before) = late_worker(bench).await;
    assert_eq!(bench.phase(&late, "late").await, Err(StoreError::LeaseLost));
    assert_untouched(bench, &before).await;
}

/// Two workers must not mix their steps, not even if they agree on an output.
pub async fn late_worker_cannot_checkpoint(bench: &Bench) {
    let (late, before) = late_worker(bench).await;
    for (position, step, output) in [(1, "parse", "2"), (0, "download", "9"), (0, "download", "1")]
    {
        let refused = bench.step(&late, position, step, output).await;
        assert_eq!(refused, Err(StoreError::LeaseLost), "{step} {output}");
    }
    assert_untouched(bench, &before).await;
}

/// A worker that slept through its lease must not overwrite its successor.
pub async fn late_worker_cannot_settle(bench: &Bench) {
    let (late, before) = late_worker(bench).await;
    for outcome in [done(), failed(), Outcome::Cancelled, Outcome::Released] {
        assert_eq!(bench.settle(&late, outcome).await, Err(StoreError::LeaseLost));
        assert_untouched(bench, &before).await;
    }
}

/// The lease is lost with the sweep, not only with the next claim.
pub async fn swept_worker_cannot_write(bench: &Bench) {
    let lease = bench.running().await;
    bench.lose(&lease).await;
    let before = bench.record(lease.job.id).await;
    assert_eq!(renew(&*bench.store(), &[&lease]).await, [Renewal::Lost]);
    assert_eq!(bench.phase(&lease, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.step(&lease, 0, "x", "1").await, Err(StoreError::LeaseLost));
    // Its own end of the attempt is not what happened, even where it would have led to the same.
    for outcome in [done(), failed(), Outcome::Cancelled, Outcome::Released] {
        assert_eq!(bench.settle(&lease, outcome).await, Err(StoreError::LeaseLost));
    }
    assert_eq!(bench.record(lease.job.id).await, before);
    assert!(bench.store().steps(&TenantId::default(), lease.job.id).await.unwrap().is_empty());
}

/// A job that somebody else finished stays finished.
pub async fn late_worker_cannot_write_to_a_finished_job(bench: &Bench) {
    let (late, current) = bench.superseded().await;
    bench.settle(&current, done()).await.unwrap();
    let before = bench.record(current.job.id).await;
    assert_eq!(renew(&*bench.store(), &[&late]).await, [Renewal::Lost]);
    assert_eq!(bench.phase(&late, "x").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.step(&late, 0, "x", "1").await, Err(StoreError::LeaseLost));
    assert_eq!(bench.settle(&late, failed()).await, Err(StoreError::LeaseLost));
    assert_eq!(bench.record(current.job.id).await, before);
}

/// One late worker in a batch does not hold up the others.
pub async fn lost_lease_does_not_touch_the_others_of_its_batch(bench: &Bench) {
    let (late, current) = bench.superseded().await;
    let other = bench.running().await;
    let batch = [&other, &late, &current].map(|lease| super::bench::settlement(lease, done()));
    let answers = bench.store().settle(batch.into()).await;
    let statuses: Vec<_> = answers.into_iter().map(|a| a.map(|settled| settled.status)).collect();
    assert_eq!(
        statuses,
        [Ok(Status::Completed), Err(StoreError::LeaseLost), Ok(Status::Completed)]
    );
}

/// A crashed worker's job is put back in line, with the reason.
pub async fn sweep_puts_back_what_was_lost(bench: &Bench) {
    let lease = bench.running().await;
    let swept = bench.lose(&lease).await;
    assert_eq!((swept.status, swept.attempt), (Status::Pending, 1));
    assert_eq!(swept.error.as_ref().unwrap().code, "worker-lost");
    assert_eq!(swept, bench.record(lease.job.id).await.job);
    let again = bench.claim_one().await;
    assert_eq!((again.job.id, again.job.attempt), (lease.job.id, 2));
}

/// Live leases are left alone.
pub async fn sweep_leaves_live_leases_alone(bench: &Bench) {
    let lease = bench.running().await;
    let before = bench.record(lease.job.id).await;
    bench.advance_short_of(LEASE);
    assert!(bench.store().rescue(10).await.unwrap().is_empty());
    assert_eq!(bench.record(lease.job.id).await, before);
}

/// A job that kills its worker fails in the end, with a reason that says so.
pub async fn job_that_kills_its_workers_fails_after_its_attempts(bench: &Bench) {
    bench.accept(NewJob { max_attempts: 2, ..bench.job() }).await;
    let first = bench.claim_one().await;
    assert_eq!(bench.lose(&first).await.status, Status::Pending);
    let second = bench.claim_one().await;
    let swept = bench.lose(&second).await;
    assert_eq!((swept.status, swept.attempt), (Status::Failed, 2));
    let error = swept.error.unwrap();
    assert_eq!((error.code.as_str(), error.attempt), ("worker-lost", 2));
    assert!(error.message.contains("replica-1"), "{error}");
    assert!(bench.claim(10).await.is_empty());
}

/// A job that was asked to stop does not start again because its worker died.
pub async fn sweep_cancels_what_was_asked_to_stop(bench: &Bench) {
    let lease = bench.running().await;
    bench.store().cancel(&TenantId::default(), lease.job.id).await.unwrap();
    assert_eq!(bench.lose(&lease).await.status, Status::Cancelled);
    assert!(bench.claim(10).await.is_empty());
}

/// Sweeping is done in bites, and each job is ended once.
pub async fn sweep_respects_its_limit(bench: &Bench) {
    bench.store().submit((0..5).map(|_| bench.job()).collect()).await;
    assert_eq!(bench.claim(5).await.len(), 5);
    bench.advance(LEASE + TICK);
    let mut swept: Vec<JobId> = Vec::new();
    for most in [2, 2, 1, 0] {
        let bite = bench.store().rescue(2).await.unwrap();
        assert_eq!(bite.len(), most);
        swept.extend(bite.iter().map(|job| job.id));
    }
    swept.sort_unstable();
    swept.dedup();
    assert_eq!(swept.len(), 5);
}

/// Leases of all tenants are swept, each job stays with its own.
pub async fn sweep_serves_all_tenants(bench: &Bench) {
    let tenants = ["a", "b"].map(super::bench::tenant);
    for tenant in &tenants {
        bench.accept(bench.job_of(tenant)).await;
    }
    let leases = bench.claim(2).await;
    bench.advance(LEASE + TICK);
    let swept = bench.store().rescue(10).await.unwrap();
    assert_eq!(swept.len(), 2);
    for lease in leases {
        let LeaseRef { tenant, job, .. } = lease.to_ref();
        assert!(swept.iter().any(|swept| swept.tenant == tenant && swept.id == job));
    }
}
