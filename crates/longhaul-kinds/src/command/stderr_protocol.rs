//! Protocol of a program's stderr: progress, phases and log lines. Pure.

use std::collections::VecDeque;
use std::fmt;

/// Longer lines are truncated.
pub(super) const LINE_BYTES_MAX: usize = 1_024;
const TAIL_LINES_MAX: usize = 20;
pub(super) const TAIL_BYTES_MAX: usize = 4_096;
pub(super) const PHASE_CHARS_MAX: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum StderrLine {
    /// `::progress 3/10 text`, with or without total and text.
    Progress {
        done: u64,
        total: Option<u64>,
        message: Option<String>,
    },
    /// `::phase text`.
    Phase(String),
    Log,
}

impl StderrLine {
    pub(super) fn parse(line: &str) -> Self {
        let parsed = match line.split_once(' ') {
            Some(("::progress", rest)) => progress(rest.trim()),
            Some(("::phase", rest)) => phase(rest.trim()),
            _ => None,
        };
        parsed.unwrap_or(Self::Log)
    }
}

fn progress(text: &str) -> Option<StderrLine> {
    let (count, message) = text.split_once(' ').unwrap_or((text, ""));
    let (done, total) = match count.split_once('/') {
        Some((done, total)) => (done, Some(total.parse().ok()?)),
        None => (count, None),
    };
    let message = Some(message.trim().to_owned()).filter(|message| !message.is_empty());
    Some(StderrLine::Progress { done: done.parse().ok()?, total, message })
}

fn phase(text: &str) -> Option<StderrLine> {
    let phase: String = text.chars().take(PHASE_CHARS_MAX).collect();
    // Truncation may leave a trailing space.
    Some(StderrLine::Phase(phase.trim_end().to_owned())).filter(|_| !text.is_empty())
}

/// Splits a stream into lines of limited length.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    partial: Vec<u8>,
}

impl LineSplitter {
    /// Returns the lines that end in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.partial.len());
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.partial.extend(text.iter().take(room));
            if ends {
                lines.push(self.take());
            }
        }
        lines
    }

    /// Returns the last line if it has no newline.
    pub(super) fn finish(&mut self) -> Option<String> {
        if self.partial.is_empty() { None } else { Some(self.take()) }
    }

    fn take(&mut self) -> String {
        let line = String::from_utf8_lossy(&self.partial).trim_end().to_owned();
        self.partial.clear();
        line
    }
}

/// Last lines of a log, limited in number and length.
#[derive(Debug, Default)]
pub(super) struct LogTail {
    lines: VecDeque<String>,
    bytes: usize,
}

impl LogTail {
    pub(super) fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > TAIL_LINES_MAX || self.bytes > TAIL_BYTES_MAX {
            let Some(first) = self.lines.pop_front() else { break };
            self.bytes -= first.len();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u64, total: Option<u64>, message: Option<&str>) -> StderrLine {
        StderrLine::Progress { done, total, message: message.map(str::to_owned) }
    }

    #[test]
    fn progress_line_may_omit_total_and_text() {
        assert_eq!(StderrLine::parse("::progress 3"), progress(3, None, None));
        assert_eq!(StderrLine::parse("::progress 3/10"), progress(3, Some(10), None));
        assert_eq!(StderrLine::parse("::progress 3 some"), progress(3, None, Some("some")));
        assert_eq!(StderrLine::parse("::progress 3/10 a b"), progress(3, Some(10), Some("a b")));
    }

    #[test]
    fn phase_is_truncated_to_64_characters() {
        assert_eq!(StderrLine::parse("::phase loading"), StderrLine::Phase("loading".into()));
        let cut = format!("::phase {} b", "a".repeat(63));
        assert_eq!(
            StderrLine::parse(&cut),
            StderrLine::Phase("a".repeat(63)),
            "no space where it was cut"
        );
        let long = format!("::phase {}", "ä".repeat(100));
        assert_eq!(StderrLine::parse(&long), StderrLine::Phase("ä".repeat(64)));
    }

    #[test]
    fn other_stderr_lines_are_log() {
        for line in [
            "",
            "hello",
            "::progress",
            "::progress ",
            "::progress x",
            "::progress 3/x",
            "::progress -1",
            "::phase",
            "::phase ",
            "::progressive 3",
            " ::progress 3",
        ] {
            assert_eq!(StderrLine::parse(line), StderrLine::Log, "{line:?}");
        }
    }

    #[test]
    fn line_splitting_does_not_depend_on_chunk_size() {
        let text = "one\r\ntwo\n\nthree ä".as_bytes();
        for size in 1..=text.len() {
            let mut lines = LineSplitter::default();
            let mut split: Vec<_> = text.chunks(size).flat_map(|bytes| lines.feed(bytes)).collect();
            split.extend(lines.finish());
            assert_eq!(split, ["one", "two", "", "three ä"], "in pieces of {size}");
        }
    }

    #[test]
    fn long_stderr_line_is_truncated() {
        let mut lines = LineSplitter::default();
        for _ in 0..10 {
            assert!(lines.feed(&[b'x'; 1_000]).is_empty());
        }
        assert_eq!(lines.feed(b"\nnext\n"), ["x".repeat(LINE_BYTES_MAX), "next".into()]);
    }

    #[test]
    fn log_tail_keeps_the_last_lines_within_its_limits() {
        let mut tail = LogTail::default();
        (1..=30).for_each(|n| tail.push(n.to_string()));
        assert_eq!(tail.to_string().lines().count(), TAIL_LINES_MAX);
        assert!(tail.to_string().ends_with("29\n30"));
        (1..=30).for_each(|_| tail.push("x".repeat(LINE_BYTES_MAX)));
        assert_eq!(tail.lines.len(), 4);
    }
}
