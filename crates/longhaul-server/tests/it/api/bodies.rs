//! Bodies that no two readers would take for the same, on every route that takes JSON.

use axum::http::StatusCode;
use serde_json::json;

use crate::harness::{TestRequest, TestServer};

/// Returns a request for each route that accepts JSON, with `inner` nested as deeply as possible.
fn everywhere(server: &TestServer, inner: &[u8]) -> Vec<(usize, &'static str, TestRequest)> {
    let around = |begin: &str, end: &str| [begin.as_bytes(), inner, end.as_bytes()].concat();
    let fork = "/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/fork";
    let part = around(
        "--b\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n{\"kind\":\"echo\",\"input\":",
        "}\r\n--b--\r\n",
    );
    let in_parts = server
        .post("/v1/jobs")
        .header("content-type", "multipart/form-data; boundary=b")
        .body(part);
    let post = |path: &str, begin: &str, end: &str| server.post(path).json_text(around(begin, end));
    let job = r#"{"kind":"echo","input":"#;
    vec![
        (1, "submit", post("/v1/jobs", job, "}")),
        (0, "input", post("/v1/kinds/echo/jobs", "", "")),
        (1, "form", in_parts),
        (1, "fork", post(fork, r#"{"fromStep":"#, "}")),
        (2, "cancel", post("/v1/jobs/cancel", r#"{"filter":{"kind":"#, "}}")),
        (2, "resume", post("/v1/jobs/resume", r#"{"filter":{"labels":"#, "}}")),
        (2, "purge", post("/v1/jobs/purge", r#"{"filter":{"labels":"#, "}}")),
    ]
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[tokio::test]
async fn too_deeply_nested_body_is_rejected_on_every_route() {
    let server = TestServer::start().await;
    for levels in [65, 1_000, 30_000] {
        for (_, place, ask) in everywhere(&server, nested(levels).as_bytes()) {
            let response = ask.send().await;
            assert_eq!(response.problem(), (400, "json-too-deep".to_owned()), "{place} {levels}");
        }
    }
    for (around, place, ask) in everywhere(&server, nested(64).as_bytes()) {
        let is_too_deep = ask.send().await.text().contains("json-too-deep");
        assert_eq!(is_too_deep, around > 0, "{place}");
    }
}

#[tokio::test]
async fn batch_accepts_jobs_nested_as_deeply_as_single_submissions() {
    let server = TestServer::start().await;
    let send = async |levels: usize| {
        let input = nested(levels);
        let job = format!(r#"{{"kind":"echo","input":{input}}}"#);
        let alone = server.post("/v1/jobs").json_text(job.clone()).send().await;
        let body = format!(r#"{{"jobs":[{job}]}}"#);
        (alone.status, server.post("/v1/jobs/batch").json_text(body).send().await.status)
    };
    assert_eq!(send(63).await, (StatusCode::ACCEPTED, StatusCode::OK));
    assert_eq!(send(64).await, (StatusCode::BAD_REQUEST, StatusCode::BAD_REQUEST));
}

#[tokio::test]
async fn brackets_in_json_strings_do_not_count_as_nesting() {
    let server = TestServer::start().await;
    let input = json!({"text": "[{".repeat(1_000), "\"{{": "\\"});
    server.submit("echo", input).await;
}

#[tokio::test]
async fn duplicate_json_key_is_rejected_on_every_route() {
    let server = TestServer::start().await;
    for (_, place, ask) in everywhere(&server, br#"{"twin":"a","t\u0077in":"b"}"#) {
        let response = ask.send().await;
        assert_eq!(response.problem(), (400, "invalid-json".to_owned()), "{place}");
        assert!(response.detail().contains("\"twin\" twice"), "{place}: {response:?}");
    }
    let twice = r#"{"jobs":[],"jobs":[]}"#;
    let response = server.post("/v1/jobs/batch").json_text(twice).send().await;
    assert_eq!(response.problem(), (400, "invalid-json".to_owned()));
}

#[tokio::test]
async fn invalid_utf8_body_is_rejected_on_every_route() {
    let server = TestServer::start().await;
    for bad in [&b"\"\xff\""[..], b"\"\xc3(\"", b"\"\xed\xa0\x80\"", b"\"\xf8\x88\x80\x80\x80\""] {
        for (_, place, ask) in everywhere(&server, bad) {
            let response = ask.send().await;
            assert_eq!(response.problem(), (400, "invalid-json".to_owned()), "{place} {bad:?}");
        }
    }
}

#[tokio::test]
async fn percent_encoded_invalid_utf8_is_rejected() {
    let server = TestServer::start().await;
    for path in [
        "/v1/jobs/%ff",
        "/v1/jobs/%ff/artifacts/%ff",
        "/v1/kinds/%ff/jobs",
        "/v1/queues/%ff/pause",
        "/v1/queues/%00/pause",
        "/v1/jobs?kind=%ff",
        "/v1/jobs?label.%ff=x",
        "/v1/jobs?cursor=%ff%00",
    ] {
        let get = server.get(path).send().await;
        let post = server.post(path).json(json!({"kind": "echo", "input": 1})).send().await;
        assert!(get.status.is_client_error(), "GET {path}: {get:?}");
        assert!(post.status.is_client_error(), "POST {path}: {post:?}");
        get.problem();
        post.problem();
    }
}

#[tokio::test]
async fn label_with_a_control_character_is_rejected() {
    let server = TestServer::start().await;
    for labels in [json!({"a\nb": "x"}), json!({"a": "x\u{7f}"}), json!({"a": "\u{1b}[31m"})] {
        let body = json!({"kind": "echo", "input": 1, "labels": labels});
        let refused = server.post("/v1/jobs").json(body).send().await;
        assert_eq!(refused.problem(), (422, "validation".to_owned()), "{labels}");
    }
}
