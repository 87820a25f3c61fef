//! A database whose clock steps, while replicas run on clocks of their own. The database runs under libfaketime.

use std::sync::Arc;
use std::time::Duration;

use longhaul::job::Timestamp;
use longhaul::store::conformance::{StoreHarness, done};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{Heartbeat, MaintenanceStore as _, ReplicaStore as _, Store as _};
use longhaul::{Clock, Ctx, Engine, JobError, Kind, Retry, Status};
use tokio::sync::Semaphore;

use super::cluster::Cluster;
use super::database::connect;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// A cluster whose clock the test sets, with a store whose clock follows the database's.
struct SteppedDatabase {
    cluster: Cluster,
    clock: Clock,
    store: Arc<PostgresStore>,
}

impl SteppedDatabase {
    async fn start() -> Self {
        let cluster = Cluster::start_with_clock(&["shared_buffers=32MB", "fsync=off"]);
        let clock = Clock::system();
        let store = open(&cluster, &clock).await;
        Self { cluster, clock, store }
    }

    /// Sets the database's clock ahead of the machine's, and lets the store's clock follow it.
    async fn step(&self, seconds: i64) {
        let before = self.clock.now();
        self.cluster.set_clock(seconds);
        let by = self.database_time().await.as_millis() - Clock::system().now().as_millis();
        assert!((by - seconds * 1_000).abs() < 10_000, "the database's clock is {by} ms ahead");
        self.store.follow_clock().await.unwrap();
        self.assert_near(before);
    }

    async fn database_time(&self) -> Timestamp {
        let client = connect(self.cluster.url()).await;
        let sql = "SELECT (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint";
        Timestamp::from_millis(client.query_one(sql, &[]).await.unwrap().get(0))
    }

    /// Checks that the clock is less than a minute after `before`.
    fn assert_near(&self, before: Timestamp) {
        let now = self.clock.now();
        assert!(before <= now && now < before.after(MINUTE), "{before} is followed by {now}");
    }

    fn harness(&self) -> StoreHarness {
        StoreHarness::of(Arc::clone(&self.store) as Arc<_>, self.clock.clone())
    }

    /// Starts an engine whose jobs have one attempt and wait for a permit.
    async fn engine(&self, began: &Arc<Semaphore>, go: &Arc<Semaphore>) -> Engine {
        let (began, go) = (Arc::clone(began), Arc::clone(go));
        let kind = Kind::new("work", move |ctx: Ctx, (): ()| {
            let (began, go) = (Arc::clone(&began), Arc::clone(&go));
            async move {
                began.add_permits(1);
                go.acquire().await.unwrap().forget();
                Ok::<_, JobError>(ctx.attempt())
            }
        });
        Engine::builder()
            .clock(self.clock.clone())
            .store(Arc::clone(&self.store) as Arc<_>)
            .register(kind.retry(Retry::NEVER))
            .start()
            .await
            .unwrap()
    }
}

async fn open(cluster: &Cluster, clock: &Clock) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(cluster.url(), clock.clone()).await.unwrap())
}

fn heartbeat(replica: &str) -> Heartbeat {
    Heartbeat {
        replica: replica.to_owned(),
        run: rand::random(),
        role: "all".to_owned(),
        version: String::new(),
        host: String::new(),
        pid: 1,
        process: String::new(),
        kinds: Vec::new(),
        running: 0,
        concurrency: 0,
        silent_after: Duration::from_secs(15),
    }
}

async fn running_job_survives(steps: &[i64]) {
    let database = SteppedDatabase::start().await;
    let (began, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let engine = database.engine(&began, &go).await;
    let job = engine.submit_raw("work", &()).await.unwrap();
    began.acquire().await.unwrap().forget();
    for seconds in steps {
        database.step(*seconds).await;
        assert!(database.store.rescue(10).await.unwrap().is_empty(), "after {seconds} s");
    }
    go.add_permits(1);
    assert_eq!(job.result_as::<u32>().await.unwrap(), 1);
    assert_eq!(job.record().await.unwrap().attempts().len(), 1);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_of_an_hour_forward_costs_no_lease() {
    running_job_survives(&[3_600]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_back_and_forth_cost_no_lease() {
    running_job_survives(&[-3_600, 3_600, 0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_job_starts_in_time_after_a_step_back() {
    let database = SteppedDatabase::start().await;
    let (began, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(1)));
    let engine = database.engine(&began, &go).await;
    let job = engine.submit_raw("work", &()).delay(Duration::from_millis(500)).await.unwrap();
    let due_at = job.record().await.unwrap().job.run_at;
    database.step(-3_600).await;
    assert_eq!(job.result_as::<u32>().await.unwrap(), 1);
    let started_at = job.record().await.unwrap().job.started_at.unwrap();
    assert!(due_at <= started_at && started_at < due_at.after(MINUTE), "{due_at} {started_at}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_of_25_hours_prunes_no_completed_job() {
    let database = SteppedDatabase::start().await;
    let harness = database.harness();
    let job = harness.ended(done()).await;
    database.step(25 * 3_600).await;
    assert_eq!(database.store.prune(10).await.unwrap(), 0);
    assert_eq!(harness.record(job.id).await.job.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_difference_is_followed_slowly() {
    let database = SteppedDatabase::start().await;
    let machine = Clock::system();
    for seconds in [10, -10] {
        database.step(seconds).await;
        let ahead = database.clock.now().as_millis() - machine.now().as_millis();
        assert!(ahead.abs() < 5_000, "{ahead} ms after a difference of {seconds} s");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_starts_after_a_step_takes_the_time_of_the_others() {
    let database = SteppedDatabase::start().await;
    let harness = database.harness();
    let lease = harness.running().await;
    database.step(3_600).await;
    // Without a live replica, the database's time counts.
    let alone = Clock::system();
    drop(open(&database.cluster, &alone).await);
    assert!(alone.now() > database.clock.now().after(HOUR.saturating_sub(MINUTE)));

    database.store.heartbeat(&heartbeat("first")).await.unwrap();
    let clock = Clock::system();
    let second = open(&database.cluster, &clock).await;
    assert!(second.now() < database.clock.now().after(MINUTE));
    assert!(second.rescue(10).await.unwrap().is_empty(), "the lease has not expired");
    second.follow_clock().await.unwrap();
    assert!(second.now() < database.clock.now().after(MINUTE));
    harness.settle(&lease, done()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_whose_clock_alone_is_wrong_is_set() {
    let database = SteppedDatabase::start().await;
    database.step(-3_600).await;
    let clock = Clock::system();
    let right = open(&database.cluster, &clock).await;
    assert!(
        clock.now() < database.clock.now().before(HOUR.saturating_sub(MINUTE)),
        "the database's time"
    );
    database.store.follow_clock().await.unwrap();
    assert!(
        clock.now() < database.clock.now().before(HOUR.saturating_sub(MINUTE)),
        "no replica agrees"
    );
    right.heartbeat(&heartbeat("right")).await.unwrap();
    database.store.follow_clock().await.unwrap();
    let ahead = database.clock.now().as_millis() - clock.now().as_millis();
    assert!(ahead.abs() < 10_000, "{ahead} ms");
}
