use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{ResponseStream, TestServer, status_url};

async fn watch(server: &TestServer, job: &Value, last_seen: Option<u64>) -> ResponseStream {
    let mut ask = server.get(job["eventsUrl"].as_str().unwrap());
    if let Some(version) = last_seen {
        ask = ask.header("last-event-id", &version.to_string());
    }
    ask.open().await
}

/// All further events, as versions and statuses.
async fn rest(stream: &mut ResponseStream) -> Vec<(u64, String)> {
    let mut events = Vec::new();
    while let Some((id, job)) = stream.event().await {
        assert_eq!(job["version"], id);
        events.push((id, job["status"].as_str().unwrap().to_owned()));
    }
    events
}

fn owned(events: &[(u64, &str)]) -> Vec<(u64, String)> {
    events.iter().map(|(id, status)| (*id, (*status).to_owned())).collect()
}

#[tokio::test]
async fn event_stream_sends_the_current_state_every_transition_and_the_end() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(7)).await;
    let job = server.until_running(&job).await;
    let mut stream = watch(&server, &job, None).await;
    assert_eq!(stream.status, StatusCode::OK);
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.headers["cache-control"], "no-store");
    assert_eq!(stream.chunk().await.unwrap(), "retry: 2000\n\n");
    let (id, now) = stream.event().await.unwrap();
    assert_eq!((id, &now["status"]), (2, &json!("running")));
    server.open_gate();
    let (id, end) = stream.event().await.unwrap();
    assert_eq!((id, &end["status"], &end["result"]), (3, &json!("completed"), &json!(7)));
    assert_eq!(stream.chunk().await, None);
}

#[tokio::test]
async fn reconnected_event_stream_sends_missed_events() {
    let server = TestServer::start().await;
    server.open_gate();
    let job = server.run("gated", json!(7)).await;
    let all = [(1, "pending"), (2, "running"), (3, "completed")];
    for (seen, owed) in [(0, &all[..]), (1, &all[1..]), (2, &all[2..])] {
        let mut stream = watch(&server, &job, Some(seen)).await;
        assert_eq!(rest(&mut stream).await, owned(owed), "after {seen}");
    }
}

#[tokio::test]
async fn event_stream_after_the_end_is_204() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(7)).await;
    let end = job["version"].as_u64().unwrap();
    for seen in [end, end + 5] {
        assert_eq!(watch(&server, &job, Some(seen)).await.status, StatusCode::NO_CONTENT);
    }
    let mut fresh = watch(&server, &job, None).await;
    assert_eq!(rest(&mut fresh).await, owned(&[(end, "completed")]));
}

#[tokio::test]
async fn event_stream_from_an_unknown_version_starts_with_the_current_state() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(7)).await;
    let job = server.until_running(&job).await;
    let mut stream = watch(&server, &job, Some(99)).await;
    assert_eq!(stream.event().await.unwrap().0, 2);
}

#[tokio::test]
async fn last_event_id_that_is_no_version_is_400() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(7)).await;
    for id in ["", "x", "-1", "1.5"] {
        let ask = server.get(job["eventsUrl"].as_str().unwrap()).header("last-event-id", id);
        assert_eq!(ask.send().await.problem(), (400, "bad-request".to_owned()), "{id:?}");
    }
}

#[tokio::test]
async fn idle_event_stream_sends_keep_alives() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(7)).await;
    let job = server.until_running(&job).await;
    let mut stream = watch(&server, &job, None).await;
    stream.event().await.unwrap();
    let reader = tokio::spawn(async move { (stream.chunk().await, stream) });
    while !reader.is_finished() {
        server.state.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    let (piece, mut stream) = reader.await.unwrap();
    assert_eq!(piece.as_deref(), Some(": keep-alive\n\n"));
    server.open_gate();
    assert_eq!(rest(&mut stream).await, owned(&[(3, "completed")]));
}

#[tokio::test]
async fn event_stream_ends_on_server_stop_and_can_be_resumed() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(7)).await;
    let job = server.until_running(&job).await;
    let mut stream = watch(&server, &job, None).await;
    let (seen, _) = stream.event().await.unwrap();
    server.state.stop.cancel();
    assert_eq!(stream.event().await, None);
    server.open_gate();
    let other = TestServer::with_state(|state| state.engine = server.state.engine.clone()).await;
    other.until(&job, |job| job["status"] == "completed").await;
    let mut stream = watch(&other, &job, Some(seen)).await;
    assert_eq!(rest(&mut stream).await, owned(&[(3, "completed")]));
}

#[tokio::test]
async fn event_stream_continues_after_a_job_is_resumed() {
    let server = TestServer::start().await;
    let job = server.run("fails", json!(7)).await;
    let seen = job["version"].as_u64().unwrap();
    server.post(&format!("{}/resume", status_url(&job))).send().await;
    server.until(&job, |job| job["version"].as_u64() > Some(seen + 2)).await;
    let mut stream = watch(&server, &job, Some(seen)).await;
    let owed = [(seen + 1, "pending"), (seen + 2, "running"), (seen + 3, "failed")];
    assert_eq!(rest(&mut stream).await, owned(&owed));
}

#[tokio::test]
async fn line_breaks_in_a_result_do_not_break_the_event() {
    let server = TestServer::start().await;
    let input = "{\"a\":\n\r\n 1}";
    let job = server.post("/v1/kinds/echo/jobs?mode=sync").json_text(input).send().await.json();
    let mut stream = watch(&server, &job, None).await;
    let (_, seen) = stream.event().await.unwrap();
    assert_eq!(seen["result"], json!({"a": 1}));
}
