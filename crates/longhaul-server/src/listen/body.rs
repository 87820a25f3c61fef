//! A request body that has to arrive.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

/// Fails once the peer has let us wait for longer than it had left.
///
/// Only time spent waiting counts: a handler that is slow to read must not cost its caller the
/// upload. Bytes earn time, so that the limit is on slowness, not on size.
pub(super) struct PromptBody {
    inner: Incoming,
    /// How much longer the peer may let us wait.
    left: Duration,
    bytes_per_s_min: u64,
    wait: Option<Wait>,
    late: Late,
}

struct Wait {
    since: Instant,
    end: Pin<Box<Sleep>>,
}

/// Whether a body failed for being slow, for whoever writes the answer.
#[derive(Clone, Default)]
pub(super) struct Late(Arc<AtomicBool>);

impl Late {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
struct TooSlow;

impl PromptBody {
    pub(super) fn new(inner: Incoming, timeout: Duration, bytes_per_s_min: u64) -> Self {
        Self { inner, left: timeout, bytes_per_s_min, wait: None, late: Late::default() }
    }

    pub(super) fn late(&self) -> Late {
        self.late.clone()
    }

    fn arrived(&mut self, frame: &Frame<Bytes>) {
        if let Some(wait) = self.wait.take() {
            self.left = self.left.saturating_sub(wait.since.elapsed());
        }
        let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
        let earned_us = bytes.saturating_mul(1_000_000) / self.bytes_per_s_min.max(1);
        self.left = self.left.saturating_add(Duration::from_micros(earned_us));
    }
}

impl HttpBody for PromptBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(arrived) = Pin::new(&mut self.inner).poll_frame(cx) {
            if let Some(Ok(frame)) = &arrived {
                self.arrived(frame);
            }
            return Poll::Ready(arrived.map(|frame| frame.map_err(BoxError::from)));
        }
        let left = self.left;
        let wait = self.wait.get_or_insert_with(|| Wait {
            since: Instant::now(),
            end: Box::pin(tokio::time::sleep(left)),
        });
        ready!(wait.end.as_mut().poll(cx));
        self.late.0.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
