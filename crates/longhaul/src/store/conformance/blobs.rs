//! Payloads, artifacts and work directories: readable while needed, and recorded as deleted afterwards.

use std::time::Duration;

use super::harness::{StoreHarness, TICK, done, failed, failed_for_good, settlement, tenant};
use crate::job::{JobId, Outcome, Status, TenantId};
use crate::store::{
    Blob, BlobRef, BlobRole, Deletion, Lease, NewBlob, NewJob, Settlement, StoreError, WrappedKey,
};

const KEPT: Duration = Duration::from_hours(1);

fn blob(name: &str) -> NewBlob {
    NewBlob {
        path: format!("default/{name}"),
        name: name.to_owned(),
        content_type: "application/zip".to_owned(),
        size: 1_000,
        digest: [7; 32],
        key: WrappedKey(vec![1, 2, 3]),
        replica: "replica-1".to_owned(),
    }
}

fn with_payload(harness: &StoreHarness, name: &str) -> NewJob {
    NewJob { payload: Some(blob(name)), ..harness.job() }
}

fn reference(job: JobId, path: &str) -> BlobRef {
    BlobRef { tenant: TenantId::default(), job, path: format!("default/{path}") }
}

async fn blobs(harness: &StoreHarness, id: JobId) -> Vec<Blob> {
    harness.store().blobs(&TenantId::default(), id).await.unwrap()
}

async fn only_blob(harness: &StoreHarness, id: JobId) -> Blob {
    let mut all = blobs(harness, id).await;
    assert_eq!(all.len(), 1, "one blob");
    all.remove(0)
}

async fn blobs_to_delete(harness: &StoreHarness) -> Vec<BlobRef> {
    harness.store().blobs_to_delete(100).await.unwrap()
}

async fn record_deletion(harness: &StoreHarness, blob: BlobRef, failure: Option<&str>) {
    let deletion = Deletion { blob, failure: failure.map(str::to_owned) };
    harness.store().record_deletions(vec![deletion], "replica-2").await.unwrap();
}

/// Returns a job that completed with one artifact.
async fn completed_with_artifact(harness: &StoreHarness) -> JobId {
    let lease = harness.running().await;
    let end = Settlement { artifacts: vec![blob("report")], ..settlement(&lease, done()) };
    harness.settle_as(end).await.unwrap();
    lease.job.id
}

/// The metadata of a payload is stored with its job, unchanged.
pub async fn payload_is_kept_with_its_job(harness: &StoreHarness) {
    let job = harness.accept(with_payload(harness, "p")).await;
    assert!(job.has_payload);
    let stored = only_blob(harness, job.id).await;
    let new = blob("p");
    assert_eq!(stored.role, BlobRole::Payload);
    assert_eq!((stored.path, stored.name), (new.path, new.name));
    assert_eq!((stored.content_type, stored.size), (new.content_type, new.size));
    assert_eq!((stored.digest, stored.key), (Some(new.digest), Some(new.key)));
    assert_eq!((stored.stored_at, stored.stored_by), (harness.now(), new.replica));
    assert_eq!((stored.key_destroyed_at, stored.deleted_at), (None, None));
    assert!(blobs_to_delete(harness).await.is_empty());
    let without = harness.pending().await;
    assert!(!without.has_payload && blobs(harness, without.id).await.is_empty());
}

/// The payload of a repeated submission with the same idempotency key is not recorded.
pub async fn known_key_keeps_the_first_payload(harness: &StoreHarness) {
    let keyed = |name| NewJob { payload: Some(blob(name)), ..harness.keyed("k") };
    let first = harness.accept(keyed("one")).await;
    let second = harness.submit(keyed("two")).await.unwrap();
    assert!(!second.created && second.record.job.id == first.id);
    assert_eq!(only_blob(harness, first.id).await.name, "one");
}

/// An attempt that does not finish the job leaves the payload to the next attempt.
pub async fn payload_stays_while_the_job_goes_on(harness: &StoreHarness) {
    let lease = harness.running_as(with_payload(harness, "p")).await;
    harness.settle(&lease, failed()).await.unwrap();
    let lease = harness.claim_one().await;
    harness.settle(&lease, Outcome::Released).await.unwrap();
    let lease = harness.claim_one().await;
    harness.lose(&lease).await;
    assert!(only_blob(harness, lease.job.id).await.key.is_some());
    assert!(blobs_to_delete(harness).await.is_empty());
}

async fn assert_unreadable(harness: &StoreHarness, id: JobId) {
    let stored = only_blob(harness, id).await;
    assert_eq!((stored.key, stored.key_destroyed_at), (None, Some(harness.now())));
    let blob = BlobRef { tenant: TenantId::default(), job: id, path: stored.path };
    assert_eq!(blobs_to_delete(harness).await, std::slice::from_ref(&blob));
    record_deletion(harness, blob, None).await;
}

