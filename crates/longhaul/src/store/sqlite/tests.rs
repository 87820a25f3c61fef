//! Tests of behaviour that is specific to SQLite. The conformance suite tests the contract of all stores.

mod backup;
mod batch;
mod claim;
mod log;
mod open;
mod plan;
mod readers;

use std::sync::Arc;
use std::time::Duration;

use super::SqliteStore;
use super::maintenance::prune;
use crate::clock::Clock;
use crate::job::{IdSource, JobId, Json, Name, Outcome, Retention, Status, TenantId, Timestamp};
use crate::store::{
    Claim, ClaimResult, KindCapacity, NewJob, Report, Settlement, StoreError, SubmitResult,
};
use crate::store::{JobStore as _, MaintenanceStore as _, WorkerStore as _};

const LEASE: Duration = Duration::from_secs(15);

fn clock() -> Clock {
    Clock::manual(Timestamp::from_millis(1_763_000_000_000))
}

fn memory() -> SqliteStore {
    SqliteStore::memory(clock()).unwrap()
}

fn new_job() -> NewJob {
    static IDS: std::sync::LazyLock<IdSource> = std::sync::LazyLock::new(IdSource::default);
    crate::store::testing::new_job(IDS.next(clock().now(), 0), Json::null())
}

async fn submit(store: &SqliteStore, job: NewJob) -> Result<SubmitResult, StoreError> {
    store.submit(vec![job]).await.pop().unwrap()
}

async fn accept(store: &SqliteStore, job: NewJob) -> JobId {
    submit(store, job).await.unwrap().record.job.id
}

async fn claim(store: &SqliteStore, limit: usize) -> ClaimResult {
    let kind = Name::new("demo").unwrap();
    let kinds = vec![KindCapacity { kind, capacity: limit, code_version: None }];
    store
        .claim(&Claim {
            replica: "r1".to_owned(),
            limit,
            lease: LEASE,
            kinds,
            limits: Arc::default(),
            queue_capacity: None,
        })
        .await
        .unwrap()
}

/// Writes values that this program never writes.
async fn damage(store: &SqliteStore, sql: &'static str) {
    let changed = store.writer.call(move |tx| Ok(tx.run(sql, [])?)).await.unwrap();
    assert_eq!(changed, 1);
}

