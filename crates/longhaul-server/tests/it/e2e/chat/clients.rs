//! The official clients of Ollama and `OpenAI`, from npm and from `PyPI`, unchanged.

use serde_json::{Value, json};
use tokio::process::Command;

use super::install;
use crate::harness::{FakeChatServer, MODEL, ThirdParty, reply_to};

const SCRIPTS: [ThirdParty; 2] = [
    ThirdParty::Node { script: "e2e/chat/clients.mjs", package: "openai" },
    ThirdParty::Python { script: "e2e/chat/clients.py" },
];

/// Runs the clients of one language and returns their findings.
async fn found_by(mut clients: Command, url: &str) -> Value {
    clients.args([url, MODEL]).kill_on_drop(true);
    let output = clients.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn clients_work_unchanged(target: FakeChatServer) {
    let install = install(&target);
    let _server = install.start().await;
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
