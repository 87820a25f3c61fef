//! Chat targets that are unreachable, busy or failing.

use std::time::Duration;

use longhaul::Retry;
use longhaul_kinds::chat::TargetApi;
use serde_json::json;

use super::chat_server::{ChatOptions, ChatServer, chat, chat_streaming};
use crate::harness::{Backend, Behaviour, FakeChatServer, on_both_backends, reply_to};

/// Retries as fast as the test polls, with fewer attempts than an outage needs.
fn impatient() -> ChatOptions {
    let (first, max) = (Duration::from_millis(10), Duration::from_millis(20));
    ChatOptions { retry: Retry { max_attempts: 2, first, max }, ..ChatOptions::default() }
}

async fn unreachable_chat_target_delays_jobs_without_charging_attempts(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    target.down().await;
    let server = ChatServer::start_with(backend, &[&target], impatient()).await;
    let mut jobs = Vec::new();
    for said in ["one", "two", "three"] {
        jobs.push(server.submit(said).await);
    }
    // Every job shows its reason, and was tried more often than it has attempts.
    for id in &jobs {
        let job = server.poll_job(id, |job| job["version"].as_u64() > Some(10)).await;
        assert_eq!((&job["attempt"], &job["maxAttempts"]), (&json!(1), &json!(2)), "{job}");
        let job = server.poll_job(id, |job| job["status"] == "pending").await;
        assert_eq!(job["error"]["code"], "target-unreachable", "{job}");
    }
    target.up().await;
    for id in &jobs {
        let job = server.finished(id).await;
        assert_eq!((&job["status"], &job["attempt"]), (&json!("completed"), &json!(1)), "{job}");
    }
    assert_eq!(target.received().len(), 3);
}

async fn chat_caller_gets_an_error_when_its_target_stays_unreachable(backend: Backend) {
    for target in [FakeChatServer::ollama().await, FakeChatServer::openai().await] {
        target.down().await;
        let options = ChatOptions { unreachable_wait: Duration::ZERO, ..impatient() };
        let server = ChatServer::start_with(backend, &[&target], options).await;
        for path in ["/api/chat", "/v1/chat/completions"] {
            let response = server.post(path).json(chat("hi")).send().await;
            assert_eq!(response.status.as_u16(), 502, "{response:?}");
            let text = response.json()["error"].to_string();
            assert!(text.contains("the target t0 is unreachable"), "{text}");
        }
        // A call with a key is the job of its caller, which may come back for it.
        let keyed = || {
            server
                .post("/api/chat")
                .json(chat_streaming("hi", false))
                .header("idempotency-key", "k1")
        };
        let mut call = Box::pin(keyed().send());
        let waiting = async {
            loop {
                let list = server.get_json("/v1/jobs?status=pending").await;
                if let Some(id) = list["jobs"][0]["jobId"].as_str() {
                    return server.poll_job(id, |job| job["version"].as_u64() > Some(6)).await;
                }
                tokio::task::yield_now().await;
            }
        };
        let job = tokio::select! {
            response = &mut call => panic!("{response:?}"),
            job = waiting => job,
        };
        assert_eq!(job["attempt"], 1, "{job}");
        target.up().await;
        assert_eq!(call.await.json()["message"]["content"], reply_to("hi"));
    }
}

async fn outage_behind_a_gateway_is_not_charged(backend: Backend) {
    let target = FakeChatServer::openai().await;
    let server = ChatServer::start_with(backend, &[&target], impatient()).await;
    assert_eq!(server.finished(&server.submit("hi").await).await["status"], "completed");
    target.set_away(true);
    // The first call may be the cause of the error, so it is charged; then the target is queried before each call.
    let id = server.submit("hi").await;
    let job = server.poll_job(&id, |job| job["error"]["code"] == "target-unreachable").await;
    assert_eq!(job["attempt"], 2, "{job}");
    target.set_away(false);
    let job = server.finished(&id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("completed"), &json!(2)), "{job}");
    assert_eq!(target.received().len(), 2);
}

async fn chat_gateway_errors_are_retried_like_an_unreachable_target(backend: Backend) {
    let target = FakeChatServer::openai().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let behaviour = |status| Behaviour::Refuses(status, Vec::new(), String::new());
    target.behave([
        behaviour(502),
        behaviour(503),
        behaviour(504),
        behaviour(500),
        Behaviour::Breaks(0),
    ]);
    let id = server.submit("hi").await;
    let job = server.finished(&id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("completed"), &json!(6)));
}

