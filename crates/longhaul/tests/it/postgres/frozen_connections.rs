//! Connections that die without a word: they stay open and carry nothing, while new ones work.
//!
//! The store's limits on waiting for the database are a tenth of the real ones.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use longhaul::job::{Status, TenantId};
use longhaul::store::conformance::{LEASE, StoreHarness, done};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{ChangeNotifications, Heartbeat, Renewal, Store};
use longhaul::{Clock, Ctx, Engine, JobError};
use tokio::sync::Notify;

use super::database::TestDatabase;
use super::proxy::Proxy;
use super::wait::until;

const DIVISOR: u32 = 10;
/// A statement that only renewals send.
const RENEW: &str = "SET lease_until";
/// A statement that follows others in a transaction with locked leases.
const SAVE_LEASES: &str = "told.read_version";
const KEPT: [Renewal; 1] = [Renewal::Kept { cancel_requested: false }];

/// A store whose connections pass through a proxy.
struct ProxiedStore {
    harness: StoreHarness,
    proxy: Proxy,
    database: Arc<TestDatabase>,
}

async fn open(database: &TestDatabase, proxy: &Proxy, clock: &Clock) -> PostgresStore {
    let url = proxy.url(&database.url());
    PostgresStore::open_impatient(&url, clock.clone(), DIVISOR).await.unwrap()
}

impl ProxiedStore {
    async fn new() -> Self {
        let database = Arc::new(TestDatabase::create().await);
        let proxy = Proxy::before(&database.url()).await;
        let clock = StoreHarness::clock();
        let store = open(&database, &proxy, &clock).await;
        let harness = StoreHarness::new(store, clock).keeping(Arc::clone(&database));
        Self { harness, proxy, database }
    }

    /// Opens several connections of the pool.
    async fn fill_pool(&self) {
        let id = self.harness.pending().await.id;
        let (tenant, store) = (TenantId::default(), self.harness.store());
        for read in join_all((0..8).map(|_| store.input(&tenant, id))).await {
            read.unwrap();
        }
    }

    /// Waits until the store listens for notifications.
    async fn listens(&self) {
        let client = self.database.connect().await;
        until("a connection that listens", async || {
            let sql = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'LISTEN%'";
            let listening: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
            (listening > 0).then_some(())
        })
        .await;
    }
}

