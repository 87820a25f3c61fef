//! Kept for as long as was said, and no longer.

use std::time::Duration;

use super::bench::{Bench, TICK, done, failed_for_good};
use crate::job::{Outcome, Retention, TenantId};
use crate::store::{NewJob, StoreError};

const RETENTION: Retention =
    Retention { completed: Duration::from_secs(100), failed: Duration::from_secs(1_000) };

async fn expire(bench: &Bench) -> usize {
    bench.store().prune(100).await.unwrap()
}

/// Each end has its own time, and each job may bring its own.
pub async fn finished_job_is_kept_for_its_own_retention(bench: &Bench) {
    for (outcome, kept) in [
        (done(), RETENTION.completed),
        (failed_for_good(), RETENTION.failed),
        (Outcome::Cancelled, RETENTION.failed),
    ] {
        let lease = bench.running_as(NewJob { retention: RETENTION, ..bench.job() }).await;
        bench.settle(&lease, outcome).await.unwrap();
        let id = lease.job.id;
        assert_eq!(bench.record(id).await.job.expires_at, Some(bench.now().after(kept)));
        bench.advance_short_of(kept);
        assert_eq!(expire(bench).await, 0);
        bench.record(id).await;
        bench.advance(TICK * 2);
        assert_eq!(expire(bench).await, 1);
        assert_eq!(bench.try_record(id).await.unwrap_err(), StoreError::Gone);
    }
}

/// A job that was cancelled before it ran is kept like one that failed.
pub async fn job_cancelled_in_line_is_kept_too(bench: &Bench) {
    let id = bench.accept(NewJob { retention: RETENTION, ..bench.job() }).await.id;
    let job = bench.store().cancel(&TenantId::default(), id).await.unwrap();
    assert_eq!(job.expires_at, Some(bench.now().after(RETENTION.failed)));
    bench.advance(RETENTION.failed + TICK);
    assert_eq!(expire(bench).await, 1);
}

/// A job that has not ended is kept, however old it is.
pub async fn unfinished_job_never_expires(bench: &Bench) {
    let running = bench.running().await.job.id;
    let pending = bench.pending().await.id;
    bench.advance(Duration::from_hours(24 * 365));
    assert_eq!(expire(bench).await, 0);
    bench.record(running).await;
    bench.record(pending).await;
}

/// A job that goes on is not deleted by the clock of its old end.
pub async fn resumed_job_does_not_expire(bench: &Bench) {
    let lease = bench.running_as(NewJob { retention: RETENTION, ..bench.job() }).await;
    bench.settle(&lease, failed_for_good()).await.unwrap();
    bench.store().resume(&TenantId::default(), lease.job.id).await.unwrap();
    bench.advance(RETENTION.failed * 2);
    assert_eq!(expire(bench).await, 0);
    let lease = bench.claim_one().await;
    bench.settle(&lease, done()).await.unwrap();
    bench.advance(RETENTION.completed + TICK);
    assert_eq!(expire(bench).await, 1);
}

/// A fork is kept by the same rule as its parent, from its own end.
pub async fn fork_is_kept_as_long_as_its_parent_would_be(bench: &Bench) {
    let lease = bench.running_as(NewJob { retention: RETENTION, ..bench.job() }).await;
    let id = bench.id();
    bench.store().fork(&TenantId::default(), lease.job.id, id, None).await.unwrap();
    let fork = bench.claim_one().await;
    bench.settle(&fork, done()).await.unwrap();
    let expires_at = bench.now().after(RETENTION.completed);
    assert_eq!(bench.record(id).await.job.expires_at, Some(expires_at));
}

/// Deleting is done in bites.
pub async fn expire_respects_its_limit(bench: &Bench) {
    for _ in 0..5 {
        bench.ended(done()).await;
    }
    bench.advance(Retention::default().completed + TICK);
    for bite in [2, 2, 1, 0] {
        assert_eq!(bench.store().prune(2).await.unwrap(), bite);
    }
}

/// An id that nobody ever had is not "gone".
pub async fn unknown_job_is_not_found(bench: &Bench) {
    let (store, us, id) = (bench.store(), TenantId::default(), bench.id());
    assert_eq!(store.job(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.input(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.steps(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.cancel(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.resume(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.purge(&us, id).await.unwrap_err(), StoreError::NotFound);
}

/// Nothing of a deleted job is kept for good, not even that it was there.
pub async fn gone_job_is_forgotten_in_the_end(bench: &Bench) {
    let id = bench.ended(done()).await.id;
    bench.store().purge(&TenantId::default(), id).await.unwrap();
    expire(bench).await;
    assert_eq!(bench.try_record(id).await.unwrap_err(), StoreError::Gone);
    bench.advance(Duration::from_hours(24 * 366 * 10));
    expire(bench).await;
    assert_eq!(bench.try_record(id).await.unwrap_err(), StoreError::NotFound);
}
