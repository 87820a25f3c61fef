//! `docs/chat.md`, run as its readers would run it, with a model that says the same each time.

use super::super::home::Home;
use super::super::readme::{does_what_it_says, text_of};
use crate::chat::target::FakeTarget;

const FILE: &str = "docs/chat.md";
const LAPTOP: &str = "http://127.0.0.1:11434";

#[tokio::test]
async fn chat_md_does_what_it_says() {
    let text = text_of(FILE).unwrap();
    let (_, behind) = text.split_once("```toml\n").unwrap();
    let (config, _) = behind.split_once("```").unwrap();
    assert!(config.contains(LAPTOP));
    let target = FakeTarget::ollama().await;
    let home = Home::with(&config.replace(LAPTOP, &target.url()));
    let _server = home.start().await;
    does_what_it_says(FILE, &text, &home).await;
}
