//! Fuzz targets of HTTP inputs and paths.

use longhaul::job::Json;

use super::call::{HttpCall, idempotency_fields};
use super::target::TargetUrl;
use crate::fuzzing::FuzzTarget;

pub(crate) const CALL: FuzzTarget = (
    "http call",
    call,
    &[
        br#"{"$request": {"method": "PUT", "path": "/7", "headers": [["a", "b"]], "body": {"n": 1}}}"#,
        br#"{"$request": {"url": "http://example.org/", "sealed": "x"}}"#,
        b"[1, 2]",
    ],
);

pub(crate) const PATH: FuzzTarget =
    ("http path", path, &[b"/a/b%20c", b"/%2e%2e/x", b"/..;/x", b"/a%252fb", b"//x", b"/a?b#c"]);

/// The idempotency fields of an input are a fixed point.
fn call(bytes: &[u8]) {
    let Some(input) = std::str::from_utf8(bytes).ok().and_then(|text| Json::from_text(text).ok())
    else {
        return;
    };
    drop(HttpCall::of(&input));
    let once = idempotency_fields(&input);
    assert_eq!(idempotency_fields(&once), once);
}

/// An accepted path stays below the target.
fn path(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    let Ok(target) = TargetUrl::parse("http://t.example/own") else { return };
    if let Ok(url) = target.at(path, None) {
        assert_eq!(url.path(), format!("/own{path}"));
        assert_eq!(url.host_str(), Some("t.example"));
    }
}
