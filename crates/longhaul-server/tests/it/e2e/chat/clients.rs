//! Clients of Ollama and `OpenAI` from npm and from `PyPI`, unchanged: the official ones, litellm, `LangChain` and the AI SDK.

use longhaul_kinds::chat::TargetApi;
use serde_json::{Value, json};
use tokio::process::Command;

use super::install;
use crate::harness::{FakeChatServer, MODEL, ThirdParty, reply_to};

const SCRIPTS: [ThirdParty; 2] = [
    ThirdParty::Node { script: "e2e/chat/clients.mjs", package: "openai" },
    ThirdParty::Python { script: "e2e/chat/clients.py", venv: "venv" },
];
const LITELLM_AND_LANGCHAIN: ThirdParty =
    ThirdParty::Python { script: "e2e/chat/libraries.py", venv: "venv-chat" };
const AI_SDK: ThirdParty = ThirdParty::Node { script: "e2e/chat/libraries.mjs", package: "ai" };

/// Runs the clients of one language and returns their findings.
async fn found_by(mut clients: Command, url: &str) -> Value {
    clients.args([url, MODEL]).kill_on_drop(true);
    let output = clients.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Embeddings of "hi" and "there".
const VECTORS: [[f32; 2]; 2] = [[2.25, 0.5], [5.25, 0.5]];

/// Returns the findings of every library in a chat.
fn chatted() -> Value {
    replied(&reply_to("hi"))
}

fn replied(text: &str) -> Value {
    json!({"chat": text, "chat tokens": [11, 7], "chat streamed": text})
}

async fn libraries_work_unchanged(target: FakeChatServer) {
    let install = install(&target);
    let _server = install.start().await;
    let tool = json!({"name": "weather", "arguments": {"city": "Zürich"}});
    let with = |fields: &[(&str, Value)]| {
        let mut found = chatted();
        for (name, value) in fields {
            found[*name] = value.clone();
        }
        found
    };
    let litellm = with(&[
        ("tool", tool.clone()),
        ("completion", reply_to("hi").into()),
        ("embeddings", json!(VECTORS)),
    ]);
    let langchain = with(&[("tool", tool.clone()), ("embeddings", json!(VECTORS))]);
    assert_eq!(
        found_by(LITELLM_AND_LANGCHAIN.command(), &install.url()).await,
        json!({
            "litellm ollama": litellm,
            "litellm openai": litellm,
            "langchain ollama": langchain,
            "langchain openai": langchain,
            "langchain response": reply_to("hi"),
        })
    );
    assert_eq!(
        found_by(AI_SDK.command(), &install.url()).await,
        json!({
            "openai chat": chatted(),
            "openai tool": tool,
            // It writes the roles into the prompt.
            "openai completion": replied(&reply_to("user:\nhi\n\nassistant:\n")),
            "openai response": chatted(),
            "openai embeddings": VECTORS,
            "ollama chat": chatted(),
            "ollama tool": tool,
            "ollama embeddings": VECTORS,
        })
    );
}

async fn clients_work_unchanged(target: FakeChatServer) {
    let install = install(&target);
    let _server = install.start().await;
    // Only Ollama reports the models in memory.
    let running = usize::from(target.api() == TargetApi::Ollama);
    for clients in SCRIPTS {
        let found = found_by(clients.command(), &install.url()).await;
        let expected = json!({
            "ollama": {
                "chat": reply_to("hi"),
                "chat tokens": [11, 7],
                "chat streamed": reply_to("hi"),
                "chat streamed in pieces": true,
                "generate": reply_to("hi"),
                "generate streamed": reply_to("hi"),
                "tool": {"name": "weather", "arguments": {"city": "Zürich"}},
                "unknown model": [404, "model \"owl\" not found"],
                "log probabilities": reply_to("hi"),
                "embed": VECTORS,
                "embeddings": VECTORS[0],
                "running": running,
            },
            "openai": {
                "chat": reply_to("hi"),
                "chat tokens": [11, 7],
                "chat streamed": reply_to("hi"),
                "chat streamed in pieces": true,
                "usage streamed": 18,
                "tool": {"name": "weather", "arguments": {"city": "Zürich"}},
                "tool streamed": {"name": "weather", "arguments": {"city": "Zürich"}},
                "unknown model": [404, true],
                "models": true,
                "log probabilities": reply_to("hi"),
                "completion": [reply_to("hi"), reply_to("hi")],
                "completion streamed": reply_to("hi"),
                "embeddings": VECTORS,
                "response": [reply_to("hi"), 18],
                "response streamed": [reply_to("hi"), reply_to("hi")],
                "unknown route": [404, "not_found_error"],
            },
        });
        let mut found = found;
        let models = found["ollama"].as_object_mut().unwrap().remove("models").unwrap();
        assert!(models[0].as_str().unwrap().starts_with(MODEL), "{models}");
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn official_chat_clients_work_with_an_ollama_target() {
    clients_work_unchanged(FakeChatServer::ollama().await).await;
}

#[tokio::test]
async fn official_chat_clients_work_with_an_openai_target() {
    clients_work_unchanged(FakeChatServer::openai().await).await;
}

#[tokio::test]
async fn chat_libraries_work_with_an_ollama_target() {
    libraries_work_unchanged(FakeChatServer::ollama().await).await;
}

#[tokio::test]
async fn chat_libraries_work_with_an_openai_target() {
    libraries_work_unchanged(FakeChatServer::openai().await).await;
}
