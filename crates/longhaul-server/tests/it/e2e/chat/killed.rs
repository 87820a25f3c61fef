//! `kill -9` in the middle of a streamed chat: the job is there after the restart, and ends.

use longhaul_kinds::chat::TargetApi;
use serde_json::Value;
use tokio::io::AsyncBufReadExt;

use super::install;
use crate::e2e::submit::end;
use crate::harness::raw_http::{open, send};
use crate::harness::{FakeChatServer, MODEL, reply_to};

#[tokio::test]
async fn chat_of_a_killed_server_completes_after_its_restart() {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let install = install(&target);
    let server = install.start().await;
    let body = format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    target.allow_words(2);
    let mut stream = open(install.address(), "POST /api/chat", &[], &body).await.unwrap();
    assert_eq!(stream.status, 200);
    let id = stream.head.lines().find_map(|line| line.strip_prefix("longhaul-job-id: ")).unwrap();
    let id = id.trim().to_owned();
    let mut line = String::new();
    stream.body.read_line(&mut line).await.unwrap();
    let first: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(first["message"]["content"], "you ", "words came before the kill");
    server.kill9().await;
    let mut rest = String::new();
    while stream.body.read_line(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    assert!(!rest.contains("\"done\":true"), "the stream was cut: {rest}");

    let _server = install.start_after_kill().await;
    target.allow_words(1_000);
    end(&install.client(), &id).await;
    let shown = send(install.address(), &format!("GET /jobs/{id}"), &[], "").await.unwrap().json();
    assert_eq!(shown["state"], "done", "{shown}");
    assert_eq!(shown["result"]["message"]["content"], reply_to("hi"));
    assert_eq!(shown["attempt"], 2);
}