/// The encryption key is destroyed in the transaction that finishes the job, for every outcome.
pub async fn payload_is_unreadable_from_the_end_on(harness: &StoreHarness) {
    for (number, outcome) in [done(), failed_for_good(), Outcome::Cancelled].into_iter().enumerate()
    {
        let lease = harness.running_as(with_payload(harness, &number.to_string())).await;
        harness.settle(&lease, outcome).await.unwrap();
        assert_unreadable(harness, lease.job.id).await;
    }
    let pending = harness.accept(with_payload(harness, "cancelled in line")).await;
    harness.store().cancel(&pending.tenant, pending.id).await.unwrap();
    assert_unreadable(harness, pending.id).await;
    let last_try = NewJob { max_attempts: 1, ..with_payload(harness, "lost") };
    let lease = harness.running_as(last_try).await;
    assert_eq!(harness.lose(&lease).await.status, Status::Failed);
    assert_unreadable(harness, lease.job.id).await;
}

/// A job without its payload cannot run again.
pub async fn job_whose_payload_is_gone_is_neither_resumed_nor_forked(harness: &StoreHarness) {
    let lease = harness.running_as(with_payload(harness, "p")).await;
    let Lease { job, .. } = &lease;
    harness.settle(&lease, failed_for_good()).await.unwrap();
    let resumed = harness.store().resume(&job.tenant, job.id).await;
    assert_eq!(resumed.unwrap_err(), StoreError::PayloadPurged);
    let forked = harness.store().fork(&job.tenant, job.id, harness.id(), None).await;
    assert_eq!(forked.unwrap_err(), StoreError::PayloadPurged);
    assert_eq!(harness.record(job.id).await.job.status, Status::Failed);
}

/// An unclaimed payload is not stored forever: the job fails when the payload expires.
pub async fn payload_that_nobody_claims_fails_its_job(harness: &StoreHarness) {
    let unclaimed = harness.accept(with_payload(harness, "unclaimed")).await;
    let plain = harness.pending().await;
    harness.advance_short_of(KEPT);
    assert!(harness.store().expire_payloads(KEPT, 10).await.unwrap().is_empty());
    harness.advance(TICK * 2);
    let failed = harness.store().expire_payloads(KEPT, 10).await.unwrap();
    assert_eq!(failed.iter().map(|job| job.id).collect::<Vec<_>>(), [unclaimed.id]);
    let job = harness.record(unclaimed.id).await.job;
    assert_eq!((job.status, job.error.unwrap().code.as_str()), (Status::Failed, "payload-expired"));
    assert_unreadable(harness, unclaimed.id).await;
    assert_eq!(harness.claim_one().await.job.id, plain.id, "the failed job is not claimed");
    assert!(harness.store().expire_payloads(KEPT, 10).await.unwrap().is_empty());
}

/// A claimed job may use its payload for as long as it needs, also between attempts.
pub async fn payload_of_a_claimed_job_does_not_expire(harness: &StoreHarness) {
    let lease = harness.running_as(with_payload(harness, "p")).await;
    harness.settle(&lease, failed()).await.unwrap();
    harness.advance(KEPT * 2);
    assert!(harness.store().expire_payloads(KEPT, 10).await.unwrap().is_empty());
    assert!(only_blob(harness, lease.job.id).await.key.is_some());
}

/// Artifacts are visible with the result, neither earlier nor without it.
pub async fn artifacts_come_with_completion(harness: &StoreHarness) {
    let id = completed_with_artifact(harness).await;
    let shown = harness.record(id).await.job.artifacts;
    assert_eq!(shown, [blob("report").to_artifact()]);
    let stored = only_blob(harness, id).await;
    assert_eq!((stored.role, stored.key), (BlobRole::Artifact, Some(blob("report").key)));
    assert!(blobs_to_delete(harness).await.is_empty(), "kept as long as the job");
    let lease = harness.running().await;
    let end = Settlement { artifacts: vec![blob("half")], ..settlement(&lease, failed_for_good()) };
    harness.settle_as(end).await.unwrap();
    assert!(harness.record(lease.job.id).await.job.artifacts.is_empty());
    assert!(blobs(harness, lease.job.id).await.is_empty());
}

/// A repeated settlement stores its artifacts once.
pub async fn artifacts_of_a_repeated_settlement_are_stored_once(harness: &StoreHarness) {
    let lease = harness.running_as(with_payload(harness, "p")).await;
    let end = Settlement { artifacts: vec![blob("report")], ..settlement(&lease, done()) };
    harness.settle_as(end.clone()).await.unwrap();
    harness.settle_as(end).await.unwrap();
    assert_eq!(blobs(harness, lease.job.id).await.len(), 2);
}

