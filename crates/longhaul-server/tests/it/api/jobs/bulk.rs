use serde_json::{Value, json};

use crate::harness::TestServer;

async fn bulk(server: &TestServer, command: &str, filter: Value) -> Value {
    let ask = server.post(&format!("/v1/jobs/{command}")).json(json!({"filter": filter}));
    ask.send().await.json()
}

#[tokio::test]
async fn bulk_operation_changes_every_matching_job_in_an_allowed_status() {
    let server = TestServer::start().await;
    server.run("echo", json!(1)).await;
    server.post("/v1/queues/default/pause").send().await;
    for n in 0..3 {
        let body =
            json!({"kind": "echo", "input": n, "delay": "1h", "labels": {"n": n.to_string()}});
        server.post("/v1/jobs").json(body).send().await;
    }
    assert_eq!(bulk(&server, "cancel", json!({"labels": {"n": "1"}})).await, json!({"count": 1}));
    assert_eq!(bulk(&server, "cancel", json!({"status": "pending"})).await, json!({"count": 2}));
    assert_eq!(
        bulk(&server, "resume", json!({"status": ["cancelled", "failed"]})).await["count"],
        3
    );
    assert_eq!(bulk(&server, "cancel", json!({})).await["count"], 3);
    assert_eq!(bulk(&server, "purge", json!({})).await["count"], 4);
    assert_eq!(server.get("/v1/jobs").send().await.json()["jobs"], json!([]));
}

#[tokio::test]
async fn bulk_operation_without_a_filter_is_rejected() {
    let server = TestServer::start().await;
    for body in ["{}", r#"{"filter":null}"#, r#"{"filter":{"stauts":"failed"}}"#] {
        let response = server.post("/v1/jobs/purge").json_text(body).send().await;
        assert_eq!(response.problem(), (422, "validation".to_owned()), "{body}");
    }
    let response = server.post("/v1/jobs/purge").json_text("").send().await;
    assert_eq!(response.problem(), (400, "invalid-json".to_owned()));
}
