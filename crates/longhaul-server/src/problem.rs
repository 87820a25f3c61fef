//! Errors as `application/problem+json` (RFC 9457): one table of codes, one place that turns the
//! engine's errors into answers, and a layer that leaves no other kind of error body.

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
pub(crate) use layer::Verbatim;
pub use layer::{KeepBody, with_layers};

/// The content type of every error.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What callers are told about a fault of ours; the log has the rest.
const INTERNAL_DETAIL: &str =
    "the server could not do this; its log has the reason under this request id";
const BUSY_DETAIL: &str = "the store is busy or out of reach; whether this took effect is not known: repeat it with \
     the same Idempotency-Key";

/// When the disk may have room again: somebody has to make some.
const STORAGE_FULL_RETRY: Duration = Duration::from_secs(10);

/// An error on its way to the caller.
#[derive(Debug, Clone)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    detail: Cow<'static, str>,
    /// Boxed: most problems have none, and every handler's result would have to make room.
    headers: Box<HeaderMap>,
    /// For the log; never leaves the server.
    cause: Option<String>,
}

impl Problem {
    /// A problem with this code; `detail` tells the caller what to do about it.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let (status, headers) = (code.status(), Box::default());
        Self { code, status, detail: detail.into(), headers, cause: None }
    }

    /// A fault of ours: `cause` is logged, with the request's id, and the caller is not told.
    pub fn internal(cause: impl fmt::Display) -> Self {
        Self::new(Code::Internal, INTERNAL_DETAIL).with_source(cause)
    }

    /// For the log only: what lies behind it.
    #[must_use]
    pub fn with_source(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Says when to try again, in whole seconds, at least one.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        let whole = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
        self.header(RETRY_AFTER, HeaderValue::from(whole.max(1)))
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Its HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What the caller reads.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The headers that it brings besides the content type.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Tells the log what lies behind it.
    pub fn log(&self) {
        if let Some(cause) = &self.cause {
            tracing::error!(problem.code = self.code.as_str(), cause, "request failed");
        }
    }

    /// What is sent: the body of an answer, or one entry in the answer to a batch.
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

    /// The body of an answer.
    pub fn to_json(&self, request_id: &str) -> Vec<u8> {
        // Strings and a number: this cannot fail.
        serde_json::to_vec(&self.to_wire(request_id)).unwrap_or_default()
    }

    /// The whole answer, for where [`with_layers`] no longer gets to see it.
    pub fn respond(self, id: &RequestId) -> Response {
        let body = Body::from(self.to_json(id.as_str()));
        let mut response = self.into_response();
        *response.body_mut() = body;
        response.headers_mut().insert(X_REQUEST_ID, id.to_header());
        security_headers::complete(response.headers_mut(), "");
        response
    }

    /// The nearest problem for an error that the framework answered; its status stays.
    fn of_status(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, ..Self::new(Code::of_status(status), detail) }
    }
}

/// The answer lacks the request's id until it passes [`with_layers`], which knows it.
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

/// The one place that decides what a caller sees of a store's error.
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
            // A replica's own affair, which no caller can bring about.
            StoreError::NameTaken { .. } | StoreError::Broken(_) => return Self::internal(&error),
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable() {
        let line = |c: &Code| format!("{} {} {}", c.status().as_u16(), c.as_str(), c.title());
        insta::assert_snapshot!(Code::ALL.iter().map(line).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn retry_after_is_whole_seconds_and_never_zero() {
        let header = |delay| {
            let problem = Problem::new(Code::Unavailable, "busy").retry_after(delay);
            problem.into_response().headers()[RETRY_AFTER].to_str().unwrap().to_owned()
        };
        assert_eq!(header(Duration::ZERO), "1");
        assert_eq!(header(Duration::from_millis(1_001)), "2");
    }

    #[test]
    fn stores_inner_texts_stay_inside() {
        let secret = "postgres://user:pw@db/longhaul refused";
        for error in [StoreError::Unavailable(secret.into()), StoreError::Broken(secret.into())] {
            let problem = Problem::from(error);
            assert!(!String::from_utf8(problem.to_json("r")).unwrap().contains("pw@db"));
            assert!(problem.cause.is_some_and(|cause| cause.contains(secret)));
        }
    }
}
