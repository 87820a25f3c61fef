use serde_json::json;

use crate::support::{Server, tidy, url};

#[tokio::test]
async fn finished_steps_are_listed_in_their_order() {
    let server = Server::start().await;
    let job = server.run("steps", json!({})).await;
    let steps = server.get(&format!("{}/steps", url(&job))).send().await.json();
    let _sorted = crate::support::sorted_keys();
    insta::assert_json_snapshot!(tidy(steps), @r#"
    {
      "steps": [
        {
          "attempt": 1,
          "completedAt": "[time]",
          "name": "one",
          "output": 1,
          "position": 0,
          "startedAt": "[time]"
        },
        {
          "attempt": 1,
          "completedAt": "[time]",
          "name": "two",
          "output": 2,
          "position": 1,
          "startedAt": "[time]"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn attempts_tell_who_ran_it_and_what_went_wrong() {
    let server = Server::start().await;
    let job = server.run("fails", json!({})).await;
    let attempts = server.get(&format!("{}/attempts", url(&job))).send().await.json();
    let _sorted = crate::support::sorted_keys();
    insta::assert_json_snapshot!(tidy(attempts), @r#"
    {
      "attempts": [
        {
          "attempt": 1,
          "endedAt": "[time]",
          "error": {
            "attempt": 1,
            "code": "cheese",
            "message": "the disk is made of cheese",
            "retryable": false
          },
          "replica": "test",
          "startedAt": "[time]",
          "status": "failed"
        }
      ]
    }
    "#);
}
