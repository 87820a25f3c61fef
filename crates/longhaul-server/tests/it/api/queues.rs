use axum::http::StatusCode;
use serde_json::json;

use crate::harness::{TestServer, redacted, status_url};

#[tokio::test]
async fn paused_queue_runs_no_jobs_until_it_is_resumed() {
    let server = TestServer::start().await;
    let paused = server.post("/v1/queues/default/pause").send().await;
    assert_eq!((paused.status, &paused.json()["paused"]), (StatusCode::OK, &json!(true)));
    let job = server.submit("echo", json!(1)).await;
    let queues = server.get("/v1/queues").send().await.json();
    insta::assert_json_snapshot!(redacted(queues), @r#"
    {
      "queues": [
        {
          "name": "default",
          "paused": true,
          "pending": 1,
          "running": 0,
          "oldestDueAt": "[time]",
          "runningMax": null,
          "rate": null
        }
      ]
    }
    "#);
    assert_eq!(server.runs(), 0);
    let resumed = server.post("/v1/queues/default/resume").send().await;
    assert_eq!(resumed.json()["paused"], false);
    server.until(&job, |job| job["status"] == "completed").await;
    assert_eq!(server.get(status_url(&job)).send().await.json()["result"], 1);
}

#[tokio::test]
async fn queue_shows_its_limits() {
    let server = TestServer::start().await;
    let queue = server.post("/v1/queues/mail/pause").send().await.json();
    assert_eq!((&queue["runningMax"], &queue["rate"]), (&json!(10), &json!("100/1m")));
}

#[tokio::test]
async fn queue_without_jobs_can_be_resumed() {
    let server = TestServer::start().await;
    let response = server.post("/v1/queues/nobody/resume").send().await;
    insta::assert_json_snapshot!(response.json(), @r#"
    {
      "name": "nobody",
      "paused": false,
      "pending": 0,
      "running": 0,
      "oldestDueAt": null,
      "runningMax": null,
      "rate": null
    }
    "#);
}

#[tokio::test]
async fn invalid_queue_name_is_400() {
    let server = TestServer::start().await;
    let response = server.post("/v1/queues/a%2Fb/pause").send().await;
    assert_eq!(response.problem(), (400, "bad-request".to_owned()));
}
