//! What answers tell browsers not to do with them.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// On every answer: types are as we say, and our addresses, which have ids in them, are told to
/// nobody else.
pub const ALWAYS: [(HeaderName, HeaderValue); 2] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Nothing but our own style sheet is loaded, whatever finds its way into a page, and no script.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

/// For what callers uploaded: shown, if at all, as a page of no origin that can do nothing.
pub const SANDBOX: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const DENY: HeaderValue = HeaderValue::from_static("DENY");

/// A year, and only this host: others may not be ours.
const A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds what an answer at this path lacks. What a handler says of its own answer stays.
pub fn complete(headers: &mut HeaderMap, path: &str) {
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(value);
    }
    let is = |idempotency_fields: &[u8]| {
        headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(idempotency_fields))
    };
    let (is_page, is_problem) = (is(b"text/html"), is(b"application/problem+json"));
    if is_page {
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(PAGE_POLICY);
        headers.entry(X_FRAME_OPTIONS).or_insert(DENY);
    }
    // Jobs change, and are a tenant's own.
    if is_page || is_problem || path.starts_with("/v1/") {
        headers.entry(CACHE_CONTROL).or_insert(NO_STORE);
    }
}

/// Says that this host is to be asked in TLS alone from now on.
pub fn insist_on_tls(headers: &mut HeaderMap) {
    headers.insert(STRICT_TRANSPORT_SECURITY, A_YEAR);
}
