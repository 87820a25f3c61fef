//! Versions of jobs, which watchers poll for changes by other replicas.

use super::harness::{StoreHarness, done, tenant};
use crate::job::{JobId, Outcome, Status, TenantId};
use crate::store::JobVersion;

async fn versions(harness: &StoreHarness, ids: &[JobId]) -> Vec<Option<JobVersion>> {
    let asked: Vec<_> = ids.iter().map(|id| (TenantId::default(), *id)).collect();
    harness.store().versions(&asked).await.unwrap()
}

/// The version changes with every change of the job.
pub async fn glimpse_shows_version_and_status(harness: &StoreHarness) {
    let id = harness.pending().await.id;
    let seen = async || versions(harness, &[id]).await.remove(0).unwrap();
    let shown = |version, status| JobVersion { version, status, cancel_requested: false };
    assert_eq!(seen().await, shown(1, Status::Pending));
    let lease = harness.claim_one().await;
    assert_eq!(seen().await, shown(2, Status::Running));
    harness.phase(&lease, "reading").await.unwrap();
    assert_eq!(seen().await, shown(3, Status::Running));
    harness.settle(&lease, done()).await.unwrap();
    let record = harness.record(id).await;
    assert_eq!(seen().await, shown(record.job.version, Status::Completed));
}

/// A running job's version shows that its cancellation was requested, until the attempt ends.
pub async fn glimpse_shows_the_request_to_stop(harness: &StoreHarness) {
    let lease = harness.running().await;
    let other = harness.running().await;
    let us = TenantId::default();
    harness.store().cancel(&us, lease.job.id).await.unwrap();
    let requested = async || -> Vec<bool> {
        let seen = versions(harness, &[lease.job.id, other.job.id]).await;
        seen.into_iter().map(|seen| seen.unwrap().cancel_requested).collect()
    };
    assert_eq!(requested().await, [true, false]);
    harness.settle(&lease, Outcome::Cancelled).await.unwrap();
    assert_eq!(requested().await, [false, false]);
    harness.store().resume(&us, lease.job.id).await.unwrap();
    assert_eq!(requested().await, [false, false]);
    harness.claim_one().await;
    assert_eq!(requested().await, [false, false]);
}

/// Unknown and deleted jobs have no version, and do not affect the other results.
pub async fn glimpse_of_a_job_that_is_not_there_is_none(harness: &StoreHarness) {
    let gone = harness.ended(done()).await.id;
    harness.store().purge(&TenantId::default(), gone).await.unwrap();
    let there = harness.pending().await.id;
    let seen = versions(harness, &[harness.id(), there, gone]).await;
    assert_eq!(seen.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
}

/// Another tenant's job has no version.
pub async fn other_tenants_jobs_are_not_glimpsed(harness: &StoreHarness) {
    let (us, other) = (TenantId::default(), tenant("other"));
    let ours = harness.pending().await.id;
    let theirs = harness.accept(harness.job_of(&other)).await.id;
    let asked = [(us.clone(), theirs), (other.clone(), ours), (us, ours), (other, theirs)];
    let seen = harness.store().versions(&asked).await.unwrap();
    assert_eq!(seen.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, true]);
}

/// Results are in the order of the request, even if a job is requested twice.
pub async fn glimpses_come_in_the_order_asked(harness: &StoreHarness) {
    let first = harness.running().await.job.id;
    let second = harness.pending().await.id;
    let versions = async |ids: &[JobId]| -> Vec<u64> {
        versions(harness, ids).await.into_iter().map(|seen| seen.unwrap().version).collect()
    };
    assert_eq!(versions(&[first, second]).await, [2, 1]);
    assert_eq!(versions(&[second, first, second]).await, [1, 2, 1]);
    let many: Vec<JobId> = [second, first].into_iter().cycle().take(1_000).collect();
    assert_eq!(versions(&many).await, [1, 2].repeat(500));
}

/// An empty request returns no results, because the last watcher may leave between two polls.
pub async fn glimpse_of_nothing_is_fine(harness: &StoreHarness) {
    harness.pending().await;
    assert!(versions(harness, &[]).await.is_empty());
}
