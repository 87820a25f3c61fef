use serde_json::json;

use crate::harness::{TestServer, redacted, status_url};

#[tokio::test]
async fn steps_are_listed_in_order() {
    let server = TestServer::start().await;
    let job = server.run("steps", json!({})).await;
    let steps = server.get(&format!("{}/steps", status_url(&job))).send().await.json();
    insta::assert_json_snapshot!(redacted(steps), @r#"
    {
      "steps": [
        {
          "name": "one",
          "position": 0,
          "output": 1,
          "attempt": 1,
          "startedAt": "[time]",
          "completedAt": "[time]"
        },
        {
          "name": "two",
          "position": 1,
          "output": 2,
          "attempt": 1,
          "startedAt": "[time]",
          "completedAt": "[time]"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn attempts_list_their_replica_and_error() {
    let server = TestServer::start().await;
    let job = server.run("fails", json!({})).await;
    let attempts = server.get(&format!("{}/attempts", status_url(&job))).send().await.json();
    insta::assert_json_snapshot!(redacted(attempts), @r#"
    {
      "attempts": [
        {
          "attempt": 1,
          "replica": "test",
          "startedAt": "[time]",
          "endedAt": "[time]",
          "status": "failed",
          "error": {
            "code": "cheese",
            "message": "the disk is made of cheese",
            "retryable": false,
            "attempt": 1
          }
        }
      ]
    }
    "#);
}
