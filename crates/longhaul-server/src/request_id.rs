//! Request ids, which link a response, its log lines and a user's report.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use ulid::Ulid;

/// Header of the request id, in requests and responses.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const CHARS_MAX: usize = 128;

/// Id of a request: the caller's if it is valid, otherwise a new one. Stored in the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the caller's id if it has 1 to 128 visible ASCII characters, otherwise a new one.
    ///
    /// Other characters could break a log line or the response header.
    pub fn of(headers: &HeaderMap) -> Self {
        headers.get(X_REQUEST_ID).and_then(Self::usable).unwrap_or_else(Self::fresh)
    }

    /// Generates an id.
    pub fn fresh() -> Self {
        let text = Ulid::generate().to_string();
        // A ULID is 26 letters and digits, always a valid header.
        Self(HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("unknown")))
    }

    fn usable(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        let fits = (1..=CHARS_MAX).contains(&bytes.len());
        (fits && bytes.iter().all(u8::is_ascii_graphic)).then(|| Self(value.clone()))
    }

    pub fn as_str(&self) -> &str {
        // Only visible ASCII gets in.
        self.0.to_str().unwrap_or_default()
    }

    pub fn to_header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(value: &[u8]) -> RequestId {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        RequestId::of(&headers)
    }

    #[test]
    fn valid_request_id_is_kept() {
        assert_eq!(given(b"trace-4711").as_str(), "trace-4711");
        assert_eq!(given(&[b'x'; CHARS_MAX]).as_str().len(), CHARS_MAX);
    }

    #[test]
    fn invalid_request_id_is_replaced() {
        let bad: [&[u8]; 4] = [b"", b"two words", "ä".as_bytes(), &[b'x'; CHARS_MAX + 1]];
        for bad in bad {
            assert_eq!(given(bad).as_str().len(), 26, "{bad:?}");
        }
    }
}