fn heartbeat() -> Heartbeat {
    Heartbeat {
        replica: "here".to_owned(),
        run: 1,
        role: "all".to_owned(),
        version: String::new(),
        host: String::new(),
        pid: 1,
        process: String::new(),
        kinds: Vec::new(),
        running: 0,
        concurrency: 1,
        silent_after: LEASE,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_pool_costs_callers_one_timeout() {
    let store = ProxiedStore::new().await;
    let harness = &store.harness;
    let lease = harness.running().await;
    store.fill_pool().await;
    store.proxy.freeze();
    let mut failed = 0;
    let job = harness.job();
    while let Err(error) = harness.submit(job.clone()).await {
        failed += 1;
        // The first call finds a dead connection, and no later one uses another of the same age.
        assert!(failed <= 1, "{error}");
    }
    assert_eq!(harness.record(job.id).await.job.status, Status::Pending);
    harness.settle(&lease, done()).await.unwrap();
    assert_eq!(harness.claim(10).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_connection_that_prepares_a_statement_is_not_used_again() {
    let store = ProxiedStore::new().await;
    let harness = &store.harness;
    harness.pending().await;
    // The statements of a claim are not prepared yet.
    store.proxy.freeze();
    let mut failed = 0;
    while let Err(error) = harness.store().claim(&harness.want(1)).await {
        failed += 1;
        assert!(failed <= 1, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_and_heartbeats_sent_over_a_new_connection() {
    let store = ProxiedStore::new().await;
    let harness = &store.harness;
    let lease = harness.running().await;
    let renew = async || harness.store().renew(vec![lease.to_ref()], LEASE).await;
    let beat = async || harness.store().heartbeat(&heartbeat()).await;
    beat().await.unwrap();
    assert_eq!(renew().await.unwrap(), KEPT);

    store.proxy.freeze();
    // Both wait for the same dead connection, and neither for the other.
    let (beaten, renewed) = tokio::join!(beat(), renew());
    assert!(beaten.is_err() && renewed.is_err(), "{beaten:?} {renewed:?}");
    beat().await.unwrap();
    assert_eq!(renew().await.unwrap(), KEPT);
}

/// The caller stops waiting before the limit, as the renewal of a short lease does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_renewal_closes_its_connection() {
    let store = ProxiedStore::new().await;
    let harness = &store.harness;
    let lease = harness.running().await;
    let renew = async || harness.store().renew(vec![lease.to_ref()], LEASE).await;
    assert_eq!(renew().await.unwrap(), KEPT);
    store.proxy.freeze_at(RENEW);
    tokio::select! {
        renewed = renew() => panic!("the connection is frozen: {renewed:?}"),
        () = store.proxy.lost() => {}
    }
    store.proxy.freezer_closed().await;
    assert_eq!(renew().await.unwrap(), KEPT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_arrive_again_after_the_listener_was_frozen() {
    let store = ProxiedStore::new().await;
    store.listens().await;
    let notifications = store.harness.store().change_notifications();
    let ChangeNotifications { mut ready, .. } = notifications.unwrap();
    store.proxy.freeze();
    // A listener notifies as soon as it listens again, because it may have missed notifications.
    ready.changed().await.unwrap();

    ready.mark_unchanged();
    let other = PostgresStore::open(&store.database.url(), StoreHarness::clock()).await;
    let other: Arc<dyn Store> = Arc::new(other.unwrap());
    for submitted in other.submit(vec![store.harness.job()]).await {
        submitted.unwrap();
    }
    ready.changed().await.unwrap();
}

/// The server keeps the locks of a transaction whose client has vanished, but only for a part of the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_in_a_frozen_transaction_is_renewed() {
    let store = ProxiedStore::new().await;
    let harness = &store.harness;
    let lease = harness.running().await;
    let renew = async || harness.store().renew(vec![lease.to_ref()], LEASE).await;
    store.proxy.freeze_at(SAVE_LEASES);
    let reported = harness.phase(&lease, "reading").await;
    assert!(reported.is_err(), "the transaction is frozen: {reported:?}");
    let mut failed = 0;
    while let Err(error) = renew().await {
        failed += 1;
        // Each takes the tenth part of 4 s, and the lease lasts for 15 s.
        assert!(failed < 150 / 4, "{error}");
    }
    assert_eq!(renew().await.unwrap(), KEPT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_runs_while_all_connections_freeze_keeps_its_lease() {
    let database = TestDatabase::create().await;
    let proxy = Proxy::before(&database.url()).await;
    let clock = StoreHarness::clock();
    let store: Arc<dyn Store> = Arc::new(open(&database, &proxy, &clock).await);
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let engine = Engine::builder()
        .store(Arc::clone(&store))
        .clock(clock.clone())
        .kind("gated", {
            let (began, go) = (Arc::clone(&began), Arc::clone(&go));
            move |ctx: Ctx, (): ()| {
                let (began, go) = (Arc::clone(&began), Arc::clone(&go));
                async move {
                    began.notify_one();
                    go.notified().await;
                    Ok::<_, JobError>(ctx.attempt())
                }
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("gated", &()).await.unwrap();
    began.notified().await;
    let lease_ends_at = clock.now().after(LEASE).as_millis();

    proxy.freeze_at(RENEW);
    clock.advance(Duration::from_secs(5));
    proxy.lost().await;
    let frozen_at = clock.now();
    proxy.freezer_closed().await;
    let onlooker = database.connect().await;
    // The next renewal and the next heartbeat follow a second after the failed ones.
    until("a renewal and a heartbeat", async || {
        if clock.now().after(Duration::from_secs(1)).as_millis() < lease_ends_at {
            clock.advance(Duration::from_secs(1));
        }
        let sql = "SELECT EXISTS (SELECT FROM longhaul.leases WHERE lease_until > $1)
            AND EXISTS (SELECT FROM longhaul.replicas WHERE seen_at > $2)";
        let row = onlooker.query_one(sql, &[&lease_ends_at, &frozen_at.as_millis()]).await.unwrap();
        row.get::<_, bool>(0).then_some(())
    })
    .await;
    // A pass of the rescuer, which would find a lost lease.
    clock.advance(Duration::from_secs(4));
    while let Err(error) = store.rescue(10).await {
        assert!(error.is_transient(), "{error}");
    }
    go.notify_one();
    assert_eq!(job.result_as::<u32>().await.unwrap(), 1);
    assert_eq!(engine.job(job.id()).await.unwrap().attempts().len(), 1);
    proxy.frozen_connections_closed().await;
    engine.stop().await;
}
