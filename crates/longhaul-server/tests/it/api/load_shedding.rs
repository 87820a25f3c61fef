//! Load shedding.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_server::api::LoadShedder;
use serde_json::json;
use tokio::task::JoinSet;

use super::outage::{SharedFaultyStore, start_with};
use crate::harness::{TestResponse, TestServer, status_url};

/// Starts a server that takes this many requests at once, and returns its store to make it slow.
async fn start(requests_max: usize) -> (TestServer, SharedFaultyStore) {
    start_with(|state| state.load_shedder = LoadShedder::new(requests_max, state.clock.clone()))
        .await
}

fn submit(server: &TestServer) -> impl Future<Output = TestResponse> + Send + use<> {
    server.post("/v1/jobs").json(json!({"kind": "echo", "input": 1})).send()
}

#[tokio::test]
async fn load_shedding_rejects_submissions_before_reads_and_recovers() {
    let (server, store) = start(10).await;
    let job = server.submit("echo", json!(1)).await;
    store.stall_submits(true);
    let mut stuck: JoinSet<TestResponse> = (0..9).map(|_| submit(&server)).collect();
    let refused = stuck.join_next().await.unwrap().unwrap();
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    for batch in [
        server.post("/v1/jobs/batch").json(json!({"jobs": []})),
        server.post("/v1/kinds/echo/jobs").json(json!(1)),
    ] {
        assert_eq!(batch.send().await.problem(), (503, "overloaded".to_owned()));
    }
    let cancel = format!("{}/cancel", status_url(&job));
    for ask in [
        server.get("/livez"),
        server.get("/readyz"),
        server.get("/v1/jobs"),
        server.get(status_url(&job)),
        server.post(&cancel),
    ] {
        assert_eq!(ask.send().await.status, StatusCode::OK);
    }
    let metrics = server.get("/metrics").send().await;
    let shed = r#"longhaul_requests_shed_total{reason="places"} 3"#;
    assert!(metrics.text().contains(shed), "{}", metrics.text());

    store.stall_submits(false);
    while let Some(response) = stuck.join_next().await {
        assert_eq!(response.unwrap().status, StatusCode::ACCEPTED);
    }
    assert_eq!(submit(&server).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn load_shedding_reacts_to_store_latency_before_the_request_limit() {
    let (server, store) = start(1_000_000).await;
    store.stall_submits(true);
    let mut stuck = JoinSet::new();
    let refused = loop {
        stuck.spawn(submit(&server));
        server.state.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
        if let Some(response) = stuck.try_join_next() {
            break response.unwrap();
        }
    };
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert_eq!(server.get("/v1/jobs").send().await.status, StatusCode::OK);
    store.stall_submits(false);
    let mut accepted = 0;
    while let Some(response) = stuck.join_next().await {
        accepted += usize::from(response.unwrap().status == StatusCode::ACCEPTED);
    }
    assert!(accepted > 0, "not all are refused");
    assert_eq!(submit(&server).await.status, StatusCode::ACCEPTED, "it heals by itself");
}

#[tokio::test]
async fn waiting_requests_do_not_count_as_in_flight() {
    let (server, _) = start(10).await;
    let job = server.submit("echo", json!(1)).await;
    let mut held = JoinSet::new();
    for _ in 0..15 {
        let body = json!({"kind": "echo", "input": 1});
        held.spawn(server.get(&format!("{}?wait=60", status_url(&job))).send());
        held.spawn(server.post("/v1/jobs?mode=sync").json(body).send());
        tokio::task::yield_now().await;
        // Both are in flight until they start to wait.
        while server.state.load_shedder.in_flight() > 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut answered = 0;
    while answered < 30 {
        server.state.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
        while let Some(response) = held.try_join_next() {
            assert!(response.as_ref().unwrap().status.is_success(), "{response:?}");
            answered += 1;
        }
    }
}
