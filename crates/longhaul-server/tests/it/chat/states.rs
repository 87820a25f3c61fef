//! `POST /jobs`: responses, job status and state webhooks.

use longhaul_kinds::chat::TargetApi;
use serde_json::{Value, json};

use super::chat_server::{ChatOptions, ChatServer, SECRET, chat};
use crate::harness::{
    Backend, Behaviour, FakeChatServer, FakeHttpServer, MODEL, ReceivedRequest, on_both_backends,
    reply_to,
};

/// Returns each delivered state with the previous one.
fn states(got: &[ReceivedRequest]) -> Vec<(Value, Value)> {
    got.iter()
        .map(|one| (one.json()["previous_state"].clone(), one.json()["state"].clone()))
        .collect()
}

fn changes(words: &[&str]) -> Vec<(Value, Value)> {
    let before = std::iter::once(Value::Null).chain(words.iter().map(|word| json!(word)));
    before.zip(words.iter().map(|word| json!(word))).collect()
}

fn signature(secret: &str, body: &[u8]) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = ring::hmac::sign(&key, body);
    tag.as_ref().iter().fold("sha256=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

async fn chat_state_webhooks_are_sent_once_and_signed(backend: Backend) {
    let (target, receiver) = (FakeChatServer::cold().await, FakeHttpServer::good().await);
    let server = ChatServer::start(backend, &[&target]).await;
    let id = server.submit_with("hi", json!({"state_webhook_url": receiver.url()})).await;
    target.calls(1).await;
    assert_eq!(server.get(&format!("/jobs/{id}")).send().await.json()["state"], "loading");
    target.allow_load();
    let got = receiver.first(4).await;
    assert_eq!(states(&got), changes(&["queued", "loading", "working", "done"]));
    for one in &got {
        assert_eq!(one.header("x-foreman-signature"), signature(SECRET, &one.body));
        let body = one.json();
        assert_eq!((&body["job_id"], &body["model"]), (&json!(id), &json!(MODEL)));
        assert!(longhaul::Timestamp::parse(body["timestamp"].as_str().unwrap()).is_some());
        assert_eq!(body["artifacts"], json!([]));
        assert_eq!(body["error"], json!(null));
        let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 9, "{keys:?}");
    }
    let attempts: Vec<Value> = got.iter().map(|one| one.json()["attempt"].clone()).collect();
    assert_eq!(attempts, [0, 1, 1, 1]);
    assert_eq!(got[3].json()["result"]["message"]["content"], reply_to("hi"));
    assert!(got[..3].iter().all(|one| one.json()["result"].is_null()));
    // The request to the target has no fields of ours.
    assert_eq!(target.received()[0].body["state_webhook_url"], json!(null));
}

async fn chat_state_webhooks_report_retries(backend: Backend) {
    let (target, receiver) = (FakeChatServer::openai().await, FakeHttpServer::good().await);
    let server = ChatServer::start(backend, &[&target]).await;
    target.behave([Behaviour::Breaks(1), Behaviour::Breaks(2)]);
    let id = server.submit_with("hi", json!({"state_webhook_url": receiver.url()})).await;
    server.finished(&id).await;
    let got = receiver.until(|got| got.len() >= 7).await;
    let expected =
        changes(&["queued", "working", "queued", "working", "queued", "working", "done"]);
    assert_eq!(states(&got), expected);
    assert!(got[2].json()["error"].as_str().unwrap().contains("closed its stream early"));
    assert_eq!(got[6].json()["attempt"], 3);
}

async fn chat_state_webhook_reports_the_failure_reason(backend: Backend) {
    let (target, receiver) = (FakeChatServer::ollama().await, FakeHttpServer::good().await);
    let server = ChatServer::start_with(
        backend,
        &[&target],
        ChatOptions { sign_states: false, ..ChatOptions::default() },
    )
    .await;
    target.behave([Behaviour::Refuses(
        400,
        Vec::new(),
        r#"{"error":"too many birds"}"#.to_owned(),
    )]);
    server.submit_with("hi", json!({"state_webhook_url": receiver.url()})).await;
    let got = receiver.first(3).await;
    assert_eq!(states(&got), changes(&["queued", "working", "failed"]));
    assert_eq!(got[2].json()["error"], "too many birds");
    assert!(got.iter().all(|one| !one.head.to_lowercase().contains("x-foreman-signature")));
    assert!(got.iter().all(|one| !one.head.to_lowercase().contains("webhook-signature")));
}

