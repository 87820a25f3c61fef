use axum::http::StatusCode;
use serde_json::json;

use crate::harness::{TestServer, redacted};

#[tokio::test]
async fn batch_accepts_or_rejects_each_job_independently() {
    let server = TestServer::start().await;
    let body = json!({"jobs": [
        {"kind": "gated", "input": 1, "idempotencyKey": "a"},
        {"kind": "nothing", "input": 1},
        {"kind": "gated", "input": 1, "idempotencyKey": "a"},
        {"kind": "gated", "input": 2, "idempotencyKey": "a"},
        {"kind": "gated", "input": 1, "idempotencyKey": "two words"},
        {"kind": "gated"},
        7,
    ]});
    let response = server.post("/v1/jobs/batch").json(body).send().await;
    assert_eq!(response.status, StatusCode::OK);
    let responses = response.json();
    let codes: Vec<&str> = responses
        .as_array()
        .unwrap()
        .iter()
        .map(|response| response["code"].as_str().unwrap_or("accepted"))
        .collect();
    assert_eq!(
        codes,
        [
            "accepted",
            "unknown-kind",
            "accepted",
            "idempotency-key-reused",
            "idempotency-key-invalid",
            "validation",
            "invalid-json",
        ]
    );
    assert_eq!(responses[0]["jobId"], responses[2]["jobId"]);
    insta::assert_json_snapshot!(redacted(responses[1].clone()), @r#"
    {
      "type": "/problems/unknown-kind",
      "title": "Unknown kind",
      "status": 422,
      "detail": "unknown kind \"nothing\"; known kinds: echo, fails, gated, steps",
      "code": "unknown-kind",
      "requestId": "[id]"
    }
    "#);
}

#[tokio::test]
async fn batch_over_its_limit_is_rejected_as_a_whole() {
    let server = TestServer::start().await;
    let jobs = vec![json!({"kind": "echo", "input": 1}); 1001];
    let response = server.post("/v1/jobs/batch").json(json!({"jobs": jobs})).send().await;
    assert_eq!(response.problem(), (422, "validation".to_owned()));
    let list = server.get("/v1/jobs").send().await.json();
    assert_eq!(list["jobs"], json!([]));
}

#[tokio::test]
async fn thousand_jobs_are_one_batch() {
    let server = TestServer::start().await;
    let jobs = vec![json!({"kind": "echo", "input": 1, "delay": "1h"}); 1000];
    let response = server.post("/v1/jobs/batch").json(json!({"jobs": jobs})).send().await;
    assert_eq!(response.json().as_array().unwrap().len(), 1000);
}

#[tokio::test]
async fn empty_batch_is_an_empty_list() {
    let server = TestServer::start().await;
    let response = server.post("/v1/jobs/batch").json(json!({"jobs": []})).send().await;
    assert_eq!((response.status, response.json()), (StatusCode::OK, json!([])));
}

#[tokio::test]
async fn batch_rejects_a_shared_idempotency_key() {
    let server = TestServer::start().await;
    let ask = server.post("/v1/jobs/batch").header("idempotency-key", "k");
    let response = ask.json(json!({"jobs": []})).send().await;
    assert_eq!(response.problem(), (400, "idempotency-key-invalid".to_owned()));
}
