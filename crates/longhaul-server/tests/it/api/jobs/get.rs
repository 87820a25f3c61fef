use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::harness::{TestServer, redacted, status_url};

#[tokio::test]
async fn completed_job_has_every_key() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!({"n": 1})).await;
    insta::assert_json_snapshot!(redacted(job), @r#"
    {
      "jobId": "[id]",
      "kind": "echo",
      "queue": "default",
      "status": "completed",
      "phase": null,
      "priority": 0,
      "attempt": 1,
      "maxAttempts": 3,
      "progress": null,
      "labels": {},
      "version": 3,
      "idempotencyKey": null,
      "createdAt": "[time]",
      "runAt": "[time]",
      "startedAt": "[time]",
      "completedAt": "[time]",
      "expiresAt": "[time]",
      "result": {
        "n": 1
      },
      "error": null,
      "artifacts": [],
      "statusUrl": "/v1/jobs/[id]",
      "eventsUrl": "/v1/jobs/[id]/events",
      "retryAfter": null,
      "forkedFrom": null,
      "parentId": null
    }
    "#);
}

#[tokio::test]
async fn keys_come_in_the_order_of_the_contract() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    let text = server.get(status_url(&job)).send().await.text().to_owned();
    let order = [
        "jobId",
        "kind",
        "queue",
        "status",
        "phase",
        "priority",
        "attempt",
        "maxAttempts",
        "progress",
        "labels",
        "version",
        "idempotencyKey",
        "createdAt",
        "runAt",
        "startedAt",
        "completedAt",
        "expiresAt",
        "result",
        "error",
        "artifacts",
        "statusUrl",
        "eventsUrl",
        "retryAfter",
        "forkedFrom",
        "parentId",
    ];
    let places = order.map(|key| text.find(&format!("\"{key}\":")).expect(key));
    assert!(places.is_sorted(), "{text}");
}

#[tokio::test]
async fn etag_is_the_version_and_a_known_one_is_304() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    let response = server.get(status_url(&job)).send().await;
    let etag = format!("\"{}\"", job["version"]);
    assert_eq!(response.header("etag"), Some(&*etag));
    for known in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
        let response = server.get(status_url(&job)).header("if-none-match", &known).send().await;
        assert_eq!(response.status, StatusCode::NOT_MODIFIED, "{known}");
        assert_eq!(response.header("etag"), Some(&*etag));
        assert!(response.body.is_empty());
    }
    let response = server.get(status_url(&job)).header("if-none-match", "\"1\"").send().await;
    assert_eq!(response.status, StatusCode::OK);
}

#[tokio::test]
async fn retry_after_is_in_header_and_body_until_the_job_has_ended() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(1)).await;
    let response = server.get(status_url(&job)).send().await;
    let body = response.json();
    assert_eq!(response.header("retry-after"), Some(&*body["retryAfter"].to_string()));
    server.open_gate();
    let job = server.until(&job, |job| job["status"] == "completed").await;
    let response = server.get(status_url(&job)).send().await;
    assert_eq!(response.header("retry-after"), None);
    assert_eq!(response.json()["retryAfter"], json!(null));
}

#[tokio::test]
async fn long_poll_waits_until_the_version_changes() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(1)).await;
    let job = server.until_running(&job).await;
    let held = tokio::spawn(server.get(&format!("{}?wait=60", status_url(&job))).send());
    server.open_gate();
    let response = held.await.unwrap();
    assert_eq!(
        (response.status, &response.json()["status"]),
        (StatusCode::OK, &json!("completed"))
    );
}

#[tokio::test]
async fn long_poll_with_the_current_version_is_304_after_its_timeout() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(1)).await;
    let job = server.until_running(&job).await;
    let etag = format!("\"{}\"", job["version"]);
    let path = format!("{}?wait=5", status_url(&job));
    let response = server.pass_time(server.get(&path).header("if-none-match", &etag)).await;
    assert_eq!(response.status, StatusCode::NOT_MODIFIED);
    assert!(response.header("retry-after").is_some());
    let response = server.pass_time(server.get(&path)).await;
    assert_eq!(response.status, StatusCode::OK, "without a known version there is a body");
    let response = server.get(&path).header("if-none-match", "\"0\"").send().await;
    assert_eq!(response.status, StatusCode::OK, "another version is answered at once");
}

#[tokio::test]
async fn long_poll_of_a_finished_job_returns_at_once() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    let response = server.get(&format!("{}?wait=60", status_url(&job))).send().await;
    assert_eq!(response.status, StatusCode::OK);
}

#[tokio::test]
async fn long_poll_with_fractional_seconds_is_400() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    for query in ["wait=soon", "wait=-1", "wait=1.5", "wait=1&wait=1", "wiat=1"] {
        let response = server.get(&format!("{}?{query}", status_url(&job))).send().await;
        assert_eq!(response.problem(), (400, "bad-request".to_owned()), "{query}");
    }
}

#[tokio::test]
async fn head_returns_the_headers_of_get_without_a_body() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    let (head, get) = (
        server.request(Method::HEAD, status_url(&job)).send().await,
        server.get(status_url(&job)).send().await,
    );
    assert_eq!((head.status, head.header("etag")), (get.status, get.header("etag")));
    assert!(head.body.is_empty());
}

#[tokio::test]
async fn unknown_and_malformed_ids_are_the_same_404() {
    let server = TestServer::start().await;
    let mut bodies = Vec::new();
    for id in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "1", "%FF", "01ARZ3NDEKTSV4RRFFQ69G5FAVX"]
    {
        for part in ["", "/input", "/result", "/steps", "/attempts", "/events"] {
            let path = format!("/v1/jobs/{id}{part}");
            let response = server.get(&path).header("x-request-id", "r").send().await;
            assert_eq!(response.problem(), (404, "job-not-found".to_owned()), "{path}");
            bodies.push(response.body);
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    insta::assert_snapshot!(std::str::from_utf8(&bodies[0]).unwrap(), @r#"{"type":"/problems/job-not-found","title":"Unknown job","status":404,"detail":"job not found","code":"job-not-found","requestId":"r"}"#);
}

#[tokio::test]
async fn deleted_job_is_410() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    server.delete(status_url(&job)).send().await;
    for part in ["", "/input", "/result", "/steps", "/attempts", "/events"] {
        let response = server.get(&format!("{}{part}", status_url(&job))).send().await;
        assert_eq!(response.problem(), (410, "job-gone".to_owned()), "{part}");
    }
}

#[tokio::test]
async fn result_exists_only_for_completed_jobs() {
    let server = TestServer::start().await;
    let gated = server.submit("gated", json!(1)).await;
    let failed = server.run("fails", json!(1)).await;
    let early = server.get(&format!("{}/result", status_url(&gated))).send().await;
    assert_eq!(early.problem(), (409, "wrong-status".to_owned()));
    assert!(early.header("retry-after").is_some());
    let never = server.get(&format!("{}/result", status_url(&failed))).send().await;
    assert_eq!(never.problem(), (409, "wrong-status".to_owned()));
    assert_eq!(never.header("retry-after"), None);
    assert_eq!(never.detail(), "the job failed (cheese): the disk is made of cheese");
}
