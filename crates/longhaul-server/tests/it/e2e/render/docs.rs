//! `docs/render.md`, run as its readers would run it.

use crate::e2e::home::Home;
use crate::e2e::readme::{does_what_it_says, text_of};

const FILE: &str = "docs/render.md";

#[tokio::test]
async fn render_md_does_what_it_says() {
    let home = Home::new();
    let _server = home.start().await;
    does_what_it_says(FILE, &text_of(FILE).unwrap(), &home).await;
}