#[tokio::test]
async fn history_is_cut_at_a_line_and_keeps_the_newest() {
    let store = memory();
    let id = accept(&store, new_job()).await;
    let lease = claim(&store, 1).await.leases.remove(0).to_ref();
    let phases: Vec<String> = (0..6).map(|n| format!("{n}{}", "ä".repeat(50_000))).collect();
    for phase in phases {
        let report = Report { lease: lease.clone(), phases: vec![phase], progress: None };
        store.report(vec![report]).await.remove(0).unwrap();
    }
    let record = store.job(&TenantId::default(), id).await.unwrap();
    let versions: Vec<u64> = record.history.iter().map(|event| event.version).collect();
    assert_eq!((versions.last(), record.job.version), (Some(&8), 8));
    // The acceptance and the claim follow from other columns.
    let (derived, stored) = versions.split_at(2);
    assert_eq!(derived, [1, 2]);
    assert!(stored.len() < 6, "{versions:?}");
    assert!(stored.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{versions:?}");
}

/// Regression: if the newest part of a history was a single event, half a line was kept, and the job could
/// never be read again.
#[tokio::test]
async fn history_of_one_long_event_is_replaced_by_what_is_new() {
    let store = memory();
    let id = accept(&store, new_job()).await;
    let lease = claim(&store, 1).await.leases.remove(0).to_ref();
    for phase in ["x".repeat(300_000), "short".to_owned()] {
        let report = Report { lease: lease.clone(), phases: vec![phase], progress: None };
        store.report(vec![report]).await.remove(0).unwrap();
    }
    let record = store.job(&TenantId::default(), id).await.unwrap();
    let phases: Vec<_> = record.history.iter().map(|event| event.phase.as_deref()).collect();
    // The acceptance and the claim follow from other columns.
    assert_eq!(phases, [None, None, Some("short")]);
}

#[tokio::test]
async fn event_that_cannot_be_read_does_not_hide_the_job() {
    let store = memory();
    let id = accept(&store, new_job()).await;
    claim(&store, 1).await;
    damage(&store, "UPDATE leases SET events = '{\"half\":'").await;
    let record = store.job(&TenantId::default(), id).await.unwrap();
    let statuses: Vec<Status> = record.history.iter().map(|event| event.status).collect();
    assert_eq!(statuses, [Status::Pending, Status::Running]);
}

#[tokio::test]
async fn job_that_cannot_be_read_does_not_stop_the_others() {
    let store = memory();
    accept(&store, new_job()).await;
    damage(&store, "UPDATE jobs SET labels = 'no json'").await;
    let id = accept(&store, new_job()).await;
    let claimed = claim(&store, 2).await.leases;
    assert_eq!(claimed.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [id]);
    let next = accept(&store, new_job()).await;
    assert_eq!(claim(&store, 1).await.leases[0].job.id, next);
    damage(&store, "UPDATE jobs SET labels = '?' WHERE seq = 2").await;
    store.clock.advance(LEASE);
    // The damaged job is quarantined, and does not use up the limit of the next rescue.
    assert!(store.rescue(1).await.unwrap().is_empty());
    assert_eq!(store.rescue(1).await.unwrap()[0].id, next);
}

/// A disk that hangs must not cost attempts whose workers could not renew their leases meanwhile.
#[tokio::test]
async fn rescue_leaves_leases_that_expired_while_it_waited() {
    let store = memory();
    accept(&store, new_job()).await;
    claim(&store, 1).await;
    let (release, _) = batch::hold(&store).await;
    {
        // Polled once, so that the writer has the request.
        let mut rescue = std::pin::pin!(store.rescue(10));
        let waker = std::task::Waker::noop();
        assert!(rescue.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        store.clock.advance(LEASE);
        drop(release);
        assert!(rescue.await.unwrap().is_empty());
    }
    assert_eq!(store.rescue(10).await.unwrap().len(), 1);
}

/// Regression: five hundred jobs with thousands of steps each were deleted in one transaction.
#[tokio::test]
async fn expiring_is_bounded_by_rows_too() {
    let store = memory();
    for _ in 0..3 {
        let id = accept(&store, new_job()).await;
        store.cancel(&TenantId::default(), id).await.unwrap();
    }
    let steps = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 11000)
        INSERT INTO steps (seq, name, position, output, alone, attempt, started_at, completed_at)
        SELECT seq, n, n, 'null', 1, 1, 0, 0 FROM jobs, n";
    store.writer.call(move |tx| Ok(tx.run(steps, [])?)).await.unwrap();
    store.clock.advance(Retention::default().failed);
    let bite = store.writer.call(|tx| prune::prune(tx, 100)).await.unwrap();
    assert_eq!(bite, (2, true));
    assert_eq!(store.prune(100).await.unwrap(), 1);
}

/// Regression: a rescued job has the same state and epoch as after a failed attempt, so a late settlement
/// was taken for a repeated one whose response had been lost.
#[tokio::test]
async fn late_settlement_of_a_swept_job_is_no_repetition() {
    let store = memory();
    accept(&store, new_job()).await;
    let lease = claim(&store, 1).await.leases.remove(0).to_ref();
    store.clock.advance(LEASE);
    store.rescue(10).await.unwrap();
    let late = Settlement::of(lease, Outcome::Released);
    assert_eq!(store.settle(vec![late]).await, [Err(StoreError::LeaseLost)]);
}

#[tokio::test]
async fn settlement_under_an_old_epoch_writes_nothing() {
    let store = memory();
    let id = accept(&store, new_job()).await;
    let first = claim(&store, 1).await.leases.remove(0).to_ref();
    store.clock.advance(LEASE);
    assert_eq!(store.rescue(10).await.unwrap().len(), 1);
    claim(&store, 1).await;
    let before = store.job(&TenantId::default(), id).await.unwrap();
    let late = Settlement {
        phases: vec!["late".to_owned()],
        ..Settlement::of(first, Outcome::Completed(Json::null()))
    };
    assert_eq!(store.settle(vec![late]).await, [Err(StoreError::LeaseLost)]);
    assert_eq!(store.job(&TenantId::default(), id).await.unwrap(), before);
}
