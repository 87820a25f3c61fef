//! The official clients of Ollama and `OpenAI`, from npm and from `PyPI`, unchanged.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;

use super::home;
use crate::chat::target::{FakeTarget, MODEL, reply};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn installed(path: &str) -> PathBuf {
    let path = here("../../.tools").join(path);
    assert!(path.exists(), "there is no {}: run scripts/setup-test", path.display());
    path
}

fn node() -> Command {
    let modules = installed("node/node_modules");
    assert!(modules.join("openai").exists(), "run scripts/setup-test");
    let mut command = Command::new("node");
    command.arg(here("tests/it/e2e/chat/clients.mjs")).arg(modules);
    command
}

fn python() -> Command {
    let mut command = Command::new(installed("venv/bin/python"));
    command.arg(here("tests/it/e2e/chat/clients.py"));
    command
}

/// What the clients of a language found out.
async fn found_by(mut clients: Command, url: &str) -> Value {
    clients.args([url, MODEL]).kill_on_drop(true);
    let output = clients.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn clients_work_unchanged(target: FakeTarget) {
    let home = home(&target);
    let _server = home.start().await;
    for clients in [node, python] {
        let found = found_by(clients(), &home.url()).await;
        let expected = json!({
            "ollama": {
                "chat": reply("hi"),
                "chat tokens": [11, 7],
                "chat streamed": reply("hi"),
                "chat streamed in pieces": true,
                "generate": reply("hi"),
                "generate streamed": reply("hi"),
                "tool": {"name": "weather", "arguments": {"city": "Zürich"}},
                "unknown model": [404, "model \"owl\" not found"],
            },
            "openai": {
                "chat": reply("hi"),
                "chat tokens": [11, 7],
                "chat streamed": reply("hi"),
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
async fn clients_work_unchanged_before_a_target_of_ollama() {
    clients_work_unchanged(FakeTarget::ollama().await).await;
}

#[tokio::test]
async fn clients_work_unchanged_before_a_target_of_openai() {
    clients_work_unchanged(FakeTarget::openai().await).await;
}
