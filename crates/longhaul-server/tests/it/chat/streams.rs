//! Streamed chat responses.

use longhaul_kinds::chat::TargetApi;
use serde_json::{Value, json};

use super::chat_server::{
    APIS, ChatOptions, ChatServer, chat_streaming, content_of, joined_content,
};
use crate::harness::{
    Backend, Behaviour, FakeChatServer, MODEL, ResponseStream, on_both_backends, reply_to,
};

const PATHS: [&str; 2] = ["/api/chat", "/v1/chat/completions"];

/// Returns the next chunk with text.
async fn word(stream: &mut ResponseStream) -> String {
    loop {
        let piece = stream.chunk().await.unwrap();
        if !content_of(&piece).is_empty() {
            return piece;
        }
    }
}

async fn chat_stream_sends_words_as_they_arrive(backend: Backend) {
    for (api, path) in APIS.into_iter().flat_map(|api| PATHS.map(|path| (api, path))) {
        let target = FakeChatServer::held(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        target.allow_words(2);
        let mut stream = server.post(path).json(chat_streaming("hi", true)).open().await;
        assert_eq!(stream.status, 200);
        let first = word(&mut stream).await;
        let second = word(&mut stream).await;
        assert_eq!(
            [content_of(&first), content_of(&second)],
            ["you ", "said "],
            "the rest is not said yet"
        );
        let job = server.get(&format!("/jobs/{}", stream.job_id())).send().await.json();
        assert_eq!(job["state"], "working");
        target.allow_words(100);
        let rest = stream.rest().await;
        assert_eq!(format!("you said {}", joined_content(&rest)), reply_to("hi"));
        if path == "/api/chat" {
            let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
            assert_eq!((&last["done"], &last["eval_count"]), (&json!(true), &json!(7)));
            assert!(rest.iter().all(|line| line.ends_with('\n') && line.lines().count() == 1));
        } else {
            assert_eq!(rest.last().unwrap(), "data: [DONE]\n\n");
            assert!(rest.iter().all(|chunk| !chunk.contains("\"usage\":{")), "nobody asked for it");
            let finishes = rest.iter().filter(|chunk| chunk.contains("\"finish_reason\":\"stop\""));
            assert_eq!(finishes.count(), 1);
        }
    }
}

async fn chat_stream_ends_with_usage_if_requested(backend: Backend) {
    for target in [FakeChatServer::ollama().await, FakeChatServer::openai().await] {
        let server = ChatServer::start(backend, &[&target]).await;
        let mut body = chat_streaming("hi", true);
        body["stream_options"] = json!({"include_usage": true});
        let pieces = server.post(PATHS[1]).json(&body).open().await.rest().await;
        let usage = &pieces[pieces.len() - 2];
        let usage: Value = serde_json::from_str(usage.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(usage["choices"], json!([]));
        assert_eq!(usage["usage"]["total_tokens"], 18);
    }
}

async fn generate_api_streams(backend: Backend) {
    for target in [FakeChatServer::ollama().await, FakeChatServer::openai().await] {
        let server = ChatServer::start(backend, &[&target]).await;
        let body = json!({"model": MODEL, "prompt": "hi"});
        let stream = server.post("/api/generate").json(&body).open().await;
        assert_eq!(stream.headers["content-type"], "application/x-ndjson");
        assert_eq!(joined_content(&stream.rest().await), reply_to("hi"));
    }
}

async fn completions_api_streams(backend: Backend) {
    for api in APIS {
        let target = FakeChatServer::held(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        let body = json!({"model": MODEL, "prompt": "hi", "stream": true});
        target.allow_words(1);
        let mut stream = server.post("/v1/completions").json(&body).open().await;
        assert_eq!(content_of(&word(&mut stream).await), "you ", "the rest is not said yet");
        target.allow_words(100);
        let rest = stream.rest().await;
        assert_eq!(format!("you {}", joined_content(&rest)), reply_to("hi"));
        assert_eq!(rest.last().unwrap(), "data: [DONE]\n\n");
    }
}

/// Returns name and data of an event.
fn event(text: &str) -> (String, Value) {
    let (name, data) = text.split_once('\n').unwrap();
    let data = data.strip_prefix("data: ").unwrap();
    (name.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
}

async fn responses_api_streams_named_events(backend: Backend) {
    let body = json!({"model": MODEL, "input": "hi", "stream": true});
    for api in APIS {
        let target = FakeChatServer::held(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        // The first attempt ends after the first two words, the second one repeats them.
        target.behave([Behaviour::Breaks(5)]);
        target.allow_words(5);
        let mut stream = server.post("/v1/responses").json(&body).open().await;
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        let mut events = Vec::new();
        for _ in 0..5 {
            events.push(event(&stream.chunk().await.unwrap()));
        }
        assert_eq!(
            (events[0].0.as_str(), events[4].0.as_str()),
            ("response.created", "response.output_text.delta")
        );
        assert_eq!(events[4].1["delta"], "said ");
        target.allow_words(100);
        events.extend(stream.rest().await.iter().map(|text| event(text)));
        assert!(events.iter().all(|(name, data)| data["type"] == **name));
        let numbers: Vec<u64> =
            events.iter().map(|(_, data)| data["sequence_number"].as_u64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        let deltas = events.iter().filter_map(|(_, data)| data["delta"].as_str());
        assert_eq!(deltas.collect::<String>(), reply_to("hi"));
        let (last, data) = events.last().unwrap();
        assert_eq!(last, "response.completed");
        assert_eq!(data["response"]["output"][0]["content"][0]["text"], reply_to("hi"));
    }
}

async fn failed_responses_stream_ends_with_an_error_event(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::OpenAi).await;
    let server = ChatServer::start(backend, &[&target]).await;
    let body = json!({"model": MODEL, "input": "hi", "stream": true});
    target.behave([Behaviour::Breaks(4), Behaviour::Differs]);
    target.allow_words(4);
    let mut stream = server.post("/v1/responses").json(&body).open().await;
    stream.chunk().await.unwrap();
    target.allow_words(100);
    let (name, data) = event(stream.rest().await.last().unwrap());
    assert_eq!((name.as_str(), &data["type"]), ("error", &json!("error")));
    assert_eq!(data["error"]["code"], "diverged");
}

/// No word was sent yet, so the caller does not notice the retry.
async fn chat_stream_broken_before_the_first_word_is_retried(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    target.behave([Behaviour::Breaks(0), Behaviour::Breaks(0)]);
    for path in PATHS {
        let stream = server.post(path).json(chat_streaming("hi", true)).open().await;
        assert_eq!(joined_content(&stream.rest().await), reply_to("hi"));
    }
}

/// The retry repeats the words that were sent already. The stream continues behind them, without sending a word twice.
async fn chat_stream_continues_if_the_retry_repeats_the_same_text(backend: Backend) {
    for api in APIS {
        for path in PATHS {
            let target = FakeChatServer::held(api).await;
            let server = ChatServer::start(backend, &[&target]).await;
            target.behave([Behaviour::Breaks(3)]);
            target.allow_words(3);
            let mut stream = server.post(path).json(chat_streaming("hi", true)).open().await;
            let id = stream.job_id();
            for expected in ["you ", "said ", "hi "] {
                assert_eq!(content_of(&word(&mut stream).await), expected);
            }
            target.allow_words(100);
            assert_eq!(
                format!("you said hi {}", joined_content(&stream.rest().await)),
                reply_to("hi")
            );
            let job = server.get(&format!("/v1/jobs/{id}")).send().await.json();
            assert_eq!(job["attempt"], 2);
        }
    }
}

async fn chat_stream_ends_with_an_error_if_the_retry_differs(backend: Backend) {
    for path in PATHS {
        let target = FakeChatServer::held(TargetApi::Ollama).await;
        let server = ChatServer::start(backend, &[&target]).await;
        target.behave([Behaviour::Breaks(3), Behaviour::Differs]);
        target.allow_words(3);
        let mut stream = server.post(path).json(chat_streaming("hi", true)).open().await;
        let id = stream.job_id();
        for _ in 0..3 {
            word(&mut stream).await;
        }
        target.allow_words(100);
        let pieces = stream.rest().await;
        assert_eq!(joined_content(&pieces), "", "the three words are of another answer");
        assert!(pieces.last().unwrap().contains("\"error\""), "{pieces:?}");
        // The job has the complete second response.
        let job = server.get(&format!("/jobs/{id}")).send().await.json();
        assert_eq!(job["state"], "done");
        assert!(job["result"].to_string().contains("no, you said"));
    }
}

async fn chat_stream_failure_is_retried_and_then_reported(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let retry = longhaul::Retry::NEVER;
    let server = ChatServer::start_with(
        backend,
        &[&target],
        ChatOptions { retry, ..ChatOptions::default() },
    )
    .await;
    target.behave([Behaviour::Fails(2), Behaviour::Fails(0)]);
    let pieces = server.post(PATHS[0]).json(chat_streaming("hi", true)).open().await.rest().await;
    let last: Value = serde_json::from_str(pieces.last().unwrap()).unwrap();
    assert_eq!(last, json!({"error": "the target t0 failed: out of birds"}));
    // Before the first word there is still a status to tell it with.
    let whole = server.post(PATHS[0]).json(chat_streaming("hi", true)).send().await;
    assert_eq!((whole.status.as_u16(), whole.json()), (502, last));
}

/// The stop button of a chat client.
async fn disconnected_chat_stream_is_cancelled(backend: Backend) {
    for path in PATHS {
        let target = FakeChatServer::held(TargetApi::Ollama).await;
        let server = ChatServer::start(backend, &[&target]).await;
        target.allow_words(1);
        let mut stream = server.post(path).json(chat_streaming("hi", true)).open().await;
        let id = stream.job_id();
        word(&mut stream).await;
        drop(stream);
        assert_eq!(server.finished(&id).await["status"], "cancelled");
        target.until_idle().await;
    }
}

async fn disconnected_chat_call_is_cancelled(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = ChatServer::start(backend, &[&target]).await;
    let call = server.post(PATHS[0]).json(chat_streaming("hi", false)).send();
    let call = tokio::spawn(call);
    target.calls(1).await;
    call.abort();
    target.until_idle().await;
    let id = server.get_json("/v1/jobs").await["jobs"][0]["jobId"].as_str().unwrap().to_owned();
    assert_eq!(server.finished(&id).await["status"], "cancelled");
}

async fn disconnected_chat_stream_with_a_key_leaves_its_job_running(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = ChatServer::start(backend, &[&target]).await;
    target.allow_words(1);
    let call =
        server.post(PATHS[0]).header("idempotency-key", "k").json(chat_streaming("hi", true));
    let mut stream = call.open().await;
    let id = stream.job_id();
    word(&mut stream).await;
    drop(stream);
    target.allow_words(100);
    let job = server.finished(&id).await;
    assert_eq!(job["result"]["body"]["message"]["content"], reply_to("hi"));
    assert_eq!(server.state.engine.open_outputs(), 0);
}

async fn stopping_server_ends_a_chat_stream_with_an_error(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::OpenAi).await;
    let server = ChatServer::start(backend, &[&target]).await;
    target.allow_words(1);
    let mut stream = server.post(PATHS[1]).json(chat_streaming("hi", true)).open().await;
    word(&mut stream).await;
    server.state.stop.cancel();
    let rest = stream.rest().await;
    assert!(rest.last().unwrap().contains("the server is stopping"), "{rest:?}");
}

on_both_backends! {
    completions_api_streams,
    responses_api_streams_named_events,
    failed_responses_stream_ends_with_an_error_event,
    chat_stream_sends_words_as_they_arrive,
    chat_stream_ends_with_usage_if_requested,
    generate_api_streams,
    chat_stream_broken_before_the_first_word_is_retried,
    chat_stream_continues_if_the_retry_repeats_the_same_text,
    chat_stream_ends_with_an_error_if_the_retry_differs,
    chat_stream_failure_is_retried_and_then_reported,
    disconnected_chat_stream_is_cancelled,
    disconnected_chat_call_is_cancelled,
    disconnected_chat_stream_with_a_key_leaves_its_job_running,
    stopping_server_ends_a_chat_stream_with_an_error,
}
