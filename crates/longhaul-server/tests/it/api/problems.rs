use axum::http::Method;
use serde_json::json;

use crate::harness::{TestServer, redacted};

#[tokio::test]
async fn paths_that_do_not_exist_are_problems() {
    let server = TestServer::start().await;
    for path in ["/nowhere", "/v1", "/v1/jobs/x/y/z", "/v1/jobs/"] {
        let response = server.get(path).send().await;
        assert_eq!(response.problem(), (404, "not-found".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_problems_with_allow() {
    let server = TestServer::start().await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/jobs", "POST,GET,HEAD"),
        (Method::POST, "/v1/jobs/x", "GET,HEAD,DELETE"),
        (Method::DELETE, "/v1/queues", "GET,HEAD"),
    ] {
        let response = server.request(method, path).send().await;
        assert_eq!(response.problem(), (405, "method-not-allowed".to_owned()), "{path}");
        let allowed = |text: &str| {
            let mut methods: Vec<String> = text.split(',').map(|m| m.trim().to_owned()).collect();
            methods.sort();
            methods
        };
        assert_eq!(allowed(response.header("allow").unwrap()), allowed(allow), "{path}");
    }
}

#[tokio::test]
async fn problem_has_every_key_and_the_callers_request_id() {
    let server = TestServer::start().await;
    let ask = server.post("/v1/jobs").header("x-request-id", "trace-1").json(json!({"kind": "x"}));
    let response = ask.send().await;
    assert_eq!(response.header("x-request-id"), Some("trace-1"));
    assert_eq!(response.json()["requestId"], "trace-1");
    insta::assert_json_snapshot!(redacted(response.json()), @r#"
    {
      "type": "/problems/validation",
      "title": "A value is not allowed",
      "status": 422,
      "detail": "missing field `input` at line 1 column 12",
      "code": "validation",
      "requestId": "[id]"
    }
    "#);
}