/// Longer than what a delivery keeps of a result.
async fn chat_state_webhook_contains_a_long_response(backend: Backend) {
    let (target, receiver) = (FakeChatServer::ollama().await, FakeHttpServer::good().await);
    let server = ChatServer::start(backend, &[&target]).await;
    let long = "bird".repeat(10_000);
    server.submit_with(&long, json!({"state_webhook_url": receiver.url()})).await;
    let got =
        receiver.until(|got| got.last().is_some_and(|one| one.json()["state"] == "done")).await;
    assert_eq!(got.last().unwrap().json()["result"]["message"]["content"], reply_to(&long));
}

async fn forbidden_chat_state_webhook_url_is_rejected(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    for url in [json!("http://10.0.0.1/x"), json!("ftp://example.com"), json!(7)] {
        let mut body = chat("hi");
        body["state_webhook_url"] = url;
        let response = server.post("/jobs").json(&body).send().await;
        assert_eq!(response.status, 422, "{response:?}");
        assert!(response.json()["error"].is_string());
    }
    assert!(target.received().is_empty());
}

async fn chat_job_status_is_returned_from_start_to_finish(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = ChatServer::start(backend, &[&target]).await;
    let id = server.submit("hi").await;
    assert_eq!(id.len(), 26, "a ULID");
    target.calls(1).await;
    let shown = server.get(&format!("/jobs/{id}")).send().await.json();
    assert_eq!((&shown["job_id"], &shown["state"]), (&json!(id), &json!("working")));
    assert_eq!((&shown["result"], &shown["target"]), (&json!(null), &json!(null)));
    target.allow_words(100);
    server.finished(&id).await;
    let mut shown = server.get(&format!("/jobs/{id}")).send().await.json();
    for at in ["created_at", "started_at", "completed_at"] {
        assert!(longhaul::Timestamp::parse(shown[at].as_str().unwrap()).is_some());
        shown[at] = json!("[time]");
    }
    shown["job_id"] = json!("[id]");
    insta::allow_duplicates! {
        insta::assert_json_snapshot!("job_that_is_done", shown);
    }
}

async fn chat_job_route_returns_only_chat_jobs(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let submit = async |body: Value| {
        let job = server.post("/v1/jobs").json(&body).send().await.json();
        job["jobId"].as_str().unwrap().to_owned()
    };
    let other = submit(json!({"kind": "echo", "input": 1})).await;
    assert_eq!(server.get(&format!("/jobs/{other}")).send().await.status, 404);
    assert_eq!(server.get("/jobs/nonsense").send().await.json(), json!({"error": "Job not found"}));
    // A chat that came by the API of jobs is a chat.
    let id =
        submit(json!({"kind": "chat", "input": {"api": "ollama-chat", "body": chat("hi")}})).await;
    server.finished(&id).await;
    let shown = server.get(&format!("/jobs/{id}")).send().await.json();
    assert_eq!((&shown["state"], &shown["model"]), (&json!("done"), &json!(MODEL)));
    let nothing = server.get(&format!("/jobs/{id}/artifacts/x")).send().await;
    assert_eq!(nothing.status, 404);
    assert!(nothing.json()["error"].is_string());
    let odd = submit(json!({"kind": "chat", "input": {"api": "telepathy", "body": {}}})).await;
    assert_eq!(server.finished(&odd).await["error"]["code"], "bad-input");
}

on_both_backends! {
    chat_state_webhooks_are_sent_once_and_signed,
    chat_state_webhooks_report_retries,
    chat_state_webhook_reports_the_failure_reason,
    chat_state_webhook_contains_a_long_response,
    forbidden_chat_state_webhook_url_is_rejected,
    chat_job_status_is_returned_from_start_to_finish,
    chat_job_route_returns_only_chat_jobs,
}
