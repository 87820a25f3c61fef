//! Parser for server-sent events, by the HTML standard.

use std::collections::VecDeque;
use std::time::Duration;

/// Limit on the size of a frame. Results have at most 16 MiB by default.
const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// Type of the event. Defaults to `message`.
    pub(super) event: String,
    /// Data lines, joined.
    pub(super) data: String,
}

/// Error for a frame above the limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {FRAME_BYTES_MAX} bytes")]
pub(super) struct FrameTooLong;

/// Incremental parser of one connection.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    /// The last chunk ended with CR, so a leading LF of the next one belongs to it.
    after_cr: bool,
    /// A byte order mark is allowed only at the start.
    begun: bool,
    event: String,
    data: String,
    retry: Option<Duration>,
    ready: VecDeque<Frame>,
}

impl Parser {
    /// Adds received bytes.
    pub(super) fn push(&mut self, mut chunk: &[u8]) -> Result<(), FrameTooLong> {
        if std::mem::take(&mut self.after_cr) {
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = chunk.split_at(end);
            self.line.extend_from_slice(line);
            chunk = match rest {
                [b'\r', b'\n', after @ ..] | [b'\n' | b'\r', after @ ..] => after,
                other => other,
            };
            self.after_cr = rest == b"\r";
            self.end_line();
        }
        self.line.extend_from_slice(chunk);
        if self.line.len() + self.data.len() > FRAME_BYTES_MAX {
            return Err(FrameTooLong);
        }
        Ok(())
    }

    /// Returns the next complete frame.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// Takes the reconnection delay, if the server has sent one since the last call.
    pub(super) fn take_retry(&mut self) -> Option<Duration> {
        self.retry.take()
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = text.as_ref();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "retry" => self.retry = parse_retry(value).or(self.retry),
            // Comments have no field name; ids equal the version of the job.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let event = std::mem::take(&mut self.event);
        let mut data = std::mem::take(&mut self.data);
        // By the standard, an event without data is dropped.
        if data.pop().is_some() {
            let event = if event.is_empty() { "message".to_owned() } else { event };
            self.ready.push_back(Frame { event, data });
        }
    }
}

fn parse_retry(value: &str) -> Option<Duration> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| value.parse().ok()).flatten().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::default();
        for chunk in chunks {
            parser.push(chunk).unwrap();
        }
        std::iter::from_fn(|| parser.pop()).map(|frame| (frame.event, frame.data)).collect()
    }

    fn one(event: &str, data: &str) -> Vec<(String, String)> {
        vec![(event.to_owned(), data.to_owned())]
    }

    #[test]
    fn sse_frame_has_a_type_and_data() {
        assert_eq!(frames(&[b"event: job\nid: 4\ndata: {}\n\n"]), one("job", "{}"));
        assert_eq!(frames(&[b"data:x\n\n"]), one("message", "x"));
    }

    #[test]
    fn sse_lines_end_in_lf_crlf_or_cr() {
        assert_eq!(frames(&[b"data: a\r\ndata: b\r\n\r\n"]), one("message", "a\nb"));
        assert_eq!(frames(&[b"data: a\rdata: b\r\r"]), one("message", "a\nb"));
        assert_eq!(frames(&[b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]), one("message", "a\nb"));
    }

    #[test]
    fn sse_data_lines_are_joined() {
        assert_eq!(frames(&[b"data: a\ndata\ndata:  b\n\n"]), one("message", "a\n\n b"));
    }

    #[test]
    fn sse_comments_and_unknown_fields_are_ignored() {
        assert_eq!(frames(&[b": alive\n\nfoo: 1\n:\ndata: x\n\n: alive\n\n"]), one("message", "x"));
    }

    #[test]
    fn incomplete_sse_frame_is_not_returned() {
        assert_eq!(frames(&[b"data: x\n\ndata: y\n"]), one("message", "x"));
    }

    #[test]
    fn sse_frame_without_data_is_not_returned() {
        assert_eq!(frames(&[b"event: job\nid: 4\n\ndata: x\n\n"]), one("message", "x"));
    }

    #[test]
    fn sse_stream_may_start_with_a_byte_order_mark() {
        assert_eq!(frames(&["\u{feff}data: x\n\n".as_bytes()]), one("message", "x"));
    }

    #[test]
    fn sse_retry_is_whole_milliseconds() {
        let mut parser = Parser::default();
        parser.push(b"retry: 1500\n\nretry: soon\nretry: +1\n").unwrap();
        assert_eq!(parser.take_retry(), Some(Duration::from_millis(1500)));
        assert_eq!(parser.take_retry(), None);
    }

    proptest! {
        #[test]
        fn sse_frames_do_not_depend_on_chunk_boundaries(
            text in "(data: [aä]{0,3}(\r\n|\n|\r)|event: job\n|: x\r\n|\r\n|\n|\r){0,12}",
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(frames(&chunks), frames(&[bytes]));
        }
    }
}
