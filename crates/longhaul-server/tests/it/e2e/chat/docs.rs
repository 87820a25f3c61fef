//! Runs the examples of `docs/chat.md` with a deterministic model.

use crate::e2e::readme::{does_what_it_says, text_of};
use crate::harness::FakeChatServer;
use crate::harness::Installation;

const FILE: &str = "docs/chat.md";
const LAPTOP: &str = "http://127.0.0.1:11434";

#[tokio::test]
async fn chat_docs_examples_print_what_they_show() {
    let text = text_of(FILE).unwrap();
    let (_, behind) = text.split_once("```toml\n").unwrap();
    let (config, _) = behind.split_once("```").unwrap();
    assert!(config.contains(LAPTOP));
    let target = FakeChatServer::ollama().await;
    let install = Installation::with(&config.replace(LAPTOP, &target.url()));
    let _server = install.start().await;
    does_what_it_says(FILE, &text, &install).await;
}
