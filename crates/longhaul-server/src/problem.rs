//! Errors as `application/problem+json` (RFC 9457): the table of codes, the conversion of engine errors, and a layer
//! that converts all other error responses.

mod code;
mod layer;
mod submit;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::store::StoreError;
use longhaul_client::wire;

use crate::request_id::{RequestId, X_REQUEST_ID};
use crate::security_headers;

pub use code::Code;
pub(crate) use layer::Passthrough;
pub use layer::{KeepBody, with_layers};

pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Detail of internal errors; the cause is only logged.
const INTERNAL_DETAIL: &str =
    "internal error; the server's log has the cause under this request id";
const BUSY_DETAIL: &str = "the store is busy or unavailable, and the request may have taken effect: retry it with the \
     same Idempotency-Key";

/// Retry delay when the disk is full.
const STORAGE_FULL_RETRY: Duration = Duration::from_secs(10);

/// Result of a handler or of a function behind one.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// An error response.
#[derive(Debug, Clone)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    detail: Cow<'static, str>,
    /// Boxed, because most problems have none and `Result<_, Problem>` should stay small.
    headers: Box<HeaderMap>,
    /// Logged, never sent.
    cause: Option<String>,
}

impl Problem {
    /// Creates a problem; `detail` describes what the caller can do.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let (status, headers) = (code.status(), Box::default());
        Self { code, status, detail: detail.into(), headers, cause: None }
    }

    /// Creates the problem of a value that is not allowed.
    pub fn invalid(reason: impl fmt::Display) -> Self {
        Self::new(Code::Validation, reason.to_string())
    }

    /// Creates an internal error. `cause` is logged with the request id and not sent.
    pub fn internal(cause: impl fmt::Display) -> Self {
        Self::new(Code::Internal, INTERNAL_DETAIL).with_source(cause)
    }

    /// Sets the cause, which is only logged.
    #[must_use]
    pub fn with_source(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Adds `Retry-After` in whole seconds, at least one.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        let whole = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        self.header(RETRY_AFTER, HeaderValue::from(whole.max(1)))
    }

    /// Adds a header whose value is ASCII without control characters; any other value is left out.
    #[must_use]
    pub fn text_header(self, name: HeaderName, text: &str) -> Self {
        match HeaderValue::from_str(text) {
            Ok(value) => self.header(name, value),
            Err(_) => self,
        }
    }

    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the headers besides the content type.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Logs the cause, if there is one.
    pub fn log(&self) {
        if let Some(cause) = &self.cause {
            tracing::error!(problem.code = self.code.as_str(), cause, "request failed");
        }
    }

    /// Converts to the wire type of a body or of an entry in a batch.
    pub fn to_wire(&self, request_id: &str) -> wire::Problem {
        wire::Problem {
            r#type: self.code.type_uri().to_owned(),
            title: self.code.title().to_owned(),
            status: self.status.as_u16(),
            detail: self.detail.to_string(),
            code: self.code.as_str().to_owned(),
            request_id: request_id.to_owned(),
        }
    }

    /// Serializes the body.
    pub fn to_json(&self, request_id: &str) -> Vec<u8> {
        // Strings and a number: this cannot fail.
        serde_json::to_vec(&self.to_wire(request_id)).unwrap_or_default()
    }

    /// Builds a complete response, for connections that do not pass [`with_layers`].
    pub fn respond(self, id: &RequestId) -> Response {
        let body = Body::from(self.to_json(id.as_str()));
        let mut response = self.into_response();
        *response.body_mut() = body;
        response.headers_mut().insert(X_REQUEST_ID, id.to_header());
        security_headers::complete(response.headers_mut(), false);
        response
    }

    /// Converts an error response of the framework, keeping its status.
    fn of_status(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, ..Self::new(Code::of_status(status), detail) }
    }
}

/// The request id is filled in by [`with_layers`].
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json("")));
        *response.status_mut() = self.status;
        response.headers_mut().extend(HeaderMap::clone(&self.headers));
        response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
        response.extensions_mut().insert(self);
        response
    }
}

/// Decides what a caller sees of a store error.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::LeaseLost => Code::LeaseLost,
            StoreError::NotFound => Code::JobNotFound,
            StoreError::Gone => Code::JobGone,
            StoreError::WrongStatus { .. } => Code::WrongStatus,
            StoreError::KeyReused { .. } => Code::IdempotencyKeyReused,
            StoreError::StepConflict { .. } => Code::StepConflict,
            StoreError::UnknownStep { .. } => Code::StepUnknown,
            StoreError::PayloadPurged => Code::PayloadPurged,
            StoreError::StorageFull => {
                return Self::new(Code::StorageFull, error.to_string())
                    .retry_after(STORAGE_FULL_RETRY)
                    .with_source(&error);
            }
            StoreError::Unavailable(_) => {
                return Self::new(Code::Unavailable, BUSY_DETAIL)
                    .retry_after(Duration::from_secs(1))
                    .with_source(&error);
            }
            // Not caused by a request.
            StoreError::NameTaken { .. } | StoreError::Broken(_) => return Self::internal(&error),
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_codes_are_stable() {
        let line = |c: &Code| format!("{} {} {}", c.status().as_u16(), c.as_str(), c.title());
        insta::assert_snapshot!(Code::ALL.iter().map(line).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn problem_retry_after_is_whole_seconds_and_never_zero() {
        let header = |delay| {
            let problem = Problem::new(Code::Unavailable, "busy").retry_after(delay);
            problem.into_response().headers()[RETRY_AFTER].to_str().unwrap().to_owned()
        };
        assert_eq!(header(Duration::ZERO), "1");
        assert_eq!(header(Duration::from_millis(1_001)), "2");
    }

    #[test]
    fn store_error_texts_are_not_sent() {
        let secret = "postgres://user:pw@db/longhaul refused";
        for error in [StoreError::Unavailable(secret.into()), StoreError::Broken(secret.into())] {
            let problem = Problem::from(error);
            assert!(!String::from_utf8(problem.to_json("r")).unwrap().contains("pw@db"));
            assert!(problem.cause.is_some_and(|cause| cause.contains(secret)));
        }
    }
}
