use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul::job::Json;
use longhaul::store::faulty::{Fault, FaultPlan};
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Ctx, Engine, JobError};
use longhaul_server::api::AppState;
use serde_json::json;

use crate::harness::TestServer;

pub(super) type SharedFaultyStore = Arc<longhaul::store::faulty::FaultyStore<SqliteStore>>;

async fn start() -> (TestServer, SharedFaultyStore) {
    start_with(|_| {}).await
}

/// Starts a server that runs no jobs, and returns its store to inject faults.
pub(super) async fn start_with(
    change: impl FnOnce(&mut AppState),
) -> (TestServer, SharedFaultyStore) {
    let clock = Clock::system();
    let inner = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
    let store = Arc::new(longhaul::store::faulty::FaultyStore::new(inner, FaultPlan::none()));
    let engine = Engine::builder()
        .clock(clock)
        .store(Arc::clone(&store) as _)
        .concurrency(0)
        .rescue_interval(Duration::from_hours(1))
        .kind("echo", |_: Ctx, input: Json| async { Ok::<_, JobError>(input) })
        .start()
        .await
        .unwrap();
    let server = TestServer::with_state(|state| {
        state.engine = engine;
        change(state);
    });
    (server.await, store)
}

fn everything_fails() -> FaultPlan {
    FaultPlan::seeded(0, 1_000)
}

#[tokio::test]
async fn unavailable_store_is_503_with_retry_after() {
    let (server, store) = start().await;
    let job = server.submit("echo", json!(1)).await;
    let url = job["statusUrl"].as_str().unwrap();
    store.follow(everything_fails());
    for ask in [
        server.post("/v1/jobs").json(json!({"kind": "echo", "input": 1})),
        server.get(url),
        server.get(&format!("{url}/events")),
        server.get("/v1/jobs"),
        server.post(&format!("{url}/cancel")),
        server.get("/v1/queues"),
        server.get("/"),
    ] {
        let response = ask.send().await;
        assert_eq!(response.problem(), (503, "unavailable".to_owned()));
        assert_eq!(response.header("retry-after"), Some("1"));
    }
    store.follow(FaultPlan::none());
    assert_eq!(server.get(url).send().await.status, StatusCode::OK, "it heals by itself");
}

#[tokio::test]
async fn server_without_its_store_is_alive_but_not_ready() {
    let (server, store) = start().await;
    store.follow(everything_fails());
    assert_eq!(server.get("/livez").send().await.status, StatusCode::OK);
    assert_eq!(server.get("/metrics").send().await.status, StatusCode::OK);
    for path in ["/readyz", "/healthz"] {
        let response = server.get(path).send().await;
        assert_eq!(response.problem(), (503, "unavailable".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn submission_whose_response_was_lost_can_be_repeated() {
    let (server, store) = start().await;
    let body = json!({"kind": "echo", "input": 1});
    let submit =
        || server.post("/v1/jobs").header("idempotency-key", "k").json(body.clone()).send();
    // A background call of the engine may consume the fault, so this repeats until the submission did.
    loop {
        store.fail_next(Fault::AfterCommit);
        if submit().await.status == StatusCode::SERVICE_UNAVAILABLE {
            break;
        }
    }
    assert_eq!(submit().await.status, StatusCode::ACCEPTED);
    let list = server.get("/v1/jobs").send().await.json();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn batch_reports_an_unavailable_store_for_each_job() {
    let (server, store) = start().await;
    store.follow(everything_fails());
    let body = json!({"jobs": [{"kind": "echo", "input": 1}, {"kind": "nothing", "input": 1}]});
    let responses = server.post("/v1/jobs/batch").json(body).send().await.json();
    assert_eq!(responses[0]["code"], "unavailable");
    assert_eq!(responses[1]["code"], "unknown-kind");
}
