use crate::harness::TestServer;

#[tokio::test]
async fn kinds_are_listed_by_name() {
    let server = TestServer::start().await;
    let kinds = server.get("/v1/kinds").send().await.json();
    insta::assert_json_snapshot!(kinds["kinds"][0], @r#"
    {
      "name": "echo",
      "queue": "default",
      "maxAttempts": 3,
      "timeout": "30m",
      "concurrency": null
    }
    "#);
    let names =
        kinds["kinds"].as_array().unwrap().iter().map(|kind| kind["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["echo", "fails", "gated", "steps"]);
}
