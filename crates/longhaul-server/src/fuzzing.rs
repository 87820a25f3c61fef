//! What holds of whatever reads text from outside, whatever that text is. The fuzzer looks for a text for
//! which it does not, and so does a test, for a moment and always at the same ones.
//!
//! What holds of a reader stands beside it, in the `fuzzing` of its own module: here is only the list.

use crate::{api, auth, config, dashboard, listen};

/// A name, what holds of any bytes (it panics if that is not so), and texts to begin with.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

/// This crate's own.
const OWN: &[Target] = &[
    auth::fuzzing::API_KEY,
    auth::fuzzing::BEARER,
    auth::oidc::fuzzing::JWS,
    auth::oidc::fuzzing::CLAIMS,
    auth::oidc::fuzzing::JWKS,
    auth::oidc::fuzzing::ISSUER_URL,
    api::billing::fuzzing::SIGNATURE,
    api::billing::fuzzing::EVENT,
    api::http::body::fuzzing::DEPTH,
    api::http::body::fuzzing::UNIQUE,
    api::http::body::fuzzing::OBJECT,
    api::http::fuzzing::QUERY,
    api::http::fuzzing::REQUEST_ID,
    api::accounts::fuzzing::PAGE,
    api::jobs::fuzzing::IDEMPOTENCY_KEY,
    api::jobs::fuzzing::LIST,
    api::jobs::fuzzing::MULTIPART,
    api::jobs::fuzzing::PAYLOAD_PART,
    api::jobs::fuzzing::PREFER,
    dashboard::fuzzing::JSON_TREE,
    dashboard::fuzzing::NEXT,
    listen::fuzzing::FORWARDED,
    listen::fuzzing::FORWARDED_FOR,
    config::fuzzing::BYTES,
    config::fuzzing::TOML,
];

/// All fuzz targets, in a fixed order because corpus files name them by index.
pub fn targets() -> impl Iterator<Item = Target> {
    let others = [longhaul::fuzzing::TARGETS, longhaul_client::fuzzing::TARGETS];
    let kinds = longhaul_kinds::fuzzing::TARGETS.iter();
    #[cfg(feature = "render")]
    let kinds = kinds.chain(longhaul_render::fuzzing::TARGETS);
    OWN.iter().chain(others.into_iter().flatten()).chain(kinds).copied()
}

/// The bytes as text, if they are.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The first line, and all behind it.
pub(crate) fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    (line, rest.strip_prefix(b"\n").unwrap_or(rest))
}
