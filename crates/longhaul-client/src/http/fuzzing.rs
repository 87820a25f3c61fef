//! Properties of response parsers.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER as RETRY_AFTER_NAME};

use super::sse::{Frame, Parser};
use super::upload::{IN_PROGRESS_PATIENCE, retry_after};
use crate::fuzzing::Target;

pub(crate) const SSE: Target = (
    "sse",
    sse,
    &[
        b"\x05event: job\nid: 4\ndata: {}\n\n",
        b"\x01\xef\xbb\xbfdata: a\r\ndata:  b\r\rdata\n\n",
        b"\x02retry: 1500\n: alive\n\ndata:\xff\n\r\n",
        b"\x03event\ndata\n\nevent: x\n\n",
        b"\x08retry: 99999999999999999999\ndata: \xef\xbb\xbf\n\n",
    ],
);

/// Chunk boundaries do not change the frames, and a parsed frame can be sent unchanged.
fn sse(bytes: &[u8]) {
    let Some((size, stream)) = bytes.split_first() else { return };
    let whole = read(std::iter::once(stream));
    assert_eq!(read(stream.chunks(usize::from(*size).max(1))), whole, "in pieces of {size}");
    for frame in &whole.0 {
        assert!(!frame.event.is_empty() && !frame.event.contains(['\n', '\r']), "{frame:?}");
        assert!(!frame.data.contains('\r'), "{frame:?}");
    }
    let sent: Vec<String> = whole.0.iter().map(sent).collect();
    let sent = sent.concat();
    assert_eq!(read(std::iter::once(sent.as_bytes())).0, whole.0, "sent on");
}

/// Serializes a frame.
fn sent(frame: &Frame) -> String {
    format!("event: {}\ndata: {}\n\n", frame.event, frame.data.replace('\n', "\ndata: "))
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, Option<Duration>) {
    let mut parser = Parser::default();
    for piece in pieces {
        assert_eq!(parser.push(piece), Ok(()));
    }
    (std::iter::from_fn(|| parser.pop()).collect(), parser.take_retry())
}

pub(crate) const RETRY_AFTER: Target = (
    "retry-after",
    retry,
    &[b"2", b"0", b"+2", b" 2", b"99999999999", b"Wed, 21 Oct 2026 07:28:00 GMT"],
);

/// Only whole seconds are accepted, and the delay is capped.
fn retry(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let headers = HeaderMap::from_iter([(RETRY_AFTER_NAME, value)]);
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    match retry_after(&headers) {
        Some(wait) => assert!(digits && wait <= IN_PROGRESS_PATIENCE, "{bytes:?}: {wait:?}"),
        None => assert!(!digits || bytes.len() > 19, "{bytes:?}"),
    }
}
