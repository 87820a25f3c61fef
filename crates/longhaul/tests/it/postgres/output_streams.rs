//! Output streams between two replicas on one database.

use std::sync::Arc;

use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{LeaseRef, OutputChunks};
use longhaul::{Clock, Ctx, Engine, JobError, Kind, OutputRead, TenantId};
use tokio::sync::Semaphore;

use super::database::{TestDatabase, connect};
use super::pgbouncer::Bouncer;
use super::wait::until;

/// Returns a kind that writes each of its words when it gets a permit, and ends with one more.
fn speaker(permits: &Arc<Semaphore>) -> Kind {
    let permits = Arc::clone(permits);
    Kind::new("speaker", move |ctx: Ctx, words: Vec<String>| {
        let permits = Arc::clone(&permits);
        async move {
            let output = ctx.output_stream();
            for word in words {
                permits.acquire().await.map_err(JobError::fatal)?.forget();
                output.add(&word);
            }
            permits.acquire().await.map_err(JobError::fatal)?.forget();
            Ok::<_, JobError>(())
        }
    })
}

async fn start(url: &str, name: &str, kind: Kind, concurrency: usize) -> Engine {
    let engine = Engine::builder().postgres(url).clock(Clock::system()).replica(name);
    engine.register(kind).concurrency(concurrency).start().await.unwrap()
}

/// Returns the number of rows with output.
async fn rows(database: &TestDatabase) -> i64 {
    let client = connect(&database.url()).await;
    let count = client.query_one("SELECT count(*) FROM longhaul.output_chunks", &[]).await;
    count.unwrap().get(0)
}

/// A job runs on one replica, and its output is read on another while it runs.
async fn assert_output_is_streamed(database: &TestDatabase, url: &str) {
    let permits = Arc::new(Semaphore::new(0));
    let api = start(url, "api", Kind::remote("speaker"), 0).await;
    let worker = start(url, "worker", speaker(&permits), 2).await;
    let job = api.submit_raw("speaker", &["one", "two", "three"]).await.unwrap();
    let mut reader = api.read_output(job.id());
    let mut epochs = Vec::new();
    for expected in ["one", "two", "three"] {
        permits.add_permits(1);
        let OutputRead::Chunk(epoch, text) = reader.next().await else { panic!("missed") };
        assert_eq!(&*text, expected);
        epochs.push(epoch);
    }
    assert_eq!(epochs, [1, 1, 1]);
    assert_eq!(rows(database).await, 3);
    // A reader that comes late, and one of another tenant.
    let mut other = api.for_tenant(TenantId::new("other").unwrap()).read_output(job.id());
    let mut late = api.read_output(job.id());
    for expected in ["one", "two", "three"] {
        assert_eq!(late.next().await, OutputRead::Chunk(1, expected.into()));
    }
    assert_eq!(other.now(), None);
    permits.add_permits(1);
    job.result_as::<()>().await.unwrap();
    drop((reader, late, other));
    assert_eq!(api.open_outputs(), 0);
    until("the output to be deleted", async || (rows(database).await == 0).then_some(())).await;
    assert_eq!(worker.open_outputs(), 0);
    worker.stop().await;
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_streamed_to_another_replica() {
    let database = TestDatabase::create().await;
    assert_output_is_streamed(&database, &database.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_streamed_to_another_replica_behind_a_pooler() {
    let database = TestDatabase::create().await;
    let bouncer = Bouncer::before(&database.url(), 3).await;
    assert_output_is_streamed(&database, &bouncer.url(&database.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_worker_leaves_no_output_behind() {
    let database = TestDatabase::create().await;
    let permits = Arc::new(Semaphore::new(1));
    let api = start(&database.url(), "api", Kind::remote("speaker"), 0).await;
    let worker = start(&database.url(), "worker", speaker(&permits), 2).await;
    let job = api.submit_raw("speaker", &["one"]).await.unwrap();
    let mut reader = api.read_output(job.id());
    assert_eq!(reader.next().await, OutputRead::Chunk(1, "one".into()));
    permits.add_permits(1);
    worker.stop().await;
    assert_eq!(rows(&database).await, 0);
    api.stop().await;
}

/// A worker died after it had written output. Any replica deletes it once the job is rescued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_of_a_dead_worker_is_deleted_by_another_replica() {
    let (database, clock) = (TestDatabase::create().await, StoreHarness::clock());
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let harness = StoreHarness::new(store, clock.clone());
    let lease = harness.running().await;
    let appended = [chunk(&lease.to_ref(), "one")];
    harness.store().output_streams().unwrap().append_output(&appended).await.unwrap();
    harness.lose(&lease).await;
    assert_eq!(rows(&database).await, 1);
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let engine = Engine::builder().store(Arc::new(store)).clock(clock).start().await.unwrap();
    until("the output to be deleted", async || (rows(&database).await == 0).then_some(())).await;
    engine.stop().await;
}

fn chunk(lease: &LeaseRef, text: &str) -> OutputChunks {
    OutputChunks { lease: lease.clone(), first: 0, chunks: vec![text.into()] }
}

/// Chunks may be lost, so no append waits for the disk.
#[tokio::test]
async fn output_is_appended_without_a_sync() {
    let database = TestDatabase::create().await;
    let store = PostgresStore::open(&database.url(), Clock::system()).await.unwrap();
    let client = connect(&database.url()).await;
    let begin = "BEGIN; INSERT INTO longhaul.leases
        (tenant_id, id, queue, replica, epoch, version, claimed_at, lease_until, started_at, claim, attempt)
        VALUES ('default', 'j', 'default', 'r', 1, 1, 1, 1, 1, 1, 1)";
    client.batch_execute(begin).await.unwrap();
    let sql = include_str!("../../../src/store/postgres/sql/leases/append_output.sql");
    let (tenants, ids) = (vec!["default"], vec!["j"]);
    let (epochs, firsts, chunks) = (vec![1_i64], vec![0_i64], vec!["[]"]);
    let inserted = client.execute(sql, &[&tenants, &ids, &epochs, &firsts, &chunks]).await;
    assert_eq!(inserted.unwrap(), 1);
    let setting = client.query_one("SHOW synchronous_commit", &[]).await.unwrap();
    assert_eq!(setting.get::<_, &str>(0), "off");
    drop(store);
}
