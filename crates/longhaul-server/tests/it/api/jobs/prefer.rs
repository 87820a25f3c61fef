use axum::http::StatusCode;
use serde_json::json;

use crate::harness::{TestRequest, TestServer};

fn gated(server: &TestServer, prefer: &str) -> TestRequest {
    let ask = server.post("/v1/jobs").json(json!({"kind": "gated", "input": 7}));
    ask.header("prefer", prefer)
}

#[tokio::test]
async fn synchronous_submission_returns_the_result() {
    let server = TestServer::start().await;
    server.open_gate();
    let response = gated(&server, "wait=5").send().await;
    assert_eq!(response.status, StatusCode::OK);
    assert_eq!(response.header("preference-applied"), Some("wait=5"));
    assert_eq!(response.json()["result"], 7);
}

#[tokio::test]
async fn job_continues_after_the_wait_timeout() {
    let server = TestServer::start().await;
    let response = server.pass_time(gated(&server, "wait=3600")).await;
    assert_eq!(response.status, StatusCode::ACCEPTED);
    assert_eq!(response.header("preference-applied"), Some("wait=60"), "sync_wait_max");
    assert!(response.header("retry-after").is_some());
    server.open_gate();
    let job = server.until(&response.json(), |job| job["status"] == "completed").await;
    assert_eq!(job["result"], 7);
}

#[tokio::test]
async fn prefer_respond_async_is_applied_and_acknowledged() {
    let server = TestServer::start().await;
    let response = gated(&server, "respond-async").send().await;
    assert_eq!(response.status, StatusCode::ACCEPTED);
    assert_eq!(response.header("preference-applied"), Some("respond-async"));
}

#[tokio::test]
async fn mode_sync_waits_and_other_modes_are_refused() {
    let server = TestServer::start().await;
    let response = server.post("/v1/kinds/echo/jobs?mode=sync").json_text("7").send().await;
    assert_eq!((response.status, &response.json()["result"]), (StatusCode::OK, &json!(7)));
    for query in ["mode=eventually", "mod=sync", "mode=sync&mode=sync"] {
        let response =
            server.post(&format!("/v1/kinds/echo/jobs?{query}")).json_text("7").send().await;
        assert_eq!(response.problem(), (400, "bad-request".to_owned()), "{query}");
    }
}

#[tokio::test]
async fn waiting_submission_gets_a_response_when_the_server_stops() {
    let server = TestServer::start().await;
    let held = tokio::spawn(gated(&server, "wait=60").send());
    let list = loop {
        let list = server.get("/v1/jobs").send().await.json();
        if list["jobs"][0].is_object() {
            break list;
        }
        tokio::task::yield_now().await;
    };
    server.state.stop.cancel();
    let response = held.await.unwrap();
    assert_eq!(response.status, StatusCode::ACCEPTED);
    assert_eq!(response.json()["jobId"], list["jobs"][0]["jobId"]);
}
