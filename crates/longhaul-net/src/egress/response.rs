//! Response of an egress request.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

/// Response with any status, including redirects, which are not followed.
#[derive(Clone)]
pub struct EgressResponse {
    pub status: StatusCode,
    pub retry_after: Option<RetryAfter>,
    pub headers: HeaderMap,
    /// Start of the body, up to [`EgressRequest::body_prefix_max`](super::EgressRequest::body_prefix_max).
    pub body_prefix: Bytes,
    /// Time until the response headers, including the connection.
    pub latency: Duration,
}

/// Value of a `Retry-After` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    Delay(Duration),
    At(SystemTime),
}

impl RetryAfter {
    /// Parses the header. Returns `None` for a value that is neither seconds nor an HTTP date, so that
    /// the caller's own schedule applies.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        match text.parse::<u32>() {
            Ok(seconds) => Some(Self::Delay(Duration::from_secs(seconds.into()))),
            Err(_) => httpdate::parse_http_date(text).ok().map(Self::At),
        }
    }

    /// Returns the delay from `now`. Zero if the instant has passed.
    pub fn delay(self, now: SystemTime) -> Duration {
        match self {
            Self::Delay(delay) => delay,
            Self::At(at) => at.duration_since(now).unwrap_or_default(),
        }
    }
}

/// Omits headers and body, which belong to the tenant.
impl std::fmt::Debug for EgressResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EgressResponse")
            .field("status", &self.status)
            .field("retry_after", &self.retry_after)
            .field("latency", &self.latency)
            .finish_non_exhaustive()
    }
}
