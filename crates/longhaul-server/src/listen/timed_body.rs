//! Request body with a time limit.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

/// A request body that fails once waiting for the peer has used up its time.
///
/// Only time spent waiting counts, so that a slow handler does not fail its caller's upload. Received
/// bytes extend the time, so that the limit is on rate and not on size.
pub(super) struct TimedBody {
    inner: Incoming,
    /// Remaining time to wait for the peer.
    left: Duration,
    bytes_per_s_min: u64,
    wait: Option<Wait>,
    timed_out: TimeoutFlag,
}

struct Wait {
    since: Instant,
    end: Pin<Box<Sleep>>,
}

/// Set once a body has timed out; read by the code that writes the response.
#[derive(Clone, Default)]
pub(super) struct TimeoutFlag(Arc<AtomicBool>);

impl TimeoutFlag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
struct BodyTimeout;

impl TimedBody {
    pub(super) fn new(inner: Incoming, timeout: Duration, bytes_per_s_min: u64) -> Self {
        Self {
            inner,
            left: timeout,
            bytes_per_s_min,
            wait: None,
            timed_out: TimeoutFlag::default(),
        }
    }

    pub(super) fn timeout_flag(&self) -> TimeoutFlag {
        self.timed_out.clone()
    }

    fn record_frame(&mut self, frame: &Frame<Bytes>) {
        if let Some(wait) = self.wait.take() {
            self.left = self.left.saturating_sub(wait.since.elapsed());
        }
        let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
        let earned_us = bytes.saturating_mul(1_000_000) / self.bytes_per_s_min.max(1);
        self.left = self.left.saturating_add(Duration::from_micros(earned_us));
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(received) = Pin::new(&mut self.inner).poll_frame(cx) {
            if let Some(Ok(frame)) = &received {
                self.record_frame(frame);
            }
            return Poll::Ready(received.map(|frame| frame.map_err(BoxError::from)));
        }
        let left = self.left;
        let wait = self.wait.get_or_insert_with(|| Wait {
            since: Instant::now(),
            end: Box::pin(tokio::time::sleep(left)),
        });
        ready!(wait.end.as_mut().poll(cx));
        self.timed_out.0.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(BodyTimeout.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
