//! Outermost layers: request id, security headers, and problems for all errors.

use std::any::Any;
use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower::{Layer as _, Service};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

use super::{INTERNAL_DETAIL, PROBLEM_JSON, Problem};
use crate::listen::ClientInfo;
use crate::request_id::{RequestId, X_REQUEST_ID};
use crate::security_headers;

/// Marks an upstream response of the gateway, which is sent unchanged, errors included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passthrough;

/// Longest part of a framework's error text that is kept.
const DETAIL_BYTES_MAX: usize = 4_096;

/// Marks an error response whose body is kept, for example in the format of a compatibility API.
#[derive(Debug, Clone, Copy)]
pub struct KeepBody;

/// Adds the layers to a router: request id and span outermost, then problems, then panics.
///
/// They wrap the router as a whole. As layers of each route they would be cloned with it for every request, and each
/// would clone all layers below it.
pub fn with_layers<S>(router: S) -> Router
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let layers = (middleware::from_fn(finish), CatchPanicLayer::custom(respond_to_panic));
    Router::new().fallback_service(layers.layer(router))
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is tower-http's")]
fn respond_to_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    Problem::internal(format_args!("panic: {}", text.unwrap_or("without a message")))
        .into_response()
}

async fn finish(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    let client = request.extensions().get::<ClientInfo>();
    // Without the query, which may contain sensitive data.
    let span = tracing::info_span!(
        "request",
        request.id = %id,
        http.method = %request.method(),
        http.path = request.uri().path(),
        client.address = client.map(|client| tracing::field::display(client.address)),
    );
    request.extensions_mut().insert(id.clone());
    let is_api = request.uri().path().starts_with("/v1/");
    let began = Instant::now();
    async {
        let mut response = next.run(request).await;
        if response.extensions_mut().remove::<Passthrough>().is_some() {
            response.headers_mut().entry(X_REQUEST_ID).or_insert(id.to_header());
            log(&response, began);
            return response;
        }
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        if is_error && response.extensions().get::<KeepBody>().is_none() {
            response = as_problem(response, &id).await;
        }
        response.headers_mut().insert(X_REQUEST_ID, id.to_header());
        security_headers::complete(response.headers_mut(), is_api);
        log(&response, began);
        response
    }
    .instrument(span)
    .await
}

fn log(response: &Response, began: Instant) {
    let (status, took) = (response.status().as_u16(), began.elapsed());
    tracing::debug!(
        http.status = status,
        duration_ms = took.as_secs_f64() * 1e3,
        "request finished"
    );
}

/// Replaces the body; keeps the status and headers such as `Allow` and `Retry-After`.
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

/// Returns the framework's text if it is short and about a client error.
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
        Some(_) | None => status.canonical_reason().unwrap_or("rejected").to_lowercase().into(),
    }
}
