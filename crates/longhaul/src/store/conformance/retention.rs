//! Retention of finished jobs.

use std::time::Duration;

use super::harness::{StoreHarness, TICK, done, failed_for_good};
use crate::job::{Outcome, Retention, TenantId};
use crate::store::{NewJob, StoreError};

const RETENTION: Retention =
    Retention { completed: Duration::from_secs(100), failed: Duration::from_secs(1_000) };

async fn expire(harness: &StoreHarness) -> usize {
    harness.store().prune(100).await.unwrap()
}

/// Retention depends on the status, and each job may have its own.
pub async fn finished_job_is_kept_for_its_own_retention(harness: &StoreHarness) {
    for (outcome, kept) in [
        (done(), RETENTION.completed),
        (failed_for_good(), RETENTION.failed),
        (Outcome::Cancelled, RETENTION.failed),
    ] {
        let lease = harness.running_as(NewJob { retention: RETENTION, ..harness.job() }).await;
        harness.settle(&lease, outcome).await.unwrap();
        let id = lease.job.id;
        assert_eq!(harness.record(id).await.job.expires_at, Some(harness.now().after(kept)));
        harness.advance_short_of(kept);
        assert_eq!(expire(harness).await, 0);
        harness.record(id).await;
        harness.advance(TICK * 2);
        assert_eq!(expire(harness).await, 1);
        assert_eq!(harness.try_record(id).await.unwrap_err(), StoreError::Gone);
    }
}

/// A job that was cancelled before it ran is kept as long as a failed one.
pub async fn job_cancelled_in_line_is_kept_too(harness: &StoreHarness) {
    let id = harness.accept(NewJob { retention: RETENTION, ..harness.job() }).await.id;
    let job = harness.store().cancel(&TenantId::default(), id).await.unwrap();
    assert_eq!(job.expires_at, Some(harness.now().after(RETENTION.failed)));
    harness.advance(RETENTION.failed + TICK);
    assert_eq!(expire(harness).await, 1);
}

/// A job that has not finished never expires.
pub async fn unfinished_job_never_expires(harness: &StoreHarness) {
    let running = harness.running().await.job.id;
    let pending = harness.pending().await.id;
    harness.advance(Duration::from_hours(24 * 365));
    assert_eq!(expire(harness).await, 0);
    harness.record(running).await;
    harness.record(pending).await;
}

/// A resume clears the expiry.
pub async fn resumed_job_does_not_expire(harness: &StoreHarness) {
    let lease = harness.running_as(NewJob { retention: RETENTION, ..harness.job() }).await;
    harness.settle(&lease, failed_for_good()).await.unwrap();
    harness.store().resume(&TenantId::default(), lease.job.id).await.unwrap();
    harness.advance(RETENTION.failed * 2);
    assert_eq!(expire(harness).await, 0);
    let lease = harness.claim_one().await;
    harness.settle(&lease, done()).await.unwrap();
    harness.advance(RETENTION.completed + TICK);
    assert_eq!(expire(harness).await, 1);
}

/// A fork has the retention of its parent, from its own end.
pub async fn fork_is_kept_as_long_as_its_parent_would_be(harness: &StoreHarness) {
    let lease = harness.running_as(NewJob { retention: RETENTION, ..harness.job() }).await;
    let id = harness.id();
    harness.store().fork(&TenantId::default(), lease.job.id, id, None).await.unwrap();
    let fork = harness.claim_one().await;
    harness.settle(&fork, done()).await.unwrap();
    let expires_at = harness.now().after(RETENTION.completed);
    assert_eq!(harness.record(id).await.job.expires_at, Some(expires_at));
}

/// One call deletes at most as many jobs as requested.
pub async fn expire_respects_its_limit(harness: &StoreHarness) {
    for _ in 0..5 {
        harness.ended(done()).await;
    }
    harness.advance(Retention::default().completed + TICK);
    for bite in [2, 2, 1, 0] {
        assert_eq!(harness.store().prune(2).await.unwrap(), bite);
    }
}

/// An id that never existed is reported as not found, not as gone.
pub async fn unknown_job_is_not_found(harness: &StoreHarness) {
    let (store, us, id) = (harness.store(), TenantId::default(), harness.id());
    assert_eq!(store.job(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.input(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.steps(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.cancel(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.resume(&us, id).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(store.purge(&us, id).await.unwrap_err(), StoreError::NotFound);
}

/// The id of a deleted job is also deleted in the end.
pub async fn gone_job_is_forgotten_in_the_end(harness: &StoreHarness) {
    let id = harness.ended(done()).await.id;
    harness.store().purge(&TenantId::default(), id).await.unwrap();
    expire(harness).await;
    assert_eq!(harness.try_record(id).await.unwrap_err(), StoreError::Gone);
    harness.advance(Duration::from_hours(24 * 366 * 10));
    expire(harness).await;
    assert_eq!(harness.try_record(id).await.unwrap_err(), StoreError::NotFound);
}