async fn chat_that_always_fails_ends_with_its_last_error(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let retry =
        Retry { max_attempts: 4, first: Duration::from_secs(1), max: Duration::from_secs(9) };
    let server = ChatServer::start_with(
        backend,
        &[&target],
        ChatOptions { retry, ..ChatOptions::default() },
    )
    .await;
    target.behave([
        Behaviour::Breaks(1),
        Behaviour::Breaks(2),
        Behaviour::Fails(1),
        Behaviour::Breaks(3),
    ]);
    let id = server.submit("hi").await;
    let job = server.finished(&id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("failed"), &json!(4)));
    assert_eq!(job["error"]["code"], "target-broke-off");
    let shown = server.get(&format!("/jobs/{id}")).send().await.json();
    assert_eq!(shown["state"], "failed");
    assert!(shown["error"].as_str().unwrap().contains("closed its stream early"), "{shown}");
}

async fn busy_chat_target_is_retried_after_its_retry_after(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    target.behave([Behaviour::Refuses(429, vec![("retry-after", "77")], String::new())]);
    let id = server.submit("hi").await;
    let job = server.poll_job(&id, |job| job["error"].is_object()).await;
    assert_eq!(job["error"]["code"], "target-busy");
    let at = |job: &serde_json::Value, name: &str| {
        longhaul::Timestamp::parse(job[name].as_str().unwrap()).unwrap()
    };
    assert!(at(&job, "runAt").since(at(&job, "createdAt")) >= Duration::from_secs(77));
    assert_eq!(server.finished(&id).await["status"], "completed");
}

async fn chat_target_with_one_slot_serves_calls_in_order(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = ChatServer::start(backend, &[&target]).await;
    let said = ["one", "two", "three", "four"];
    let mut jobs = vec![server.submit(said[0]).await];
    target.calls(1).await;
    for said in &said[1..] {
        let id = server.submit(said).await;
        // In line at the target, not in the store: a worker has it, and nothing is done for it.
        let job = server.poll_job(&id, |job| job["status"] == "running").await;
        assert_eq!(job["phase"], json!(null));
        assert_eq!(server.get(&format!("/jobs/{id}")).send().await.json()["state"], "queued");
        jobs.push(id);
    }
    target.allow_words(1_000);
    for id in &jobs {
        assert_eq!(server.finished(id).await["status"], "completed");
    }
    let asked = target.received();
    let order: Vec<_> =
        asked.iter().map(|call| call.body["messages"][0]["content"].clone()).collect();
    assert_eq!(order, said);
    assert_eq!(target.most_at_once(), 1);
}

async fn chat_targets_of_one_model_share_its_calls(backend: Backend) {
    let (one, other) = (
        FakeChatServer::held(TargetApi::Ollama).await,
        FakeChatServer::held(TargetApi::OpenAi).await,
    );
    let server = ChatServer::start(backend, &[&one, &other]).await;
    let jobs = [server.submit("one").await, server.submit("two").await];
    one.calls(1).await;
    other.calls(1).await;
    for target in [&one, &other] {
        target.allow_words(100);
    }
    for id in &jobs {
        assert_eq!(server.finished(id).await["status"], "completed");
    }
}

async fn chat_fails_over_to_another_target(backend: Backend) {
    let (one, other) = (FakeChatServer::ollama().await, FakeChatServer::ollama().await);
    let server = ChatServer::start(backend, &[&one, &other]).await;
    assert_eq!(server.finished(&server.submit("hi").await).await["result"]["target"], "t0");
    one.down().await;
    // The models of the stopped target are still cached, so the first job tries it.
    let job = server.finished(&server.submit("hi").await).await;
    assert_eq!((&job["status"], &job["result"]["target"]), (&json!("completed"), &json!("t1")));
    assert_eq!(job["attempt"], 1, "{job}");
}

async fn cancelled_chat_releases_its_target_slot(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = ChatServer::start(backend, &[&target]).await;
    let id = server.submit("hi").await;
    target.calls(1).await;
    server.post(&format!("/v1/jobs/{id}/cancel")).json(json!({})).send().await;
    assert_eq!(server.finished(&id).await["status"], "cancelled");
    assert_eq!(server.get(&format!("/jobs/{id}")).send().await.json()["state"], "failed");
    let next = server.submit("ho").await;
    target.allow_words(100);
    assert_eq!(server.finished(&next).await["status"], "completed");
}

on_both_backends! {
    unreachable_chat_target_delays_jobs_without_charging_attempts,
    chat_caller_gets_an_error_when_its_target_stays_unreachable,
    outage_behind_a_gateway_is_not_charged,
    chat_gateway_errors_are_retried_like_an_unreachable_target,
    chat_that_always_fails_ends_with_its_last_error,
    busy_chat_target_is_retried_after_its_retry_after,
    chat_target_with_one_slot_serves_calls_in_order,
    chat_targets_of_one_model_share_its_calls,
    chat_fails_over_to_another_target,
    cancelled_chat_releases_its_target_slot,
}