/// Artifacts are deleted with their job, and the record of the deletion outlives the job.
pub async fn artifacts_go_with_their_job(harness: &StoreHarness) {
    let purged = completed_with_artifact(harness).await;
    harness.store().purge(&TenantId::default(), purged).await.unwrap();
    assert_unreadable(harness, purged).await;
    let expired = completed_with_artifact(harness).await;
    harness.advance(Duration::from_hours(25));
    assert_eq!(harness.store().prune(10).await.unwrap(), 1);
    assert_unreadable(harness, expired).await;
    let receipt = only_blob(harness, purged).await;
    assert!(receipt.deleted_at.is_some());
    assert_eq!(receipt.deleted_by.as_deref(), Some("replica-2"));
}

/// A failed deletion is retried with increasing delays until it succeeds.
pub async fn failed_deletion_is_tried_again(harness: &StoreHarness) {
    let lease = harness.running_as(with_payload(harness, "p")).await;
    harness.settle(&lease, done()).await.unwrap();
    let this = reference(lease.job.id, "p");
    for (failures, seconds) in [(1, 5), (2, 10), (3, 20)] {
        assert_eq!(blobs_to_delete(harness).await, std::slice::from_ref(&this));
        record_deletion(harness, this.clone(), Some("no route")).await;
        let stored = only_blob(harness, lease.job.id).await;
        assert_eq!((stored.failures, stored.failure.as_deref()), (failures, Some("no route")));
        assert!(blobs_to_delete(harness).await.is_empty(), "not retried immediately");
        harness.advance(Duration::from_secs(seconds));
    }
    record_deletion(harness, this, None).await;
    let stored = only_blob(harness, lease.job.id).await;
    assert_eq!(stored.deleted_at, Some(harness.now()));
    harness.advance(Duration::from_hours(1));
    assert!(blobs_to_delete(harness).await.is_empty());
}

/// Only blobs that no job references are orphans.
pub async fn strays_are_what_no_job_knows(harness: &StoreHarness) {
    let ended = completed_with_artifact(harness).await;
    let pending = harness.accept(with_payload(harness, "p")).await.id;
    let never = harness.id();
    let all = vec![
        reference(pending, "p"),
        // The job has not finished, so it may be about to record this blob.
        reference(pending, "soon"),
        reference(ended, "report"),
        reference(ended, "left over"),
        reference(never, "orphan"),
    ];
    let mut strays = harness.store().orphan_blobs(all).await.unwrap();
    strays.sort();
    let mut expected = [reference(ended, "left over"), reference(never, "orphan")];
    expected.sort();
    assert_eq!(strays, expected);
    assert!(harness.store().orphan_blobs(Vec::new()).await.unwrap().is_empty());
}

/// A work directory with an unencrypted payload is recorded before it is used, until it is deleted.
pub async fn folders_are_on_record(harness: &StoreHarness) {
    let lease = harness.running_as(with_payload(harness, "p")).await;
    let path = "host-a:/work/1";
    for _ in 0..2 {
        harness.store().record_work_dir(&lease.to_ref(), path, "replica-1").await.unwrap();
    }
    let folders = harness.store().work_dirs("host-a", 10).await.unwrap();
    let this = BlobRef { tenant: TenantId::default(), job: lease.job.id, path: path.to_owned() };
    assert_eq!(folders, std::slice::from_ref(&this));
    assert!(harness.store().work_dirs("host", 10).await.unwrap().is_empty());
    harness.settle(&lease, done()).await.unwrap();
    let late =
        harness.store().record_work_dir(&lease.to_ref(), "host-a:/work/2", "replica-1").await;
    assert_eq!(late.unwrap_err(), StoreError::LeaseLost);
    record_deletion(harness, this, None).await;
    assert!(harness.store().work_dirs("host-a", 10).await.unwrap().is_empty());
    let folder =
        blobs(harness, lease.job.id).await.into_iter().find(|one| one.path == path).unwrap();
    assert_eq!((folder.role, folder.deleted_at), (BlobRole::Folder, Some(harness.now())));
    assert_eq!((folder.digest, folder.key_destroyed_at), (None, None));
}

/// A blob counts towards stored bytes until it is deleted.
pub async fn stored_bytes_are_counted_by_tenant(harness: &StoreHarness) {
    let bytes = async || harness.store().blob_bytes(&TenantId::default()).await.unwrap();
    assert_eq!(bytes().await, 0);
    let lease = harness.running_as(with_payload(harness, "p")).await;
    completed_with_artifact(harness).await;
    assert_eq!(bytes().await, 2_000);
    harness.settle(&lease, done()).await.unwrap();
    assert_eq!(bytes().await, 2_000, "unreadable, but not deleted yet");
    record_deletion(harness, reference(lease.job.id, "p"), None).await;
    assert_eq!(bytes().await, 1_000);
    assert_eq!(harness.store().blob_bytes(&tenant("other")).await.unwrap(), 0);
}

/// A tenant cannot read the blob records of another tenant.
pub async fn blobs_are_their_tenants_own(harness: &StoreHarness) {
    let id = harness.accept(with_payload(harness, "p")).await.id;
    assert!(harness.store().blobs(&tenant("other"), id).await.unwrap().is_empty());
}
