//! Restarts and crashes of Postgres under load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul::job::{JobId, Status};
use longhaul::store::conformance::{StoreHarness, done};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{Store, StoreError};
use longhaul::{Clock, Ctx, Engine, JobError, SubmitError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::database::TestDatabase;
use super::wait::until;

const CLIENTS: usize = 4;
/// Number of submissions acknowledged before the outage, and again after it.
const ACKNOWLEDGED: usize = 40;

async fn engine(store: Arc<dyn Store>) -> Engine {
    Engine::builder()
        .store(store)
        .clock(Clock::system())
        .concurrency(8)
        .lease(Duration::from_secs(3), Duration::from_secs(1))
        .rescue_interval(Duration::from_millis(200))
        .kind("echo", |_ctx: Ctx, number: u64| async move { Ok::<_, JobError>(number) })
        .start()
        .await
        .unwrap()
}

/// Submits jobs one after the other, and retries unacknowledged ones with the same key.
async fn client(
    engine: Engine,
    name: usize,
    enough: Arc<AtomicBool>,
    acknowledged: mpsc::UnboundedSender<()>,
) -> BTreeMap<u64, JobId> {
    let mut jobs = BTreeMap::new();
    let mut number = 0;
    while !enough.load(Ordering::SeqCst) {
        let submission = engine.submit_raw("echo", &number).key(format!("{name}-{number}"));
        match submission.max_attempts(100).await {
            Ok(job) => {
                jobs.insert(number, job.id());
                number += 1;
                acknowledged.send(()).unwrap();
            }
            Err(SubmitError::Store(StoreError::Unavailable(_))) => {}
            Err(error) => panic!("{name}-{number}: {error}"),
        }
    }
    jobs
}

/// Runs an engine and its clients during `outage`, and checks that every acknowledged job is stored
/// and completes.
async fn outlives(mut cluster: Cluster, outage: fn(&Cluster)) {
    let database = TestDatabase::create_in(cluster.url()).await;
    let url = database.url();
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&url, Clock::system()).await.unwrap());
    let engine = engine(Arc::clone(&store)).await;
    let enough = Arc::new(AtomicBool::new(false));
    let (acknowledged, mut acknowledgements) = mpsc::unbounded_channel();
    let mut clients = JoinSet::new();
    for name in 0..CLIENTS {
        clients.spawn(client(engine.clone(), name, Arc::clone(&enough), acknowledged.clone()));
    }
    for _ in 0..ACKNOWLEDGED {
        acknowledgements.recv().await.unwrap();
    }
    tokio::task::block_in_place(|| outage(&cluster));
    while acknowledgements.try_recv().is_ok() {}
    tokio::task::block_in_place(|| cluster.start_again(&[]));
    for _ in 0..ACKNOWLEDGED {
        acknowledgements.recv().await.unwrap();
    }
    enough.store(true, Ordering::SeqCst);

    let mut ids = std::collections::BTreeSet::new();
    for jobs in clients.join_all().await {
        for (number, id) in jobs {
            assert!(ids.insert(id), "{id} was given out twice");
            until("a job to end", async || {
                let record = engine.job(id).await.unwrap_or_else(|error| panic!("{id}: {error}"));
                record.job.status.is_terminal().then_some(())
            })
            .await;
            let record = engine.job(id).await.unwrap();
            assert_eq!(record.job.status, Status::Completed, "{record:?}");
            assert_eq!(record.result.unwrap().as_str(), number.to_string());
            let ends = record.history.iter().filter(|event| event.status.is_terminal());
            assert_eq!(ends.count(), 1, "{:?}", record.history);
        }
    }
    let client = database.connect().await;
    let jobs: i64 =
        client.query_one("SELECT count(*) FROM longhaul.jobs", &[]).await.unwrap().get(0);
    assert_eq!(usize::try_from(jobs).unwrap(), ids.len(), "each key made one job");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_of_postgres_loses_no_acknowledged_job() {
    outlives(Cluster::start(&["shared_buffers=32MB"]), Cluster::crash).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_of_postgres_loses_no_acknowledged_job() {
    outlives(Cluster::start(&["shared_buffers=32MB"]), Cluster::stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_is_unavailable_while_postgres_is_down_and_recovers() {
    let mut cluster = Cluster::start(&["shared_buffers=32MB"]);
    let database = TestDatabase::create_in(cluster.url()).await;
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let bench = StoreHarness::new(store, clock);
    let lease = bench.running().await;
    tokio::task::block_in_place(|| cluster.crash());
    let unavailable = [
        bench.submit(bench.job()).await.map(drop),
        bench.try_record(lease.job.id).await.map(drop),
        bench.settle(&lease, done()).await.map(drop),
        bench.store().claim(&bench.want(1)).await.map(drop),
        bench.store().renew(vec![lease.to_ref()], Duration::from_secs(1)).await.map(drop),
    ];
    for answer in unavailable {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    tokio::task::block_in_place(|| cluster.start_again(&[]));
    bench.settle(&lease, done()).await.unwrap();
    assert_eq!(bench.record(lease.job.id).await.job.status, Status::Completed);
    bench.pending().await;
    assert_eq!(bench.claim(1).await.len(), 1);
}
