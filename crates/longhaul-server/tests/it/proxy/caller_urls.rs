//! Paths, headers and URLs that callers choose.

use serde_json::{Value, json};

use super::proxy_server::{OPERATOR_AUTHORIZATION, ProxyOptions, ProxyServer, json_of, problem_of};
use crate::harness::{Backend, FakeHttpServer, OK, on_both_backends};

async fn proxy_rejects_path_traversal(backend: Backend) {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, backend).await;
    for path in ["/..", "/%2e%2e/admin", "/a/../../x", "//evil", "/a%2fb", "/..;/x", "/%252e%252e/"]
    {
        let response = server.raw_request(&format!("GET /sync{path}"), &[]).await;
        assert_eq!(response.problem(), (400, "bad-request".to_owned()), "{path}");
    }
    let response = server.raw_request("GET /syncopated", &[]).await;
    assert_eq!(response.problem(), (404, "not-found".to_owned()));
    assert_eq!(target.all().len(), 0);
}

async fn proxy_removes_hop_by_hop_headers(backend: Backend) {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server
        .raw_request(
            "GET /sync",
            &[
                ("connection", "close, x-hop"),
                ("x-hop", "1"),
                ("keep-alive", "timeout=9"),
                ("te", "trailers"),
                ("proxy-authorization", "Basic eDp5"),
                ("upgrade", "h2c"),
                ("x-kept", "yes"),
                ("longhaul-attempt", "99"),
            ],
        )
        .await;
    assert_eq!(response.status, 200, "{response:?}");
    let got = target.first(1).await.remove(0);
    assert_eq!((got.header("x-kept"), got.header("longhaul-attempt")), ("yes", "1"));
    let head = got.head.to_ascii_lowercase();
    for none in ["x-hop", "keep-alive", "\r\nte:", "proxy-authorization", "upgrade"] {
        assert!(!head.contains(none), "{none} in {head}");
    }
}

async fn caller_url_gets_no_operator_headers(backend: Backend) {
    let target = FakeHttpServer::good().await;
    let elsewhere = FakeHttpServer::start(|_, _| OK).await;
    let server = ProxyServer::start(target.address, backend).await;
    let job =
        server.submit("anywhere", json!({"$request": {"url": elsewhere.url(), "body": 1}})).await;
    let job = server.finished(job["jobId"].as_str().unwrap()).await;
    assert_eq!(job["result"]["body"], "thanks");
    let got = elsewhere.first(1).await.remove(0);
    assert!(!got.head.contains(OPERATOR_AUTHORIZATION), "{}", got.head);
    let job = server.submit("anywhere", json!({"x": 1})).await;
    server.finished(job["jobId"].as_str().unwrap()).await;
    assert_eq!(target.first(1).await.remove(0).header("authorization"), OPERATOR_AUTHORIZATION);
}

async fn failed(server: &ProxyServer, kind: &str, input: Value) -> Value {
    let job = server.submit(kind, input).await;
    let job = server.finished(job["jobId"].as_str().unwrap()).await;
    assert_eq!((&job["status"], &job["attempt"]), (&"failed".into(), &1.into()), "{job}");
    job["error"]["code"].clone()
}

async fn caller_url_is_subject_to_the_egress_policy(backend: Backend) {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start_with(
        target.address,
        backend,
        ProxyOptions { loopback: false, ..ProxyOptions::default() },
    )
    .await;
    let request = json!({"$request": {"url": target.url()}});
    let body = json!({"kind": "anywhere", "input": request});
    let refused = (422, "url-refused".to_owned());
    assert_eq!(problem_of(server.post("/v1/jobs").json(&body)).await, refused);
    assert_eq!(problem_of(server.post("/v1/kinds/anywhere/jobs").json(&request)).await, refused);
    let batch = server.post("/v1/jobs/batch").json(&json!({"jobs": [body]}));
    assert_eq!(json_of(batch).await[0]["code"], "url-refused");
    // A job submitted without the API, for example from a SQL transaction, is rejected when it connects.
    let job = server.state.engine.submit_raw("anywhere", &request).await.unwrap();
    let job = server.finished(&job.id().to_string()).await;
    assert_eq!((&job["error"]["code"], &job["attempt"]), (&"url-refused".into(), &1.into()));
    assert_eq!(failed(&server, "report", request).await, "bad-input", "it takes none at all");
    assert_eq!(target.all().len(), 0);
}

on_both_backends! {
    proxy_rejects_path_traversal,
    proxy_removes_hop_by_hop_headers,
    caller_url_gets_no_operator_headers,
    caller_url_is_subject_to_the_egress_policy,
}
