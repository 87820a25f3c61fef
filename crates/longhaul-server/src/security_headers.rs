//! Security headers for browsers.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
pub const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
/// For responses that pages of other origins may embed.
pub const CROSS_ORIGIN: HeaderValue = HeaderValue::from_static("cross-origin");

/// Set on every response: no content sniffing, no `Referer`, because URLs contain ids, and no use as a script, image or
/// style sheet of another origin.
pub const ALWAYS: [(HeaderName, HeaderValue); 3] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CROSS_ORIGIN_RESOURCE_POLICY, SAME_ORIGIN),
];

/// Allows only the server's own style sheet and images, and no scripts.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

/// For uploaded content: rendered, if at all, with an opaque origin and without any capability.
pub const SANDBOX: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const DENY: HeaderValue = HeaderValue::from_static("DENY");

/// One year, without subdomains.
const A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds the headers that a response lacks. Headers set by the handler are kept. `is_api` if the path begins with `/v1/`.
pub fn complete(headers: &mut HeaderMap, is_api: bool) {
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(value);
    }
    let is = |media_type: &[u8]| {
        headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(media_type))
    };
    let (is_page, is_problem) = (is(b"text/html"), is(b"application/problem+json"));
    if is_page {
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(PAGE_POLICY);
        headers.entry(X_FRAME_OPTIONS).or_insert(DENY);
    }
    // Jobs change and belong to a tenant.
    if is_page || is_problem || is_api {
        headers.entry(CACHE_CONTROL).or_insert(NO_STORE);
    }
}

/// Adds `Strict-Transport-Security`.
pub fn insist_on_tls(headers: &mut HeaderMap) {
    headers.insert(STRICT_TRANSPORT_SECURITY, A_YEAR);
}
