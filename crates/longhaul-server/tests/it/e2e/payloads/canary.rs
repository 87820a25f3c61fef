//! A recognizable payload, and the search for it.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A text that is nowhere else. It comes again and again in every payload, also across the borders of
/// what is sealed at a time.
pub(super) struct Canary {
    text: String,
    /// The text and its usual encodings.
    forms: Vec<String>,
}

impl Canary {
    pub(super) fn new() -> Self {
        let text = format!("canary-{:016x}-perish", rand::random::<u64>());
        let hex = text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let decimal = text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        // Its length can be divided by three: one of these is in the base64 of any payload.
        let turned = (0..3).map(|by| STANDARD.encode(text[by..].to_owned() + &text[..by]));
        let forms = [text.clone(), hex, decimal].into_iter().chain(turned).collect();
        Self { text, forms }
    }

    pub(super) fn payload(&self, bytes: usize) -> Vec<u8> {
        self.text.bytes().cycle().take(bytes).collect()
    }

    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        // Only what is no text is replaced, and the canary is text.
        let text = String::from_utf8_lossy(bytes);
        self.forms.iter().any(|form| text.contains(form))
    }

    /// Every file below a folder that holds it.
    pub(super) fn found_in(&self, folder: &Path) -> Vec<PathBuf> {
        let mut found = files_in(folder);
        found.retain(|path| fs::read(path).is_ok_and(|bytes| self.is_in(&bytes)));
        found
    }
}

/// Every file below a folder.
pub(super) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(files_in(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn canary_is_found_in_every_form() {
    let canary = Canary::new();
    let payload = canary.payload(1_000);
    for shift in 0..40 {
        let shifted = &payload[shift..];
        assert!(canary.is_in(&[b"\xff\xfe\xe2", shifted].concat()));
        assert!(canary.is_in(STANDARD.encode(shifted).as_bytes()));
        assert!(canary.is_in(format!("{shifted:?}").as_bytes()));
    }
    assert!(!canary.is_in(&Canary::new().payload(1_000)));
}
