//! What a receiver said.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

/// An answer, whatever its status: a redirect is one too, and is not followed.
#[derive(Clone)]
pub struct EgressResponse {
    /// Its status.
    pub status: StatusCode,
    /// When the receiver wants to be asked again, if it says.
    pub retry_after: Option<RetryAfter>,
    /// All of its fields.
    pub headers: HeaderMap,
    /// The beginning of its body, as far as it was asked for and came in time.
    pub body_prefix: Bytes,
    /// From the call to the answer's head, the connection included.
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

/// Without what the receiver wrote: it may be anything, and it is the tenant's.
impl std::fmt::Debug for EgressResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EgressResponse")
            .field("status", &self.status)
            .field("retry_after", &self.retry_after)
            .field("latency", &self.latency)
            .finish_non_exhaustive()
    }
}
