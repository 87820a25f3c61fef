//! Terminal colors, and protection against control characters in job data.

use std::borrow::Cow;

use longhaul_client::wire::Status;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) color: bool,
}

/// ANSI colors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Blue = 34,
    Cyan = 36,
}

impl Style {
    /// No colors, for pipes and files.
    pub(crate) const PLAIN: Self = Self { color: false };

    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if self.color { format!("\x1b[{}m{text}\x1b[0m", paint as u8) } else { text.to_owned() }
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(Paint::Dim, text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint(Paint::Bold, text)
    }

    /// Formats a status with its symbol, padded to `width`.
    pub(crate) fn status(self, status: Status, width: usize) -> String {
        self.paint(status_color(status), &format!("{} {status:<width$}", sign(status)))
    }
}

/// Symbol that distinguishes statuses without color.
pub(crate) fn sign(status: Status) -> char {
    match status {
        Status::Pending => '○',
        Status::Running => '●',
        Status::Waiting => '◌',
        Status::Completed => '✓',
        Status::Failed => '✗',
        Status::Cancelled => '⊘',
    }
}

pub(crate) fn status_color(status: Status) -> Paint {
    match status {
        Status::Pending => Paint::Blue,
        Status::Running => Paint::Cyan,
        Status::Waiting | Status::Cancelled => Paint::Yellow,
        Status::Completed => Paint::Green,
        Status::Failed => Paint::Red,
    }
}

/// Escapes control characters, so that text from a job cannot move the cursor, clear the screen or
/// set the title of the terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| match c {
        '\n' | '\t' => " ".to_owned(),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_style_has_no_escapes() {
        assert_eq!(Style::PLAIN.status(Status::Running, 9), "● running  ");
        assert_eq!(Style { color: true }.bold("x"), "\x1b[1mx\x1b[0m");
    }

    #[test]
    fn control_characters_in_messages_are_escaped() {
        assert_eq!(printable("a\x1b[2J\u{9b}1m\nb"), "a\\u001b[2J\\u009b1m b");
        assert!(matches!(printable("grüße"), Cow::Borrowed(_)));
    }
}
