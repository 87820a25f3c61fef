//! Small pieces of pages.

use std::time::Duration;

use longhaul::job::Progress;
use longhaul::{Status, Timestamp};
use longhaul_client::wire::Instant;
use maud::{Markup, html};

use super::form::TOKEN;
use super::session::Session;

/// A job's status, as a word and a colour.
pub(super) fn status(status: Status) -> Markup {
    html! { span.status.(status.as_str()) { (status.as_str()) } }
}

/// An instant. The script writes it in the viewer's own zone; the exact one is its title.
pub(super) fn time(at: Timestamp) -> Markup {
    let exact = at.to_string();
    let short = exact.get(..19).unwrap_or(&exact).replace('T', " ");
    html! { time datetime=(exact) title=(exact) { (short) " UTC" } }
}

/// The same for one that the wire has.
pub(super) fn told(at: &str) -> Markup {
    if let Some(at) = Timestamp::parse(at) {
        time(at)
    } else {
        html! { (at) }
    }
}

/// The same for one that may not be there.
pub(super) fn told_or(at: Option<&Instant>, otherwise: &str) -> Markup {
    html! {
        @if let Some(at) = at { (told(at.as_str())) } @else { span.soft { (otherwise) } }
    }
}

/// An instant that may not have come.
pub(super) fn maybe(at: Option<Timestamp>) -> Markup {
    html! { @if let Some(at) = at { (time(at)) } @else { span.soft { "–" } } }
}

/// A duration in two units at most.
pub(super) fn took(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{seconds}.{} s", millis / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A number of bytes in the largest unit that leaves something before the point.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if count >= size {
            return format!("{}.{} {unit}", count / size, count % size * 10 / size);
        }
    }
    format!("{count} bytes")
}

/// A number with thin spaces between its thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// How far a job is.
pub(super) fn progress(progress: &Progress) -> Markup {
    let Progress { done, total, message } = progress;
    html! {
        span.progress {
            @if let Some(total) = total {
                progress max=(total) value=(done) aria-label="Progress" {}
                span { (count(*done)) " of " (count(*total)) }
            } @else {
                span { (count(*done)) " done" }
            }
            @if let Some(message) = message { span.soft { (cut(message, 200)) } }
        }
    }
}

/// The beginning of a text.
pub(super) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A place where there is nothing yet, and what to do about it.
pub(super) fn empty(said: &str, command: &str) -> Markup {
    html! {
        div.empty {
            p { (said) }
            @if !command.is_empty() { pre { code { (command) } } }
        }
    }
}

/// A button that says what it will do before it does it.
pub(super) struct Ask<'a> {
    /// Names it on the page.
    pub(super) id: &'a str,
    /// On the button.
    pub(super) button: &'a str,
    /// What it is about, for those who do not see where it stands; may be empty.
    pub(super) about: &'a str,
    /// What is asked.
    pub(super) question: &'a str,
    /// What will happen.
    pub(super) effect: Markup,
    /// On the button that does it.
    pub(super) confirm: &'a str,
    /// Where it is sent.
    pub(super) action: &'a str,
    /// Whether it cannot be undone.
    pub(super) is_final: bool,
}

impl Ask<'_> {
    /// The button and its question, with further fields of the form.
    pub(super) fn show(&self, session: &Session, fields: &Markup) -> Markup {
        let title = format!("{}-title", self.id);
        html! {
            button type="button" popovertarget=(self.id) {
                (self.button) @if !self.about.is_empty() { span.unseen { " " (self.about) } }
            }
            div.ask #(self.id) popover role="dialog" aria-labelledby=(title) {
                h2 #(title) { (self.question) }
                (self.effect)
                form method="post" action=(self.action) {
                    input type="hidden" name=(TOKEN) value=(session.token);
                    (fields)
                    p.choices {
                        button.danger[self.is_final].primary[!self.is_final] { (self.confirm) }
                        button type="button" popovertarget=(self.id) popovertargetaction="hide" {
                            "Leave it"
                        }
                    }
                }
            }
        }
    }
}

/// The hidden field of a form that asks nothing.
pub(super) fn token(session: &Session) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(session.token); }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let shown = |millis| took(Duration::from_millis(millis));
        let texts = [7, 1_540, 59_999, 61_000, 3_600_000 * 5 + 61_000, 86_400_000 * 3].map(shown);
        assert_eq!(texts, ["7 ms", "1.5 s", "59 s", "1 min 1 s", "5 h 1 min", "3 d 0 h"]);
    }

    #[test]
    fn sizes_and_counts_are_for_people() {
        assert_eq!(
            [0, 1_023, 1_536, 5 << 20].map(bytes),
            ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 MiB"]
        );
        assert_eq!(
            [1, 1_000, 1_234_567].map(count),
            ["1", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(cut("äöü", 3), "äöü");
    }
}
