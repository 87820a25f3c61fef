//! Chat targets that are unreachable, busy or failing.

use std::time::Duration;

use longhaul::Retry;
use longhaul_kinds::chat::TargetApi;
use serde_json::json;

use super::chat_server::{ChatOptions, ChatServer};
use crate::harness::{Backend, Behaviour, FakeChatServer, on_both_backends};

async fn chat_target_down_for_a_minute_delays_jobs_without_failing_them(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    target.down().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let began = server.clock.now();
    let mut jobs = Vec::new();
    for said in ["one", "two", "three"] {
        jobs.push(server.submit(said).await);
    }
    // Every job has tried and failed before the minute is over.
    for id in &jobs {
        let job = server.poll_job(id, |job| job["attempt"].as_u64() > Some(1)).await;
        assert_eq!(job["error"]["code"], "target-unreachable", "{job}");
    }
    while server.clock.now().since(began) < Duration::from_mins(1) {
        server.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    target.up().await;
    for id in &jobs {
        let job = server.finished(id).await;
        assert_eq!(job["status"], "completed", "{job}");
    }
    assert_eq!(target.received().len(), 3);
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
    // The models of the stopped target are still cached, so the first job tries it. It is tried again after a
    // while, so that it may take more than two attempts where time is short.
    let job = server.finished(&server.submit("hi").await).await;
    assert_eq!((&job["status"], &job["result"]["target"]), (&json!("completed"), &json!("t1")));
    assert!(job["attempt"].as_u64() >= Some(2), "{job}");
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
    chat_target_down_for_a_minute_delays_jobs_without_failing_them,
    chat_gateway_errors_are_retried_like_an_unreachable_target,
    chat_that_always_fails_ends_with_its_last_error,
    busy_chat_target_is_retried_after_its_retry_after,
    chat_target_with_one_slot_serves_calls_in_order,
    chat_targets_of_one_model_share_its_calls,
    chat_fails_over_to_another_target,
    cancelled_chat_releases_its_target_slot,
}
