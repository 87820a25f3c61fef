//! Protection against cross-site request forgery.
//!
//! Two independent checks: the browser's `Sec-Fetch-Site` or `Origin` header here, and a token in every form
//! (`form`).

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Code, Problem};

pub(super) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects changes that no page of this server sent.
pub(super) async fn reject_other_sites(request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read || is_same_site(&request) {
        return next.run(request).await;
    }
    let detail = "only pages of this server may send this request; programs use the API under /v1";
    Problem::new(Code::Forbidden, detail).into_response()
}

fn is_same_site(request: &Request) -> bool {
    let headers = request.headers();
    match headers.get(SEC_FETCH_SITE) {
        Some(site) => site == "same-origin",
        // Older browsers send at least the origin of the page.
        None => origin(headers).is_some_and(|origin| Some(origin) == host(request)),
    }
}

/// Returns host and port of the page that sent the request.
fn origin(headers: &HeaderMap) -> Option<&str> {
    let origin = headers.get(ORIGIN)?.to_str().ok()?;
    origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"))
}

/// Returns host and port that the request was sent to.
pub(super) fn host(request: &Request) -> Option<&str> {
    let header = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str))
}
