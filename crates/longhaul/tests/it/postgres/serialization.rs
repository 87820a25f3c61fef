//! Transactions that Postgres aborts because of concurrent ones: the store retries them a bounded number of times, and
//! nothing is lost or done twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::job::Status;
use longhaul::store::StoreError;
use longhaul::store::conformance::{StoreHarness, done};
use longhaul::store::postgres::PostgresStore;
use longhaul::{Clock, Ctx, Engine, JobError};

use super::database::{TestDatabase, open_now};

const JOBS: u64 = 60;
const REPLICAS: usize = 3;
const STEPS: [&str; 3] = ["download", "parse", "index"];

/// Aborts the first transactions that write to a table. A sequence counts them, because it is not rolled back.
fn abort_first(table: &str, writes: i64) -> String {
    format!(
        "CREATE SEQUENCE public.writes;
        CREATE FUNCTION public.abort_first() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
            IF nextval('public.writes') <= {writes} THEN
                RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure';
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER abort_first AFTER INSERT OR UPDATE OR DELETE ON longhaul.{table}
            FOR EACH STATEMENT EXECUTE FUNCTION public.abort_first()"
    )
}

async fn writes(database: &TestDatabase) -> i64 {
    let client = database.connect().await;
    client.query_one("SELECT last_value FROM public.writes", &[]).await.unwrap().get(0)
}

async fn harness() -> (StoreHarness, TestDatabase) {
    let database = TestDatabase::create().await;
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    (StoreHarness::new(store, clock), database)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_with_two_serialization_failures_succeeds_once() {
    let (harness, database) = harness().await;
    database.connect().await.batch_execute(&abort_first("jobs", 2)).await.unwrap();
    let job = harness.accept(harness.job()).await;
    assert!(writes(&database).await > 2);
    let lease = harness.claim_one().await;
    assert_eq!(lease.job.id, job.id);
    harness.settle(&lease, done()).await.unwrap();
    let record = harness.record(job.id).await;
    assert_eq!((record.job.status, record.history.len()), (Status::Completed, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serialization_failures_without_end_are_retried_a_bounded_number_of_times() {
    let (harness, database) = harness().await;
    let client = database.connect().await;
    client.batch_execute(&abort_first("jobs", i64::MAX)).await.unwrap();
    let job = harness.job();
    let failed = harness.submit(job.clone()).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    let attempts = writes(&database).await;
    assert!((2..=10).contains(&attempts), "{attempts} attempts");
    client.batch_execute("DROP TRIGGER abort_first ON longhaul.jobs").await.unwrap();
    assert_eq!(harness.try_record(job.id).await.unwrap_err(), StoreError::NotFound);
    harness.accept(job).await;
}

/// Isolates all transactions of new connections from each other, so that those that touch the same rows fail, and ends the
/// existing connections.
async fn isolate(database: &TestDatabase, isolation: &str) {
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    let isolate =
        format!("ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'");
    database.administer(&isolate).await;
    let end =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    database.administer(&end).await;
}

/// Runs concurrent replicas on a database whose default isolation an operator changes meanwhile. Sessions must not use it,
/// because statements rely on seeing what was committed before each of them.
async fn run_isolated(isolation: &str, options: &str) {
    let database = TestDatabase::create().await;
    let url = database.url() + options;
    let runs: Arc<Mutex<BTreeMap<(u64, &str), usize>>> = Arc::default();
    let mut engines = Vec::new();
    for replica in 0..REPLICAS {
        let runs = Arc::clone(&runs);
        let work = move |ctx: Ctx, number: u64| {
            let runs = Arc::clone(&runs);
            async move {
                for step in STEPS {
                    let run = || async {
                        *runs.lock().unwrap().entry((number, step)).or_default() += 1;
                        Ok::<_, JobError>(number)
                    };
                    ctx.step(step, run).await?;
                }
                Ok::<_, JobError>(number)
            }
        };
        let store = open_now(&url, Clock::system());
        let engine = Engine::builder().store(Arc::new(store)).clock(Clock::system());
        let engine = engine.replica(format!("replica-{replica}")).concurrency(8);
        let engine = engine.lease(Duration::from_mins(5), Duration::from_millis(100));
        engines.push(engine.kind("work", work).start().await.unwrap());
    }
    isolate(&database, isolation).await;
    let mut ids = BTreeSet::new();
    let mut submissions = tokio::task::JoinSet::new();
    for number in 0..JOBS {
        // Each key is submitted by all replicas at once.
        for engine in &engines {
            let engine = engine.clone();
            submissions.spawn(async move {
                loop {
                    let submission = engine.submit_raw("work", &number).key(format!("{number}"));
                    match submission.await {
                        Ok(job) => return (number, job),
                        Err(longhaul::SubmitError::Store(StoreError::Unavailable(_))) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    }
    for (number, job) in submissions.join_all().await {
        assert_eq!(job.result_as::<u64>().await.unwrap(), number);
        let record = job.record().await.unwrap();
        assert_eq!(record.job.attempt, 1, "{record:?}");
        let ends = record.history.iter().filter(|event| event.status.is_terminal());
        assert_eq!(ends.count(), 1, "{:?}", record.history);
        ids.insert(job.id());
    }
    assert_eq!(ids.len() as u64, JOBS, "one job for each key");
    let runs = runs.lock().unwrap().clone();
    assert_eq!(runs.len() as u64, JOBS * STEPS.len() as u64);
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    for engine in engines {
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_run_once_in_a_database_that_becomes_serializable() {
    run_isolated("serializable", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_run_once_in_a_database_that_becomes_repeatable_read() {
    run_isolated("repeatable read", "").await;
}

/// As behind a transaction pooler, where no setting of a session lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_run_once_behind_a_pooler_in_a_database_that_becomes_repeatable_read() {
    run_isolated("repeatable read", "?pgbouncer=true").await;
}
