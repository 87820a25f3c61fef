//! Generated files: the default configuration and the reference page.

use super::*;
use crate::config::document::default_file;

/// Compares a committed file with its generated text; `UPDATE_GENERATED=1` writes it.
fn assert_generated(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == text, "{} is outdated: run with UPDATE_GENERATED=1", path.display());
}

#[test]
fn default_file_is_generated_from_the_settings_table() {
    assert_generated("config.default.toml", &default_file());
}

#[test]
fn configuration_reference_is_generated_from_the_settings_table() {
    assert_generated("../../docs/configuration.md", &reference_page());
}

#[test]
fn defaults_in_the_settings_table_are_valid() {
    let (config, errors) = check::check(Layers::defaults(), &ConfigInput::empty().sources);
    assert!(config.is_some() && errors.is_empty(), "{errors:?}");
}

#[test]
fn default_file_documents_every_key() {
    let text = default_file();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2) {
        let is_key = pair[1].starts_with(|c: char| c.is_ascii_lowercase());
        assert!(!is_key || pair[0].starts_with('#'), "{} needs a comment", pair[1]);
    }
}
