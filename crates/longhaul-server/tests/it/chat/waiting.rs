//! Targets that are away, busy or failing, and who waits for them.

use std::time::Duration;

use longhaul::Retry;
use longhaul_kinds::chat::TargetApi;
use serde_json::json;

use super::desk::{Ground, Wish, on_both_grounds};
use super::target::{FakeTarget, Mood};

async fn target_that_is_down_for_a_minute_delays_jobs_and_fails_none(ground: Ground) {
    let target = FakeTarget::ollama().await;
    target.down().await;
    let desk = ground.desk(&[&target]).await;
    let began = desk.clock.now();
    let mut jobs = Vec::new();
    for said in ["one", "two", "three"] {
        jobs.push(desk.submit(said).await);
    }
    // Every job has tried and failed before the minute is over.
    for id in &jobs {
        let job = desk.until(id, |job| job["attempt"].as_u64() > Some(1)).await;
        assert_eq!(job["error"]["code"], "target-unreachable", "{job}");
    }
    while desk.clock.now().since(began) < Duration::from_mins(1) {
        desk.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    target.up().await;
    for id in &jobs {
        let job = desk.ended(id).await;
        assert_eq!(job["status"], "completed", "{job}");
    }
    assert_eq!(target.asked().len(), 3);
}

async fn gateway_without_its_target_is_as_good_as_none(ground: Ground) {
    let target = FakeTarget::openai().await;
    let desk = ground.desk(&[&target]).await;
    let mood = |status| Mood::Refuses(status, Vec::new(), String::new());
    target.moods([mood(502), mood(503), mood(504), mood(500), Mood::Breaks(0)]);
    let id = desk.submit("hi").await;
    let job = desk.ended(&id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("completed"), &json!(6)));
}

async fn poison_ends_after_its_attempts_with_the_last_error(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let retry =
        Retry { max_attempts: 4, first: Duration::from_secs(1), max: Duration::from_secs(9) };
    let desk = ground.wished(&[&target], Wish { retry, ..Wish::default() }).await;
    target.moods([Mood::Breaks(1), Mood::Breaks(2), Mood::Fails(1), Mood::Breaks(3)]);
    let id = desk.submit("hi").await;
    let job = desk.ended(&id).await;
    assert_eq!((&job["status"], &job["attempt"]), (&json!("failed"), &json!(4)));
    assert_eq!(job["error"]["code"], "target-broke-off");
    let shown = desk.get(&format!("/jobs/{id}")).send().await.json();
    assert_eq!(shown["state"], "failed");
    assert!(shown["error"].as_str().unwrap().contains("broke off"), "{shown}");
}

async fn busy_target_is_asked_again_when_it_wants(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    target.moods([Mood::Refuses(429, vec![("retry-after", "77")], String::new())]);
    let id = desk.submit("hi").await;
    let job = desk.until(&id, |job| job["error"].is_object()).await;
    assert_eq!(job["error"]["code"], "target-busy");
    let at = |job: &serde_json::Value, name: &str| {
        longhaul::Timestamp::parse(job[name].as_str().unwrap()).unwrap()
    };
    assert!(at(&job, "runAt").since(at(&job, "createdAt")) >= Duration::from_secs(77));
    assert_eq!(desk.ended(&id).await["status"], "completed");
}

async fn laptop_serves_one_at_a_time_in_the_order_of_asking(ground: Ground) {
    let target = FakeTarget::held(TargetApi::Ollama).await;
    let desk = ground.desk(&[&target]).await;
    let said = ["one", "two", "three", "four"];
    let mut jobs = vec![desk.submit(said[0]).await];
    target.calls(1).await;
    for said in &said[1..] {
        let id = desk.submit(said).await;
        // In line at the target, not in the store: a worker has it, and nothing is done for it.
        let job = desk.until(&id, |job| job["status"] == "running").await;
        assert_eq!(job["phase"], json!(null));
        assert_eq!(desk.get(&format!("/jobs/{id}")).send().await.json()["state"], "queued");
        jobs.push(id);
    }
    target.say(1_000);
    for id in &jobs {
        assert_eq!(desk.ended(id).await["status"], "completed");
    }
    let asked = target.asked();
    let order: Vec<_> =
        asked.iter().map(|call| call.body["messages"][0]["content"].clone()).collect();
    assert_eq!(order, said);
    assert_eq!(target.most_at_once(), 1);
}

async fn several_targets_of_a_model_share_its_calls(ground: Ground) {
    let (one, other) =
        (FakeTarget::held(TargetApi::Ollama).await, FakeTarget::held(TargetApi::OpenAi).await);
    let desk = ground.desk(&[&one, &other]).await;
    let jobs = [desk.submit("one").await, desk.submit("two").await];
    one.calls(1).await;
    other.calls(1).await;
    for target in [&one, &other] {
        target.say(100);
    }
    for id in &jobs {
        assert_eq!(desk.ended(id).await["status"], "completed");
    }
}

async fn other_target_is_asked_when_one_is_down(ground: Ground) {
    let (one, other) = (FakeTarget::ollama().await, FakeTarget::ollama().await);
    let desk = ground.desk(&[&one, &other]).await;
    assert_eq!(desk.ended(&desk.submit("hi").await).await["result"]["target"], "t0");
    one.down().await;
    // Its models are still remembered: the first job finds out. The one that is down is asked again after a
    // while, so that it may take more than two attempts where time is short.
    let job = desk.ended(&desk.submit("hi").await).await;
    assert_eq!((&job["status"], &job["result"]["target"]), (&json!("completed"), &json!("t1")));
    assert!(job["attempt"].as_u64() >= Some(2), "{job}");
}

async fn cancelled_chat_lets_its_target_go(ground: Ground) {
    let target = FakeTarget::held(TargetApi::Ollama).await;
    let desk = ground.desk(&[&target]).await;
    let id = desk.submit("hi").await;
    target.calls(1).await;
    desk.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).send().await;
    assert_eq!(desk.ended(&id).await["status"], "cancelled");
    assert_eq!(desk.get(&format!("/jobs/{id}")).send().await.json()["state"], "failed");
    let next = desk.submit("ho").await;
    target.say(100);
    assert_eq!(desk.ended(&next).await["status"], "completed");
}

on_both_grounds! {
    target_that_is_down_for_a_minute_delays_jobs_and_fails_none,
    gateway_without_its_target_is_as_good_as_none,
    poison_ends_after_its_attempts_with_the_last_error,
    busy_target_is_asked_again_when_it_wants,
    laptop_serves_one_at_a_time_in_the_order_of_asking,
    several_targets_of_a_model_share_its_calls,
    other_target_is_asked_when_one_is_down,
    cancelled_chat_lets_its_target_go,
}
