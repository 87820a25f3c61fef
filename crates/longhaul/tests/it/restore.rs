//! Stores that were restored from a backup, while workers of the original go on.

use std::time::Duration;

use longhaul::Clock;
use longhaul::job::{JobId, Status, TenantId, Timestamp};
use longhaul::store::conformance::{LEASE, StoreHarness, done, failed_for_good};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::{self, Snapshot, SqliteStore};
use longhaul::store::{Lease, NewBlob, NewJob, Renewal, StoreError, WrappedKey};

use crate::postgres::TestDatabase;

/// The jobs of a backup.
struct BackedUpJobs {
    pending: JobId,
    failed: JobId,
    /// One with a finished step, one without.
    running: Vec<Lease>,
}

impl BackedUpJobs {
    async fn submit(original: &StoreHarness) -> Self {
        let failed = original.ended(failed_for_good()).await.id;
        let with_step = original.running().await;
        original.step(&with_step, 0, "download", "1").await.unwrap();
        let running = vec![with_step, original.running().await];
        Self { pending: original.pending().await.id, failed, running }
    }

    /// Checks that no worker of `original` can write to `restored`, and that all jobs can be completed there.
    async fn assert_fenced(self, original: &StoreHarness, restored: &StoreHarness) {
        let home = TenantId::default();
        assert!(restored.store().rescue(10).await.unwrap().is_empty(), "no lease is left");
        for lease in &self.running {
            let job = restored.record(lease.job.id).await.job;
            assert_eq!((job.status, job.attempt), (Status::Pending, 1));
        }
        // Both continue with the same jobs.
        original.store().resume(&home, self.failed).await.unwrap();
        restored.store().resume(&home, self.failed).await.unwrap();
        let mut old_leases = original.claim(10).await;
        let old_ids: Vec<JobId> = old_leases.iter().map(|lease| lease.job.id).collect();
        assert_eq!(old_leases.len(), 2, "{old_ids:?}");
        assert!(old_ids.contains(&self.pending) && old_ids.contains(&self.failed));
        old_leases.extend(self.running);
        let leases = restored.claim(10).await;
        assert_eq!(leases.len(), old_leases.len());

        for old in &old_leases {
            let id = old.job.id;
            let record = restored.record(id).await;
            assert_eq!(record.job.status, Status::Running);
            let renewed = restored.store().renew(vec![old.to_ref()], LEASE).await.unwrap();
            assert_eq!(renewed, [Renewal::Lost]);
            assert_eq!(restored.phase(old, "late").await, Err(StoreError::LeaseLost));
            assert_eq!(restored.step(old, 1, "late", "1").await, Err(StoreError::LeaseLost));
            assert_eq!(restored.settle(old, done()).await, Err(StoreError::LeaseLost));
            assert_eq!(restored.record(id).await, record);
        }
        for lease in &leases {
            let is_failed = lease.job.id == self.failed;
            assert_eq!(
                lease.job.attempt,
                if is_failed { 2 } else { 1 },
                "releases are not charged"
            );
            let is_repeated = old_leases[2].job.id == lease.job.id && lease.steps.is_empty();
            assert!(!is_repeated, "finished steps are kept");
            restored.settle(lease, done()).await.unwrap();
            assert_eq!(restored.record(lease.job.id).await.job.status, Status::Completed);
        }
        // The attempts of dead workers are metered up to the end of their leases, not up to the restore.
        let rows = restored.store().usage(&home, Timestamp::from_millis(0), Timestamp::MAX).await;
        let run_ms: u64 = rows.unwrap().iter().map(|row| row.usage.run_ms).sum();
        assert_eq!(Duration::from_millis(run_ms), LEASE * 2);
    }
}

#[tokio::test]
async fn worker_from_before_a_restore_of_sqlite_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("jobs.db"), folder.path().join("restored.db"));
    let clock = StoreHarness::clock();
    let open = |path, clock: &Clock| {
        let store = SqliteStore::open(path, clock.clone()).unwrap();
        StoreHarness::new(store, clock.clone())
    };
    let original = open(&path, &clock);
    let jobs = BackedUpJobs::submit(&original).await;
    Snapshot::open(&path).unwrap().copy_to(&copy, |_| {}).unwrap();
    clock.advance(Duration::from_hours(1));
    assert_eq!(sqlite::fence(&copy, &clock).unwrap(), 2);
    jobs.assert_fenced(&original, &open(&copy, &clock)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_from_before_a_restore_of_postgres_writes_nothing() {
    let database = TestDatabase::create().await;
    let clock = StoreHarness::clock();
    let open = async |database: &TestDatabase| {
        let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
        // So that one of the running jobs has a shared lease.
        store.always_sharing_leases()
    };
    let original = StoreHarness::new(open(&database).await, clock.clone());
    let jobs = BackedUpJobs::submit(&original).await;
    drop(original);
    let copy = database.copy().await;
    clock.advance(Duration::from_hours(1));
    let restored = open(&copy).await;
    assert_eq!(restored.fence().await.unwrap(), 2);
    let original = StoreHarness::new(open(&database).await, clock.clone());
    let restored = StoreHarness::new(restored, clock.clone());
    jobs.assert_fenced(&original, &restored).await;
}

/// An interrupted restore is repeated.
#[tokio::test]
async fn fencing_twice_releases_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let clock = StoreHarness::clock();
    let original =
        StoreHarness::new(SqliteStore::open(&path, clock.clone()).unwrap(), clock.clone());
    let id = original.running().await.job.id;
    drop(original);
    assert_eq!(sqlite::fence(&path, &clock).unwrap(), 1);
    assert_eq!(sqlite::fence(&path, &clock).unwrap(), 0);
    let restored = StoreHarness::new(SqliteStore::open(&path, clock.clone()).unwrap(), clock);
    let lease = restored.claim_one().await;
    assert_eq!((lease.job.id, lease.job.attempt, lease.epoch >> 32), (id, 1, 2));
}

/// Submits a job with a payload, which no worker claims.
async fn submit_payload(original: &StoreHarness) -> JobId {
    let payload = NewBlob {
        path: "default/p".to_owned(),
        name: String::new(),
        content_type: String::new(),
        size: 1,
        digest: [7; 32],
        key: WrappedKey(vec![1]),
        replica: "replica-1".to_owned(),
    };
    original.accept(NewJob { payload: Some(payload), ..original.job() }).await.id
}

async fn assert_payload_expires(restored: &StoreHarness, id: JobId) {
    restored.advance(LEASE);
    let expired = restored.store().expire_payloads(LEASE, 10).await.unwrap();
    assert_eq!(expired.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
}

/// A payload without a claim is recognized by the epoch of its job, which a restore raises.
#[tokio::test]
async fn payload_of_an_unclaimed_job_expires_after_a_restore_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let clock = StoreHarness::clock();
    let open =
        || StoreHarness::new(SqliteStore::open(&path, clock.clone()).unwrap(), clock.clone());
    let id = submit_payload(&open()).await;
    sqlite::fence(&path, &clock).unwrap();
    assert_payload_expires(&open(), id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payload_of_an_unclaimed_job_expires_after_a_restore_of_postgres() {
    let database = TestDatabase::create().await;
    let clock = StoreHarness::clock();
    let open = async || PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let id = submit_payload(&StoreHarness::new(open().await, clock.clone())).await;
    let restored = open().await;
    assert_eq!(restored.fence().await.unwrap(), 0);
    assert_payload_expires(&StoreHarness::new(restored, clock.clone()), id).await;
}
