//! Keeps other sites' pages from pressing our buttons.
//!
//! Two walls: browsers say where a request comes from, and every form carries a token (`form`).

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Code, Problem};

pub(super) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Lets a page of ours change something, and nobody else's.
pub(super) async fn refuse_other_sites(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads || is_from_here(&request) {
        return next.run(request).await;
    }
    let detail = "only this server's own pages may send this; programs use the API below /v1";
    Problem::new(Code::Forbidden, detail).into_response()
}

fn is_from_here(request: &Request) -> bool {
    let headers = request.headers();
    match headers.get(SEC_FETCH_SITE) {
        Some(site) => site == "same-origin",
        // A browser that does not say so says at least its page's origin.
        None => origin(headers).is_some_and(|origin| Some(origin) == host(request)),
    }
}

/// Host and port of the page that sent it.
fn origin(headers: &HeaderMap) -> Option<&str> {
    let origin = headers.get(ORIGIN)?.to_str().ok()?;
    origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"))
}

/// Host and port that the request was sent to.
pub(super) fn host(request: &Request) -> Option<&str> {
    let named = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    named.or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str))
}
