use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{TestResponse, TestServer, status_url};

async fn submit(server: &TestServer, key: &str, kind: &str, input: Value) -> TestResponse {
    let body = json!({"kind": kind, "input": input});
    server.post("/v1/jobs").header("idempotency-key", key).json(body).send().await
}

#[tokio::test]
async fn repeated_submission_returns_the_existing_job() {
    let server = TestServer::start().await;
    let first = submit(&server, "k", "gated", json!({"a": 1, "b": 2})).await;
    let again = submit(&server, "\"k\"", "gated", json!({"b": 2, "a": 1.0})).await;
    assert_eq!((first.status, again.status), (StatusCode::ACCEPTED, StatusCode::ACCEPTED));
    assert_eq!(first.json()["jobId"], again.json()["jobId"]);
    server.open_gate();
    server.until(&first.json(), |job| job["status"] == "completed").await;
    let late = submit(&server, "k", "gated", json!({"a": 1, "b": 2})).await;
    assert_eq!(late.status, StatusCode::OK);
    assert_eq!(late.json()["jobId"], first.json()["jobId"]);
    assert_eq!(late.json()["result"], json!({"a": 1, "b": 2}));
    assert_eq!(server.runs(), 1);
}

#[tokio::test]
async fn repeated_submission_of_a_failed_job_is_200() {
    let server = TestServer::start().await;
    let job = submit(&server, "k", "fails", json!({})).await.json();
    server.until(&job, |job| job["status"] == "failed").await;
    let again = submit(&server, "k", "fails", json!({})).await;
    assert_eq!((again.status, &again.json()["status"]), (StatusCode::OK, &json!("failed")));
}

#[tokio::test]
async fn idempotency_key_reused_with_another_body_is_rejected() {
    let server = TestServer::start().await;
    let first = submit(&server, "k", "gated", json!({"a": 1})).await.json();
    for (kind, input) in [("gated", json!({"a": 2})), ("echo", json!({"a": 1}))] {
        let other = submit(&server, "k", kind, input).await;
        assert_eq!(other.problem(), (422, "idempotency-key-reused".to_owned()));
        assert!(other.detail().contains(first["jobId"].as_str().unwrap()), "{}", other.detail());
    }
}

#[tokio::test]
async fn malformed_idempotency_keys_are_rejected() {
    let server = TestServer::start().await;
    for key in ["", "two words", "\"open", &"k".repeat(256)] {
        let response = submit(&server, key, "echo", json!({})).await;
        assert_eq!(response.problem(), (400, "idempotency-key-invalid".to_owned()), "{key:?}");
    }
    let twice = server
        .post("/v1/jobs")
        .header("idempotency-key", "k")
        .header("idempotency-key", "k")
        .json(json!({"kind": "echo", "input": {}}));
    assert_eq!(twice.send().await.problem(), (400, "idempotency-key-invalid".to_owned()));
}

#[tokio::test]
async fn idempotency_key_is_required_if_configured() {
    let server =
        TestServer::with_state(|state| state.settings.require_idempotency_key = true).await;
    for ask in [
        server.post("/v1/jobs").json(json!({"kind": "echo", "input": {}})),
        server.post("/v1/kinds/echo/jobs").json_text("{}"),
    ] {
        assert_eq!(ask.send().await.problem(), (400, "idempotency-key-required".to_owned()));
    }
    assert_eq!(submit(&server, "k", "echo", json!({})).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn rejected_submission_does_not_consume_its_idempotency_key() {
    let server = TestServer::start().await;
    for refused in [
        json!({"kind": "nothing", "input": {}}),
        json!({"kind": "echo", "input": {}, "priority": 1000}),
        json!({"kind": "echo", "input": {}, "colour": "red"}),
    ] {
        let ask = server.post("/v1/jobs").header("idempotency-key", "k").json(refused);
        assert!(ask.send().await.status.is_client_error());
    }
    assert_eq!(submit(&server, "k", "echo", json!({"a": 1})).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn purged_job_releases_its_idempotency_key() {
    let server = TestServer::start().await;
    let first = submit(&server, "k", "echo", json!({"a": 1})).await.json();
    server.until(&first, |job| job["status"] == "completed").await;
    assert_eq!(server.delete(status_url(&first)).send().await.status, StatusCode::NO_CONTENT);
    let other = submit(&server, "k", "echo", json!({"a": 2})).await;
    assert_eq!(other.status, StatusCode::ACCEPTED);
    assert_ne!(other.json()["jobId"], first["jobId"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_concurrent_submissions_of_one_key_make_one_job() {
    let server = TestServer::start().await;
    let asks = (0..100).map(|_| {
        let body = json!({"kind": "gated", "input": {"n": 1}});
        tokio::spawn(server.post("/v1/jobs").header("idempotency-key", "k").json(body).send())
    });
    let mut ids = std::collections::HashSet::new();
    for ask in asks.collect::<Vec<_>>() {
        let response = ask.await.unwrap();
        assert_eq!(response.status, StatusCode::ACCEPTED);
        ids.insert(response.json()["jobId"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 1);
    let list = server.get("/v1/jobs").send().await.json();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 1);
}
