//! Targets that fail, hang, close the connection or send `Retry-After`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul::Timestamp;
use serde_json::Value;

use super::proxy_server::{ProxyServer, TARGET_TIMEOUT, id_of, json_of, problem_of};
use crate::harness::{BROKEN, Backend, FakeHttpServer, Reply, on_both_backends};

async fn proxy_returns_the_last_response_if_all_attempts_fail(backend: Backend) {
    let target = FakeHttpServer::start(|number, _| match number {
        0 => Reply::Answer(500, "", "first"),
        1 => Reply::Close,
        _ => Reply::Answer(503, "Content-Type: text/x\r\nX-Last: yes\r\n", "third"),
    })
    .await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server.post("/sync").body("x").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x-last"]),
        (503, &"yes".parse().unwrap())
    );
    let id = id_of(&response);
    assert_eq!(response.text().await.unwrap(), "third");
    let keys: Vec<String> = target
        .first(3)
        .await
        .iter()
        .zip(["1", "2", "3"])
        .map(|(got, attempt)| {
            assert_eq!((got.header("longhaul-attempt"), got.body.as_slice()), (attempt, &b"x"[..]));
            got.header("idempotency-key").to_owned()
        })
        .collect();
    assert_eq!(keys, [id.as_str(); 3]);
    let job = server.job(&id).await;
    assert_eq!((job["status"].as_str(), job["attempt"].as_u64()), (Some("failed"), Some(3)));
    assert_eq!(job["error"]["code"], "target-answered");
    assert_eq!(job["error"]["message"], "the target responded with 503 Service Unavailable");
    let steps = json_of(server.get(&format!("/v1/jobs/{id}/steps"))).await;
    let names: Vec<&Value> =
        steps["steps"].as_array().unwrap().iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["answer 1", "answer 2"], "one attempt got none");
}

async fn proxy_does_not_retry_client_errors(backend: Backend) {
    let target =
        FakeHttpServer::start(|_, _| Reply::Answer(404, "X-Own: 1\r\n", "no such report")).await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server.get("/sync/9").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["x-own"]),
        (404, &"1".parse().unwrap())
    );
    let id = id_of(&response);
    assert_eq!(response.text().await.unwrap(), "no such report", "and no problem of ours");
    let job = server.job(&id).await;
    assert_eq!((job["status"].as_str(), job["attempt"].as_u64()), (Some("failed"), Some(1)));
}

async fn proxy_truncates_large_error_responses(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Answer(400, "", large())).await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server.get("/sync").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["longhaul-body-cut"]),
        (400, &"true".parse().unwrap())
    );
    let text = response.text().await.unwrap();
    assert_eq!(text.len(), 64 << 10);
    assert!(large().starts_with(&text));
}

/// Returns more than the stored limit of a failed response.
fn large() -> &'static str {
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| include_str!("target_failures.rs").repeat(20))
}

async fn proxy_honours_retry_after(backend: Backend) {
    let target = FakeHttpServer::start(|number, _| match number {
        0 => Reply::Answer(429, "Retry-After: 120\r\n", "later"),
        1 => Reply::Answer(503, "Retry-After: 999999999\r\n", "much later"),
        _ => Reply::Answer(200, "", "now"),
    })
    .await;
    let server = ProxyServer::start(target.address, backend).await;
    let job = json_of(server.post("/reports").body("x")).await;
    let id = job["jobId"].as_str().unwrap();
    let at = |job: &Value, key: &str| Timestamp::parse(job[key].as_str().unwrap()).unwrap();
    for (attempt, pause) in [(1, Duration::from_mins(2)), (2, Duration::from_hours(1))] {
        let begun = server.clock.now();
        let waits =
            server.poll_job(id, |job| job["status"] == "pending" && job["attempt"] == attempt);
        let waits = waits.await;
        assert_eq!(waits["error"]["code"], "target-answered");
        // The clock also moves with the real time.
        let waits = at(&waits, "runAt").since(begun);
        assert!(waits >= pause && waits < pause + pause / 2, "{waits:?}");
    }
    let job = server.finished(id).await;
    assert_eq!((job["status"].as_str(), job["attempt"].as_u64()), (Some("completed"), Some(3)));
}

async fn proxy_target_without_a_response_is_a_bad_gateway(backend: Backend) {
    let target =
        FakeHttpServer::start(|number, _| if number == 1 { Reply::Break } else { Reply::Close });
    let target = target.await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server.post("/sync").body("x").send().await.unwrap();
    let id = id_of(&response);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert_eq!(response.status(), 502);
    let job = server.job(&id).await;
    assert_eq!(job["error"]["code"], "target-unreachable");
    assert_eq!(target.all().len(), 3);

    // No server listens there.
    let address = target.address;
    drop(target);
    let asked = server.post("/once").body("x");
    assert_eq!(problem_of(asked).await, (502, "target-failed".to_owned()));
    let job = server.submit("once", serde_json::json!({"secret": "cheese"})).await;
    let job = server.finished(job["jobId"].as_str().unwrap()).await;
    let message = job["error"]["message"].as_str().unwrap();
    assert!(!message.contains(&address.to_string()) && !message.contains("cheese"), "{message}");
}

async fn hanging_proxy_target_times_out(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Hang).await;
    let server = Arc::new(ProxyServer::start(target.address, backend).await);
    let asked = server.post("/once").body("x");
    let held = tokio::spawn(problem_of(asked));
    target.first(1).await;
    server.clock.advance(TARGET_TIMEOUT);
    assert_eq!(held.await.unwrap(), (504, "target-timeout".to_owned()));
}

async fn circuit_breaker_of_a_failing_target_charges_no_attempts(backend: Backend) {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let target = FakeHttpServer::start(move |_, _| {
        if is_well.load(Ordering::SeqCst) { Reply::Answer(200, "", "well") } else { BROKEN }
    })
    .await;
    let server = ProxyServer::start(target.address, backend).await;
    for _ in 0..5 {
        let response = server.post("/once").body("x").send().await.unwrap();
        assert_eq!(response.status(), 500);
    }
    let job = server.submit("once", Value::Null).await;
    let id = job["jobId"].as_str().unwrap();
    // It waits: seen by its due time, which only being put off can have moved.
    let created = job["createdAt"].as_str().unwrap().to_owned();
    let snoozed = loop {
        let job = server.job(id).await;
        if job["status"] == "pending" && job["runAt"].as_str() > Some(&created) {
            break job;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(target.all().len(), 5, "nobody asked");
    assert_eq!(snoozed["error"], Value::Null);
    well.store(true, Ordering::SeqCst);
    let job = server.finished(id).await;
    assert_eq!((job["status"].as_str(), job["attempt"].as_u64()), (Some("completed"), Some(1)));
    assert_eq!(target.all().len(), 6);
}

async fn cancelled_job_closes_its_target_connection(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Hang).await;
    let server = ProxyServer::start(target.address, backend).await;
    let job = json_of(server.post("/reports").body("x")).await;
    let id = job["jobId"].as_str().unwrap();
    target.first(1).await;
    server.post(&format!("/v1/jobs/{id}/cancel")).send().await.unwrap();
    assert_eq!(server.finished(id).await["status"], "cancelled");
}

on_both_backends! {
    proxy_returns_the_last_response_if_all_attempts_fail,
    proxy_does_not_retry_client_errors,
    proxy_truncates_large_error_responses,
    proxy_honours_retry_after,
    proxy_target_without_a_response_is_a_bad_gateway,
    hanging_proxy_target_times_out,
    circuit_breaker_of_a_failing_target_charges_no_attempts,
    cancelled_job_closes_its_target_connection,
}
