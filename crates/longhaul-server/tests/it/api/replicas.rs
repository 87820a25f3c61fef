use serde_json::json;

use crate::harness::{TestServer, redacted};

#[tokio::test]
async fn replicas_are_listed_with_role_and_capacity() {
    let server = TestServer::start().await;
    let mut listed = server.get("/v1/replicas").send().await.json();
    let replica = &mut listed["replicas"][0];
    assert_eq!(replica["pid"].take(), std::process::id());
    assert!(!replica["host"].take().as_str().unwrap().is_empty());
    assert_eq!(replica["version"].take(), env!("CARGO_PKG_VERSION"));
    insta::assert_json_snapshot!(redacted(listed), @r#"
    {
      "replicas": [
        {
          "name": "test",
          "role": "all",
          "version": null,
          "host": null,
          "pid": null,
          "kinds": [
            "echo",
            "fails",
            "gated",
            "steps"
          ],
          "running": 0,
          "concurrency": 4,
          "startedAt": "[time]",
          "seenAt": "[time]",
          "alive": true
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn hosts_of_replicas_are_shown_to_administrators_only() {
    let (server, admin) = TestServer::with_keys().await;
    let wish = json!({"tenant": "default", "name": "x", "scopes": ["read"]});
    let made = server.post("/v1/keys").key(&admin).json(wish).send().await.json();
    let replica = async |key: &str| {
        server.get("/v1/replicas").key(key).send().await.json()["replicas"][0].clone()
    };
    let shown = replica(made["key"].as_str().unwrap()).await;
    assert_eq!(
        (&shown["name"], &shown["host"], &shown["pid"]),
        (&json!("test"), &json!(null), &json!(null))
    );
    assert!(replica(&admin).await["host"].is_string());
}
