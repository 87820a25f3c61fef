use crate::support::{Server, tidy};

#[tokio::test]
async fn replicas_are_listed_with_what_they_do() {
    let server = Server::start().await;
    let mut listed = server.get("/v1/replicas").send().await.json();
    let replica = &mut listed["replicas"][0];
    assert_eq!(replica["pid"].take(), std::process::id());
    assert!(!replica["host"].take().as_str().unwrap().is_empty());
    assert_eq!(replica["version"].take(), env!("CARGO_PKG_VERSION"));
    let _sorted = crate::support::sorted_keys();
    insta::assert_json_snapshot!(tidy(listed), @r#"
    {
      "replicas": [
        {
          "alive": true,
          "concurrency": 4,
          "host": null,
          "kinds": [
            "echo",
            "fails",
            "gated",
            "steps"
          ],
          "name": "test",
          "pid": null,
          "role": "all",
          "running": 0,
          "seenAt": "[time]",
          "startedAt": "[time]",
          "version": null
        }
      ]
    }
    "#);
}
