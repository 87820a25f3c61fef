//! Streamed chats of an API replica and a worker, each a process of the real binary.

use longhaul_kinds::chat::TargetApi;
use serde_json::Value;
use tokio::io::AsyncBufReadExt;

use super::config;
use crate::e2e::submit::end;
use crate::harness::raw_http::{RawStream, open};
use crate::harness::{Cluster, FakeChatServer, MODEL, SHORT_LEASES, reply_to};

/// Opens a streamed chat.
async fn chat(cluster: &Cluster) -> RawStream {
    let body = format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    let stream = open(cluster.install.address(), "POST /api/chat", &[], &body).await.unwrap();
    assert_eq!(stream.status, 200);
    stream
}

/// Returns the text of the next chunk, or `None` after the last one.
async fn word(stream: &mut RawStream) -> Option<String> {
    let mut line = String::new();
    stream.body.read_line(&mut line).await.unwrap();
    let chunk: Value = serde_json::from_str(&line).unwrap();
    let text = chunk["message"]["content"].as_str().unwrap().to_owned();
    (chunk["done"] == false).then_some(text)
}

async fn rest(stream: &mut RawStream) -> String {
    let mut text = String::new();
    while let Some(word) = word(stream).await {
        text += &word;
    }
    text
}

#[tokio::test]
async fn chat_of_an_api_process_is_streamed_from_its_worker_process() {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let cluster = Cluster::new(&config(&target)).await;
    let _api = cluster.api().await;
    let _worker = cluster.worker("worker-1").await;
    target.allow_words(1);
    let mut stream = chat(&cluster).await;
    for expected in ["you ", "said ", "hi "] {
        assert_eq!(word(&mut stream).await.as_deref(), Some(expected));
        target.allow_words(1);
    }
    target.allow_words(100);
    assert_eq!(format!("you said hi {}", rest(&mut stream).await), reply_to("hi"));
}

#[tokio::test]
async fn chat_stream_of_a_killed_worker_is_continued_by_another() {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let cluster = Cluster::new(&format!("{}{SHORT_LEASES}", config(&target))).await;
    let _api = cluster.api().await;
    let killed = cluster.worker("worker-1").await;
    target.allow_words(2);
    let mut stream = chat(&cluster).await;
    let id = stream.head.lines().find_map(|line| line.strip_prefix("longhaul-job-id: ")).unwrap();
    let id = id.trim().to_owned();
    assert_eq!(word(&mut stream).await.as_deref(), Some("you "));
    assert_eq!(word(&mut stream).await.as_deref(), Some("said "));
    killed.kill9().await;
    let _worker = cluster.worker("worker-2").await;
    target.allow_words(100);
    let rest = rest(&mut stream).await;
    assert_eq!(format!("you said {rest}"), reply_to("hi"), "no word is sent twice");
    assert_eq!(end(&cluster.client(), &id).await.attempt, 2);
    assert_eq!(cluster.runner(&id).await, "worker-2");
}
