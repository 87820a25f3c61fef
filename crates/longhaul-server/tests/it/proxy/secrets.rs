//! Forwarded secrets are readable at the target and nowhere else.

use serde_json::{Value, json};

use super::proxy_server::{OPERATOR_AUTHORIZATION, ProxyServer, id_of, json_of};
use crate::harness::{Backend, FakeHttpServer, Reply, on_both_backends};

const BEARER: &str = "Bearer canary-of-authorization";
const COOKIE: &str = "session=canary-of-cookie";
const TOKEN: &str = "canary-of-token";
const BODY: &str = "canary-of-body";

fn has(all: &[u8], text: &str) -> bool {
    all.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn forwarded_secrets_are_not_stored_in_clear(backend: Backend) {
    let target = FakeHttpServer::start(|number, _| match number {
        0 => Reply::Answer(500, "", "once more"),
        _ => Reply::Answer(200, "", "done"),
    })
    .await;
    let server = ProxyServer::start(target.address, backend).await;
    let asked = server
        .post("/passing")
        .header("authorization", BEARER)
        .header("cookie", COOKIE)
        .header("x-token", TOKEN)
        .header("x-plain", "seen-in-the-input")
        .body(BODY);
    let response = asked.send().await.unwrap();
    assert_eq!(response.status(), 200);
    for got in target.first(2).await {
        assert_eq!((got.header("authorization"), got.header("cookie")), (BEARER, COOKIE));
        assert_eq!(got.header("x-token"), TOKEN);
        assert_eq!(got.body, BODY.as_bytes());
    }
    let id = id_of(&response);
    let input = json_of(server.get(&format!("/v1/jobs/{id}/input"))).await;
    let all = server.stored_bytes().await;
    assert!(has(&all, "seen-in-the-input") && input.to_string().contains("seen-in-the-input"));
    for secret in ["canary-of-authorization", "canary-of-cookie", TOKEN, BODY] {
        assert!(!has(&all, secret), "{secret} is stored");
        assert!(!input.to_string().contains(secret), "{secret} is shown");
    }

    // A caller that reads the input cannot send its sealed parts to another URL.
    for part in ["sealed", "sealedBody"] {
        let sealed = &input["$request"][part];
        assert!(sealed.is_string(), "{input}");
        let stolen = json!({"$request": {"path": "/x", part: sealed}});
        let job = server.submit("report", stolen).await;
        let job = server.finished(job["jobId"].as_str().unwrap()).await;
        assert_eq!(job["error"]["code"], "request-sealed");
    }
    assert_eq!(target.all().len(), 2);
}

async fn unforwarded_headers_are_neither_sent_nor_stored(backend: Backend) {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, backend).await;
    let asked = server.post("/sync").header("authorization", BEARER).header("cookie", COOKIE);
    assert_eq!(asked.body("x").send().await.unwrap().status(), 200);
    let got = target.first(1).await.remove(0);
    assert!(!got.head.contains("canary"), "{}", got.head);
    assert!(!has(&server.stored_bytes().await, "canary"));
}

async fn operator_header_overrides_and_is_not_stored(backend: Backend) {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, backend).await;
    let asked = server.post("/own").header("authorization", BEARER).body("x");
    let id = id_of(&asked.send().await.unwrap());
    assert_eq!(target.first(1).await.remove(0).header("authorization"), OPERATOR_AUTHORIZATION);
    let mut shown = String::new();
    for path in ["", "/input", "/result", "/steps", "/attempts"] {
        let response: Value = json_of(server.get(&format!("/v1/jobs/{id}{path}"))).await;
        shown += &response.to_string();
    }
    shown += &json_of(server.get("/v1/kinds")).await.to_string();
    assert!(
        !shown.contains("operators") && !has(&server.stored_bytes().await, OPERATOR_AUTHORIZATION)
    );
}

/// A small body stays with the job, so that it can be sent again.
async fn failed_proxied_request_is_resumed_with_its_body(backend: Backend) {
    let target = FakeHttpServer::start(|number, _| match number {
        0 => Reply::Answer(400, "", "not yet"),
        _ => Reply::Answer(200, "", "done"),
    })
    .await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server.post("/sync").body(BODY).send().await.unwrap();
    assert_eq!(response.status(), 400);
    let id = id_of(&response);
    server.post(&format!("/v1/jobs/{id}/resume")).send().await.unwrap();
    assert_eq!(server.finished(&id).await["status"], "completed");
    assert!(target.first(2).await.iter().all(|got| got.body == BODY.as_bytes()));
}

on_both_backends! {
    failed_proxied_request_is_resumed_with_its_body,
    forwarded_secrets_are_not_stored_in_clear,
    unforwarded_headers_are_neither_sent_nor_stored,
    operator_header_overrides_and_is_not_stored,
}
