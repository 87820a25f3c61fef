//! Fuzz target of the stderr protocol.

use super::stderr_protocol::{
    LINE_BYTES_MAX, LineSplitter, LogTail, PHASE_CHARS_MAX, StderrLine, TAIL_BYTES_MAX,
};
use crate::fuzzing::FuzzTarget;

pub(crate) const STDERR_PROTOCOL: FuzzTarget = (
    "stderr",
    stderr,
    &[
        b"\x03::progress 3/10 on the way\n::progress 4\n::phase unpacking\nfoo\n",
        b"\x01::progress 18446744073709551615/1 \t x\r\n::phase \xff\n::phase\n",
        b"\x40::progress +3/-1\n::progress 1/\n::progress  7/8\n::phase   a  b \nno end",
        b"\x07::phase a\0b\n::progress 1 \0\n\n\n\n",
    ],
);

/// The chunk size makes no difference, lines and the tail keep their limits, and a parsed line parses the same
/// in its canonical form.
fn stderr(bytes: &[u8]) {
    let Some((size, stream)) = bytes.split_first() else { return };
    let whole = lines(std::iter::once(stream));
    assert_eq!(lines(stream.chunks(usize::from(*size).max(1))), whole, "in pieces of {size}");
    let mut tail = LogTail::default();
    for line in whole {
        // An invalid byte becomes a character of three bytes.
        assert!(line.len() <= 3 * LINE_BYTES_MAX && !line.contains('\n'), "{line:?}");
        check_round_trip(&line);
        tail.push(line);
        assert!(tail.to_string().len() <= TAIL_BYTES_MAX + 20);
    }
}

fn check_round_trip(line: &str) {
    let parsed = StderrLine::parse(line);
    let canonical = match &parsed {
        StderrLine::Progress { done, total, message } => {
            let total = total.map_or_else(String::new, |total| format!("/{total}"));
            let message = message.as_deref().unwrap_or_default();
            format!("::progress {done}{total} {message}")
        }
        StderrLine::Phase(phase) => {
            assert!((1..=PHASE_CHARS_MAX).contains(&phase.chars().count()), "{line:?}");
            format!("::phase {phase}")
        }
        StderrLine::Log => return,
    };
    assert_eq!(StderrLine::parse(&canonical), parsed, "{line:?}");
}

fn lines<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut lines = LineSplitter::default();
    let mut all: Vec<String> = pieces.flat_map(|piece| lines.feed(piece)).collect();
    all.extend(lines.finish());
    all
}
