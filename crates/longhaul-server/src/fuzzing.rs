//! Fuzz targets: properties of every parser of foreign text, which `make fuzz` and a test try to violate.
//!
//! Each property stands in the module `fuzzing` beside its parser; here is the list.

use crate::{api, auth, config, dashboard, listen};

/// Name, property (panics if it does not hold) and seed inputs.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

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

pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Splits at the first line break.
pub(crate) fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(end);
    (line, rest.strip_prefix(b"\n").unwrap_or(rest))
}
