//! What every answer gets on its way out: a request id, headers for browsers, and a problem where
//! it is an error.

use std::any::Any;
use std::borrow::Cow;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

use super::{INTERNAL_DETAIL, PROBLEM_JSON, Problem};
use crate::listen::ClientInfo;
use crate::request_id::{RequestId, X_REQUEST_ID};
use crate::security_headers;

/// Marks an answer that is somebody else's, errors included: it goes out as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verbatim;

/// What is kept of a framework's own explanation.
const DETAIL_BYTES_MAX: usize = 4_096;

/// Marks an error that is answered in a door's own dialect, and stays as it is.
#[derive(Debug, Clone, Copy)]
pub struct KeepBody;

/// Puts the layers around a router: request id and span outermost, then the problems, then panics.
pub fn with_layers(router: Router) -> Router {
    router.layer(CatchPanicLayer::custom(answer_panic)).layer(middleware::from_fn(finish))
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is tower-http's")]
fn answer_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    Problem::internal(format_args!("panic: {}", text.unwrap_or("without a text"))).into_response()
}

async fn finish(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    // The path without the query: queries may hold what callers would not want logged.
    let span = tracing::info_span!(
        "request",
        request.id = %id,
        http.method = %request.method(),
        http.path = request.uri().path(),
        client.address = tracing::field::Empty,
    );
    if let Some(client) = request.extensions().get::<ClientInfo>() {
        span.record("client.address", tracing::field::display(client.address));
    }
    request.extensions_mut().insert(id.clone());
    let path = request.uri().path().to_owned();
    let began = Instant::now();
    async {
        let mut response = next.run(request).await;
        if response.extensions_mut().remove::<Verbatim>().is_some() {
            response.headers_mut().entry(X_REQUEST_ID).or_insert(id.to_header());
            log(&response, began);
            return response;
        }
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        if is_error && response.extensions().get::<KeepBody>().is_none() {
            response = as_problem(response, &id).await;
        }
        response.headers_mut().insert(X_REQUEST_ID, id.to_header());
        security_headers::complete(response.headers_mut(), &path);
        log(&response, began);
        response
    }
    .instrument(span)
    .await
}

fn log(response: &Response, began: Instant) {
    let (status, took) = (response.status().as_u16(), began.elapsed());
    tracing::debug!(http.status = status, duration_ms = took.as_secs_f64() * 1e3, "answered");
}

/// Replaces the body, and keeps the status and headers such as `Allow` and `Retry-After`.
async fn as_problem(response: Response, id: &RequestId) -> Response {
    let (mut parts, body) = response.into_parts();
    let problem = match parts.extensions.remove::<Problem>() {
        Some(problem) => problem,
        None => Problem::of_status(parts.status, explain(parts.status, &parts.headers, body).await),
    };
    problem.log();
    for stale in [CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING] {
        parts.headers.remove(stale);
    }
    parts.headers.insert(CONTENT_TYPE, PROBLEM_JSON);
    Response::from_parts(parts, Body::from(problem.to_json(id.as_str())))
}

/// The framework's own words where they are a short text about the caller's mistake.
async fn explain(status: StatusCode, headers: &HeaderMap, body: Body) -> Cow<'static, str> {
    if status.is_server_error() {
        return INTERNAL_DETAIL.into();
    }
    let is_text =
        headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/plain"));
    let body = if is_text { body } else { Body::empty() };
    let text = axum::body::to_bytes(body, DETAIL_BYTES_MAX).await.ok();
    match text.as_deref().map(String::from_utf8_lossy) {
        Some(text) if !text.is_empty() => text.into_owned().into(),
        Some(_) | None => status.canonical_reason().unwrap_or("refused").to_lowercase().into(),
    }
}
