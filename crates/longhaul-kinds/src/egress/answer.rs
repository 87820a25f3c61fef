//! What a receiver said.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use longhaul::Timestamp;

/// An answer, whatever its status: a redirect is one too, and is not followed.
#[derive(Clone)]
pub struct Answer {
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

/// When a receiver wants to be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// After so long.
    Pause(Duration),
    /// At this time.
    At(Timestamp),
}

impl RetryAfter {
    /// Nothing of what cannot be understood: our own schedule is good enough then.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse::<u32>() {
            return Some(Self::Pause(Duration::from_secs(seconds.into())));
        }
        let at = httpdate::parse_http_date(text).ok()?;
        let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self::At(Timestamp::from_millis(0).after(since_1970)))
    }

    /// How long from `now` on; nothing if that is over.
    pub fn pause(self, now: Timestamp) -> Duration {
        match self {
            Self::Pause(pause) => pause,
            Self::At(at) => at.since(now),
        }
    }
}

/// Without what the receiver wrote: it may be anything, and it is the tenant's.
impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("retry_after", &self.retry_after)
            .field("latency", &self.latency)
            .finish_non_exhaustive()
    }
}
