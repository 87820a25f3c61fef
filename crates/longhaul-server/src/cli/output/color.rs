//! Colour where a person looks, and nothing from a job that a terminal would obey.

use std::borrow::Cow;

use longhaul_client::wire::Status;

/// Paints text, or leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether colours are wanted.
    pub(crate) color: bool,
}

/// The colours that we use, as their ANSI numbers.
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
    /// For where nobody looks.
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

    /// A status with its sign, `width` wide before colours.
    pub(crate) fn status(self, status: Status, width: usize) -> String {
        self.paint(status_color(status), &format!("{} {status:<width$}", sign(status)))
    }
}

/// A sign that tells statuses apart without color too.
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

/// Text from a job, with control characters spelt out: a message must not move the cursor, clear
/// the screen or retitle the window of whoever looks at it.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let spell_out = |c: char| match c {
        '\n' | '\t' => " ".to_owned(),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(spell_out).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_has_no_escapes() {
        assert_eq!(Style::PLAIN.status(Status::Running, 9), "● running  ");
        assert_eq!(Style { color: true }.bold("x"), "\x1b[1mx\x1b[0m");
    }

    #[test]
    fn a_message_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2J\u{9b}1m\nb"), "a\\u001b[2J\\u009b1m b");
        assert!(matches!(printable("grüße"), Cow::Borrowed(_)));
    }
}
