//! A database that does not respond, and one whose connections are all in use.

use std::sync::Arc;
use std::time::Duration;

use longhaul::job::TenantId;
use longhaul::store::conformance::{LEASE, StoreHarness, TICK, done};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{Renewal, StoreError};

use super::database::TestDatabase;
use super::proxy::Proxy;
use super::wait::until;

fn is_unavailable<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Unavailable(_)))
}

/// Single-threaded, so that the paused clock jumps to the timeout as soon as all tasks wait.
#[tokio::test]
async fn stalled_database_is_unavailable_and_recovers() {
    let database = Arc::new(TestDatabase::create().await);
    let proxy = Proxy::before(&database.url()).await;
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&proxy.url(&database.url()), clock.clone()).await.unwrap();
    let bench = StoreHarness::new(store, clock).keeping(Arc::clone(&database));
    let (lease, pending) = (bench.running().await, bench.pending().await);

    proxy.stall();
    tokio::time::pause();
    let lost = bench.job();
    assert!(is_unavailable(&bench.submit(lost.clone()).await));
    assert!(is_unavailable(&bench.try_record(pending.id).await));
    assert!(is_unavailable(&bench.store().claim(&bench.want(1)).await));
    assert!(is_unavailable(&bench.store().renew(vec![lease.to_ref()], LEASE).await));
    assert!(is_unavailable(&bench.step(&lease, 0, "extract", "1").await));
    assert!(is_unavailable(&bench.settle(&lease, done()).await));
    assert!(is_unavailable(&bench.store().replicas().await));
    tokio::time::resume();
    proxy.go_on();

    assert_eq!(bench.record(pending.id).await.job.id, pending.id);
    let renewed = bench.store().renew(vec![lease.to_ref()], LEASE).await.unwrap();
    // Requests sent during the stall may have been executed since.
    if renewed == [(Renewal::Kept { cancel_requested: false })] {
        bench.settle(&lease, done()).await.unwrap();
    }
    let again = bench.submit(lost.clone()).await.unwrap();
    assert_eq!(again.record.job.id, lost.id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_while_every_other_connection_waits() {
    let database = Arc::new(TestDatabase::create().await);
    let clock = StoreHarness::clock();
    let url = format!("{}?pool_max=2", database.url());
    let store = PostgresStore::open(&url, clock.clone()).await.unwrap();
    let bench = Arc::new(StoreHarness::new(store, clock).keeping(Arc::clone(&database)));
    let lease = bench.running().await;

    let foreign = database.connect().await;
    foreign.batch_execute("BEGIN; LOCK TABLE longhaul.jobs").await.unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let (bench, id) = (Arc::clone(&bench), lease.job.id);
            tokio::spawn(async move { bench.store().input(&TenantId::default(), id).await })
        })
        .collect();
    let onlooker = database.connect().await;
    until("two connections that wait for a lock", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: i64 = onlooker.query_one(sql, &[]).await.unwrap().get(0);
        (waiting == 2).then_some(())
    })
    .await;

    let renewed = bench.store().renew(vec![lease.to_ref()], Duration::from_mins(1)).await;
    assert_eq!(renewed.unwrap(), [Renewal::Kept { cancel_requested: false }]);

    foreign.batch_execute("COMMIT").await.unwrap();
    for read in waiting {
        assert_eq!(read.await.unwrap().unwrap(), lease.input);
    }
}

/// A rescue that waits for the database must not end leases that their workers could not renew meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rescue_leaves_leases_that_expired_while_it_waited() {
    let database = Arc::new(TestDatabase::create().await);
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let harness = StoreHarness::new(store, clock).keeping(Arc::clone(&database));
    harness.running().await;
    let foreign = database.connect().await;
    foreign.batch_execute("BEGIN; LOCK TABLE longhaul.leases").await.unwrap();
    let rescue = tokio::spawn({
        let store = harness.store();
        async move { store.rescue(10).await }
    });
    let onlooker = database.connect().await;
    let waiting = async || -> Option<i32> {
        let sql = "SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        onlooker.query_opt(sql, &[]).await.unwrap().map(|row| row.get(0))
    };
    let pid = until("a rescue that waits for the lock", waiting).await;
    harness.advance(LEASE + TICK);
    // The rescue is repeated, and finds an expired lease.
    onlooker.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    foreign.batch_execute("COMMIT").await.unwrap();
    assert!(rescue.await.unwrap().unwrap().is_empty());
    assert_eq!(harness.store().rescue(10).await.unwrap().len(), 1);
}
