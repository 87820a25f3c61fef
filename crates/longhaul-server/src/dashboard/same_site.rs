//! Protection against cross-site request forgery.
//!
//! Two independent checks: the browser's `Sec-Fetch-Site` or `Origin` header here, and a token in every form
//! (`form`).

use axum::extract::Request;
use axum::http::Method;
use axum::http::header::ORIGIN;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::http::site_guard::{SEC_FETCH_SITE, is_own};
use crate::problem::{Code, Problem};

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
        None => headers.get(ORIGIN).is_some_and(|origin| is_own(request, origin)),
    }
}
