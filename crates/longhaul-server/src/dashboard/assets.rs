//! Style sheet, script and icon, compiled into the binary.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use crate::api::AppState;
use crate::api::http::params::items;
use crate::api::http::respond::set_header;
use crate::encoding::hex;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("app.js");
const ICON: &str = include_str!("icon.svg");

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/style.css", asset("text/css; charset=utf-8", STYLE))
        .route("/ui/app.js", asset("text/javascript; charset=utf-8", SCRIPT))
        .route("/ui/icon.svg", asset("image/svg+xml", ICON))
}

fn asset(content_type: &'static str, text: &'static str) -> axum::routing::MethodRouter<AppState> {
    let etag = format!("\"{}\"", hex(&Sha256::digest(text.as_bytes())));
    get(async move |headers: HeaderMap| respond(&headers, content_type, text, &etag))
}

/// Makes browsers revalidate a cached asset each time, so that after an upgrade no page runs with the script of
/// the previous version.
fn respond(
    headers: &HeaderMap,
    content_type: &'static str,
    text: &'static str,
    etag: &str,
) -> Response {
    let is_cached = items(headers, IF_NONE_MATCH).any(|tag| tag == etag);
    let mut response =
        if is_cached { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    set_header(&mut response, ETAG, etag);
    response
}
