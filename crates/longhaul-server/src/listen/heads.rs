//! Finds requests that say their length twice.
//!
//! `Content-Length` beside `Transfer-Encoding` is how a request is smuggled past a proxy that goes
//! by the other one (RFC 9112 6.1). hyper goes by the chunks and drops the length before anybody
//! sees it, so what comes in is looked at on its way to hyper.
//!
//! hyper alone decides where a message ends. Should this lose its place, it stops looking, and
//! hyper's own rule is left: such a request is its connection's last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is kept of a line: more than the fields that matter need.
const LINE_BYTES_MAX: usize = 256;

/// The number of the connection's first request with two lengths, from 1; 0 while there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct TwoLengths(Arc<AtomicU64>);

impl TwoLengths {
    pub(super) fn has(&self, request: u64) -> bool {
        self.first() == request
    }

    pub(super) fn first(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Follows one connection's requests, byte by byte.
#[derive(Debug, Default)]
pub(super) struct Heads {
    place: Place,
    /// The line that is coming in, as far as it is kept.
    line: Vec<u8>,
    /// Lines of this head so far; the first is the request line.
    lines: u64,
    /// What `Content-Length` says, if it is there.
    length: Option<Length>,
    chunked: bool,
    /// Heads that are behind us.
    count: u64,
    found: TwoLengths,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    /// It cannot be read, but is there all the same: beside chunks hyper passes over it.
    Unread,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    /// So many bytes are left of a body.
    Body(u64),
    ChunkSize,
    /// So many bytes are left of a chunk, with the line break behind it.
    Chunk(u64),
    Trailers,
    Lost,
}

impl Heads {
    pub(super) fn found(&self) -> TwoLengths {
        self.found.clone()
    }

    /// Looks at what has come in.
    pub(super) fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.place {
                Place::Lost => return,
                Place::Body(left) => self.pass(left, bytes, Place::Body, Place::Head),
                Place::Chunk(left) => self.pass(left, bytes, Place::Chunk, Place::ChunkSize),
                Place::Head | Place::ChunkSize | Place::Trailers => self.see_line(bytes),
            };
        }
    }

    /// Goes over bytes that mean nothing here; returns what is behind them.
    fn pass<'a>(
        &mut self,
        left: u64,
        bytes: &'a [u8],
        still: fn(u64) -> Place,
        then: Place,
    ) -> &'a [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - here as u64;
        self.place = if left == 0 { then } else { still(left) };
        bytes.get(here..).unwrap_or_default()
    }

    fn see_line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let here = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let room = LINE_BYTES_MAX - self.line.len().min(LINE_BYTES_MAX);
        self.line.extend(here.iter().take(room));
        let Some(end) = end else { return &[] };
        let line = std::mem::take(&mut self.line);
        self.place = self.after_line(line.strip_suffix(b"\r").unwrap_or(&line));
        // Its memory is for the next one.
        self.line = line;
        self.line.clear();
        bytes.get(end + 1..).unwrap_or_default()
    }

    fn after_line(&mut self, line: &[u8]) -> Place {
        match (self.place, line.is_empty()) {
            (Place::Head, true) if self.lines == 0 => Place::Head,
            (Place::Head, true) => self.after_head(),
            (Place::Head, false) => self.after_field(line),
            (Place::Trailers, true) => Place::Head,
            (Place::Trailers, false) => Place::Trailers,
            (Place::ChunkSize, _) => match chunk_size(line) {
                Some(0) => Place::Trailers,
                Some(size) => Place::Chunk(size.saturating_add(2)),
                None => Place::Lost,
            },
            (Place::Body(_) | Place::Chunk(_) | Place::Lost, _) => Place::Lost,
        }
    }

    fn after_field(&mut self, line: &[u8]) -> Place {
        self.lines += 1;
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|at| line.split_at_checked(at)) else {
            return Place::Head;
        };
        if self.lines == 1 {
            return Place::Head;
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // hyper refuses all but chunks.
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value.get(1..).unwrap_or_default(), 10);
            self.length = Some(length.map_or(Length::Unread, Length::Bytes));
        }
        Place::Head
    }

    fn after_head(&mut self) -> Place {
        self.count += 1;
        self.lines = 0;
        match (self.length.take(), std::mem::take(&mut self.chunked)) {
            (None | Some(Length::Bytes(0)), false) => Place::Head,
            (Some(Length::Bytes(length)), false) => Place::Body(length),
            (Some(Length::Unread), false) => Place::Lost,
            (None, true) => Place::ChunkSize,
            (Some(_), true) => {
                self.found.0.store(self.count, Ordering::Relaxed);
                Place::Lost
            }
        }
    }
}

/// A chunk's size, without what may stand behind it.
fn chunk_size(line: &[u8]) -> Option<u64> {
    number(line.split(|byte| *byte == b';').next()?, 16)
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let digits = text.chars().all(|c| c.is_digit(radix));
    digits.then(|| u64::from_str_radix(text, radix).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many heads were seen, and which had two lengths.
    fn seen(pieces: &[&[u8]]) -> (u64, u64) {
        let mut heads = Heads::default();
        for piece in pieces {
            heads.see(piece);
        }
        (heads.count, heads.found.0.load(Ordering::Relaxed))
    }

    const PLAIN: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    const BODY: &str = "POST / HTTP/1.1\r\nContent-Length:  14 \r\n\r\nGET / HTTP\r\n\r\n";
    const CHUNKS: &str = "\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                          2;why=x\r\n\r\n\r\nA\r\n0123456789\r\n0\r\ncontent-length: 4\r\n\r\n";
    const LF: &str = "POST http://x/ HTTP/1.1\ncontent-length: 3\n\nabc";
    const TWO: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 1\r\n\r\n";
    const OWT: &str = "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";

    #[test]
    fn only_both_lengths_in_one_head_are_found_and_with_their_number() {
        for one in [PLAIN, BODY, CHUNKS, LF] {
            assert_eq!(seen(&[one.as_bytes()]), (1, 0), "{one}");
        }
        for two in [TWO, OWT] {
            assert_eq!(seen(&[two.as_bytes()]), (1, 1), "{two}");
            assert_eq!(seen(&[PLAIN.as_bytes(), BODY.as_bytes(), two.as_bytes()]), (3, 3));
        }
    }

    /// It was given up on at the length, and so the chunks behind or before it were not seen.
    #[test]
    fn length_that_cannot_be_read_counts_beside_chunks() {
        let far = " ".repeat(LINE_BYTES_MAX);
        for length in ["x", "-1", "", &format!("{far}5"), "99999999999999999999999"] {
            for fields in [
                format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"),
                format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
            ] {
                let head = format!("POST / HTTP/1.1\r\n{fields}\r\n");
                assert_eq!(seen(&[PLAIN.as_bytes(), head.as_bytes()]), (2, 2), "{head}");
            }
        }
    }

    #[test]
    fn what_is_no_request_is_left_to_hyper() {
        for bad in [
            "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nmore\r\n",
        ] {
            assert_eq!(seen(&[bad.as_bytes(), PLAIN.as_bytes(), TWO.as_bytes()]).1, 0, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn messages_are_told_apart_however_they_are_cut(
            messages in prop::collection::vec(prop::sample::select(vec![PLAIN, BODY, CHUNKS, LF]), 1..8),
            piece in 1_usize..40,
        ) {
            let all = format!("{}{TWO}", messages.concat());
            let pieces: Vec<&[u8]> = all.as_bytes().chunks(piece).collect();
            let number = messages.len() as u64 + 1;
            prop_assert_eq!(seen(&pieces), (number, number));
        }
    }
}
