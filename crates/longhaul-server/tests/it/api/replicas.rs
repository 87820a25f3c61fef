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
