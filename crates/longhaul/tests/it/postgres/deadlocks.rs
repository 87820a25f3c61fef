//! Transactions that Postgres aborts because of a deadlock: the store retries them, and callers see
//! no error.

use std::sync::Arc;

use longhaul::job::Status;
use longhaul::store::conformance::{StoreHarness, done, settlement};
use longhaul::store::postgres::PostgresStore;

use super::database::TestDatabase;
use super::wait::until;

/// Returns a store whose transactions are the ones that Postgres aborts on a deadlock.
async fn harness() -> (Arc<StoreHarness>, Arc<TestDatabase>) {
    let database = Arc::new(TestDatabase::create().await);
    // A waiting session checks for a deadlock once, after this time; the deadlock exists by then.
    let url = format!("{}?options=-cdeadlock_timeout%3D2s", database.url());
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&url, clock.clone()).await.unwrap();
    (Arc::new(StoreHarness::new(store, clock)), database)
}

/// Another connection locks two leases in the opposite order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocked_settlement_is_retried() {
    let (bench, database) = harness().await;
    bench.pending().await;
    bench.pending().await;
    let mut leases = bench.claim(2).await;
    leases.sort_by_key(|lease| lease.job.id);
    let foreign = database.connect().await;
    let onlooker = database.connect().await;
    let lock = |at: usize| {
        let id = leases[at].job.id;
        format!("SELECT FROM longhaul.leases WHERE id = '{id}' FOR UPDATE")
    };
    foreign.batch_execute("SET deadlock_timeout = '1min'").await.unwrap();
    foreign.batch_execute(&format!("BEGIN; {}", lock(1))).await.unwrap();
    let settling = tokio::spawn({
        let bench = Arc::clone(&bench);
        let ends = leases.iter().map(|lease| settlement(lease, done())).collect();
        async move { bench.store().settle(ends).await }
    });
    until("the store to wait for a lock", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND application_name = 'longhaul' AND wait_event_type = 'Lock'";
        let waiting: i64 = onlooker.query_one(sql, &[]).await.unwrap().get(0);
        (waiting > 0).then_some(())
    })
    .await;
    foreign.batch_execute(&lock(0)).await.unwrap();
    let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    foreign.batch_execute("COMMIT").await.unwrap();
    for settled in settling.await.unwrap() {
        assert_eq!(settled.unwrap().status, Status::Completed);
    }
    for lease in &leases {
        assert_eq!(bench.record(lease.job.id).await.history.len(), 3);
    }
    drop(bench);
    until("the deadlock to be counted", async || {
        let deadlocks: i64 = onlooker.query_one(sql, &[]).await.unwrap().get(0);
        (deadlocks > 0).then_some(())
    })
    .await;
}
