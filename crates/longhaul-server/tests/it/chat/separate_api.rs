//! Streamed chat responses of an API replica, while another replica runs the jobs.

use longhaul_kinds::chat::TargetApi;
use serde_json::Value;

use super::chat_server::{
    APIS, ChatOptions, ChatServer, chat_streaming, content_of, joined_content,
};
use crate::harness::{Backend, Behaviour, FakeChatServer, ResponseStream, TestRequest, reply_to};

const PATHS: [&str; 2] = ["/api/chat", "/v1/chat/completions"];

async fn start(target: &FakeChatServer) -> ChatServer {
    let options = ChatOptions { separate_api: true, ..ChatOptions::default() };
    ChatServer::start_with(Backend::Postgres, &[target], options).await
}

fn call(server: &ChatServer, path: &str) -> TestRequest {
    server.post(path).json(chat_streaming("hi", true))
}

/// Returns the text of the next chunk that has any.
async fn word(stream: &mut ResponseStream) -> String {
    loop {
        let text = content_of(&stream.chunk().await.unwrap());
        if !text.is_empty() {
            return text;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_api_replica_streams_words_while_the_target_holds_back_the_rest() {
    for (api, path) in APIS.into_iter().flat_map(|api| PATHS.map(|path| (api, path))) {
        let target = FakeChatServer::held(api).await;
        let server = start(&target).await;
        target.allow_words(2);
        let mut stream = call(&server, path).open().await;
        assert_eq!([word(&mut stream).await, word(&mut stream).await], ["you ", "said "]);
        // Words that come at once are still chunks of their own.
        target.allow_words(4);
        for expected in ["hi ", "and ", "I ", "heard "] {
            assert_eq!(word(&mut stream).await, expected);
        }
        target.allow_words(100);
        let rest = stream.rest().await;
        assert_eq!(joined_content(&rest), "it");
        let end = if path == PATHS[0] { "\"done\":true" } else { "data: [DONE]" };
        assert!(rest.last().unwrap().contains(end), "{rest:?}");
        assert_eq!(server.state.engine.open_outputs(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_api_replica_streams_the_response_of_a_target_that_holds_nothing_back() {
    let target = FakeChatServer::ollama().await;
    let server = start(&target).await;
    for path in PATHS {
        let chunks = call(&server, path).open().await.rest().await;
        assert_eq!(joined_content(&chunks), reply_to("hi"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_stream_of_an_api_replica_continues_if_the_retry_repeats_the_same_text() {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = start(&target).await;
    target.behave([Behaviour::Breaks(2)]);
    target.allow_words(2);
    let mut stream = call(&server, PATHS[0]).open().await;
    let id = stream.job_id();
    assert_eq!([word(&mut stream).await, word(&mut stream).await], ["you ", "said "]);
    target.allow_words(100);
    let rest = joined_content(&stream.rest().await);
    assert_eq!(format!("you said {rest}"), reply_to("hi"), "no word is sent twice");
    assert_eq!(server.finished(&id).await["attempt"], 2);
}

/// A second caller of the same job arrives during the second attempt. It gets that attempt's words as they
/// come, and none of the first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn late_caller_gets_no_words_of_an_earlier_attempt() {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = start(&target).await;
    target.behave([Behaviour::Breaks(2), Behaviour::Differs]);
    target.allow_words(2);
    let keyed = || call(&server, PATHS[0]).header("idempotency-key", "k");
    let mut early = keyed().open().await;
    let id = early.job_id();
    assert_eq!([word(&mut early).await, word(&mut early).await], ["you ", "said "]);
    // Its third word is the error.
    target.allow_words(1);
    server.poll_job(&id, |job| job["attempt"] == 2 && job["status"] == "running").await;
    // Until this replica knows of the second attempt.
    while server.state.engine.read_output(id.parse().unwrap()).now().is_some() {
        tokio::task::yield_now().await;
    }
    let late = tokio::spawn(keyed().open());
    target.calls(2).await;
    target.allow_words(2);
    let mut late = late.await.unwrap();
    assert_eq!(late.job_id(), id);
    assert_eq!([word(&mut late).await, word(&mut late).await], ["no, ", "you "]);
    target.allow_words(100);
    let rest = joined_content(&late.rest().await);
    assert_eq!(format!("no, you {rest}"), format!("no, {}", reply_to("hi")));
    let rest = early.rest().await;
    assert_eq!(joined_content(&rest), "", "its words are of another response");
    let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert!(last["error"].is_string(), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_chat_stream_of_an_api_replica_is_cancelled() {
    let target = FakeChatServer::held(TargetApi::OpenAi).await;
    let server = start(&target).await;
    target.allow_words(1);
    let mut stream = call(&server, PATHS[1]).open().await;
    let id = stream.job_id();
    word(&mut stream).await;
    drop(stream);
    assert_eq!(server.finished(&id).await["status"], "cancelled");
    target.until_idle().await;
    assert_eq!(server.state.engine.open_outputs(), 0);
}
