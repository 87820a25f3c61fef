//! CORS. No other origin is allowed unless the configuration names it.

use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::request_id::X_REQUEST_ID;

/// Lifetime of a preflight response.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Allowed origins, each exactly as a browser sends it; `*` allows all.
pub type Origins = Vec<HeaderValue>;

/// Returns the layer for these origins, if there are any. Browser credentials such as cookies are never
/// allowed, because API keys are sent in headers.
pub(crate) fn layer(origins: &[HeaderValue]) -> Option<CorsLayer> {
    let named = HeaderName::from_static;
    let allowed = match origins {
        [] => return None,
        origins if origins.iter().any(|origin| origin == "*") => AllowOrigin::any(),
        origins => AllowOrigin::list(origins.iter().cloned()),
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([
            AUTHORIZATION,
            named("x-api-key"),
            named("idempotency-key"),
            CONTENT_TYPE,
            named("content-digest"),
            named("prefer"),
            IF_NONE_MATCH,
            named("last-event-id"),
            X_REQUEST_ID,
        ])
        .expose_headers([
            LOCATION,
            RETRY_AFTER,
            ETAG,
            named("preference-applied"),
            X_REQUEST_ID,
            named("ratelimit"),
            named("ratelimit-policy"),
        ])
        .max_age(MAX_AGE);
    Some(layer)
}
