//! `docs/render.md`, run as its readers would run it.

use crate::e2e::readme::{does_what_it_says, text_of};
use crate::harness::Installation;

const FILE: &str = "docs/render.md";

#[tokio::test]
async fn render_docs_examples_print_what_they_show() {
    let install = Installation::new();
    let _server = install.start().await;
    does_what_it_says(FILE, &text_of(FILE).unwrap(), &install).await;
}
