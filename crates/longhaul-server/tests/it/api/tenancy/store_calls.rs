//! Calls of the store that a request makes: the same ones for another tenant's job as for an unknown one, so that
//! response times tell nothing about it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::job::Json;
use longhaul::store::Store;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Ctx, Engine, JobError};
use serde_json::json;

use super::{UNKNOWN, ask, operations, tenant, with_id};
use crate::harness::{TestDatabase, TestServer};

/// Calls that the engine makes without a request.
const BACKGROUND: [&str; 17] = [
    "blob_bytes",
    "blobs_to_delete",
    "change_notifications",
    "claim",
    "expire_payloads",
    "heartbeat",
    "next_due_at",
    "now",
    "orphan_blobs",
    "outbox_notify",
    "output_streams",
    "prune",
    "queue_totals",
    "replicas",
    "rescue",
    "roll_up_usage",
    "work_dirs",
];

/// A store that records the names of its calls.
struct RecordingStore {
    inner: Arc<dyn Store>,
    calls: Mutex<Vec<&'static str>>,
}

impl RecordingStore {
    fn record(&self, call: &'static str) -> &dyn Store {
        if !BACKGROUND.contains(&call) {
            self.calls.lock().unwrap().push(call);
        }
        &*self.inner
    }

    /// Returns the calls since the last time.
    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

macro_rules! call {
    ($this:ident, $method:ident $(, $argument:ident)*) => {
        $this.record(stringify!($method)).$method($($argument),*)
    };
}

longhaul::delegate_store!(impl[] for RecordingStore, call);

async fn makes_the_same_calls(inner: Arc<dyn Store>) {
    let store = Arc::new(RecordingStore { inner, calls: Mutex::default() });
    let engine = Engine::builder()
        .clock(Clock::system())
        .store(Arc::clone(&store) as _)
        .concurrency(0)
        .rescue_interval(Duration::from_hours(1))
        .kind("echo", |_: Ctx, input: Json| async { Ok::<_, JobError>(input) });
    let engine = engine.start().await.unwrap();
    let builder = TestServer::builder().require_keys();
    let server = builder.start_with(|state| state.engine = engine).await;
    let admin = server.state.auth.create_first_key().await.unwrap().unwrap().text.to_string();
    let (blue, green) =
        (tenant(&server, &admin, "blue").await, tenant(&server, &admin, "green").await);
    let submit = async || {
        let submit = server.post("/v1/jobs").key(&blue);
        submit.json(json!({"kind": "echo", "input": 1})).send().await.json()
    };
    let [pending, cancelled] = [submit().await, submit().await];
    let ids = [&pending, &cancelled].map(|job| job["jobId"].as_str().unwrap());
    let cancel = server.post(&format!("/v1/jobs/{}/cancel", ids[1])).key(&blue).send().await;
    assert_eq!(cancel.json()["status"], "cancelled");

    let document = server.get("/openapi.json").send().await.json();
    let mut made = 0;
    for operation in operations(&document) {
        if !operation.1.starts_with("/v1/jobs/{id}") {
            continue;
        }
        let calls = async |id| {
            store.calls();
            let response = ask(&server, &with_id(&operation, id), &green).await;
            assert_eq!(response.status, 404, "{operation:?}: {response:?}");
            store.calls()
        };
        let expected = calls(UNKNOWN).await;
        made += expected.len();
        for id in ids {
            assert_eq!(calls(id).await, expected, "{operation:?}");
        }
    }
    assert!(made >= 10, "{made} recorded calls");
}

#[tokio::test]
async fn other_tenants_job_costs_the_same_store_calls_as_an_unknown_one_on_every_route() {
    makes_the_same_calls(Arc::new(SqliteStore::memory(Clock::system()).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_job_costs_the_same_store_calls_as_an_unknown_one_on_postgres() {
    let database = TestDatabase::create().await;
    let store = PostgresStore::open(&database.url(), Clock::system()).await.unwrap();
    makes_the_same_calls(Arc::new(store)).await;
}
