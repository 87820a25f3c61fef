//! Components that several pages use.

use std::time::Duration;

use longhaul::Timestamp;
use longhaul_client::wire::{Instant, Progress, Status};
use maud::{Markup, Render, html};

use super::form::TOKEN;
use super::session::Session;

/// Renders a status as a coloured word.
pub(super) fn status(status: Status) -> Markup {
    html! { span.status.(status.as_str()) { (status.as_str()) } }
}

/// Parses an instant of the API. The server has formatted it, so that it is always valid.
pub(super) fn timestamp(at: &Instant) -> Timestamp {
    Timestamp::parse(at.as_str()).unwrap_or(Timestamp::from_millis(0))
}

/// Renders an instant in UTC. The script converts it to the viewer's time zone; the tooltip keeps the
/// exact value.
pub(super) fn time(at: &Instant) -> Markup {
    let exact = at.as_str();
    let short = exact.get(..19).unwrap_or(exact).replace('T', " ");
    html! { time datetime=(exact) title=(exact) { (short) " UTC" } }
}

/// Renders an instant, or `placeholder` if there is none.
pub(super) fn time_or(at: Option<&Instant>, placeholder: &str) -> Markup {
    html! {
        @if let Some(at) = at { (time(at)) } @else { span.soft { (placeholder) } }
    }
}

/// Formats a duration with at most two units, for example "5 h 1 min".
pub(super) fn duration(duration: Duration) -> String {
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

/// Formats a size in the largest unit that it reaches, for example "1.5 KiB".
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if count >= size {
            return format!("{}.{} {unit}", count / size, count % size * 10 / size);
        }
    }
    format!("{count} bytes")
}

/// Formats a number with thousands separators, for example "1,234,567".
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats the length of a list like [`count`].
pub(super) fn count_of(length: usize) -> String {
    count(u64::try_from(length).unwrap_or(u64::MAX))
}

/// Renders a progress bar with its message.
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
            @if let Some(message) = message { span.soft { (truncated(message, 200)) } }
        }
    }
}

/// Returns at most `chars` characters of a text, with an ellipsis if it is longer.
pub(super) fn truncated(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Renders a message for an empty list, with the command that fills it.
pub(super) fn empty_state(message: &str, command: &str) -> Markup {
    html! {
        div.empty {
            p { (message) }
            @if !command.is_empty() { pre { code { (command) } } }
        }
    }
}

/// Heading of the column with buttons, which only screen readers show.
pub(super) const ACTIONS: &str = "Actions";

/// Renders a table that scrolls sideways on a narrow screen.
pub(super) fn table(
    label: &str,
    headings: &[&str],
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(label) {
            table {
                thead { tr { @for heading in headings { th { (column_heading(heading)) } } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// Renders a column's heading.
pub(super) fn column_heading(heading: &str) -> Markup {
    html! {
        @if heading == ACTIONS { span.visually-hidden { (heading) } } @else { (heading) }
    }
}

/// Renders the link to the next page of a list, if there is one.
pub(super) fn next_page(label: &str, text: &str, url: Option<String>) -> Markup {
    html! {
        @if let Some(url) = url {
            nav.pages aria-label=(label) { a rel="next" href=(url) { (text) } }
        }
    }
}

/// Renders a link of a menu, marked if it is the current one.
pub(super) fn tab(url: &str, label: &str, is_current: bool) -> Markup {
    html! { a href=(url) aria-current=[is_current.then_some("page")] { (label) } }
}

/// Renders a section that the script refreshes, under its heading.
pub(super) fn live_section(id: &str, heading: &str, content: impl Render) -> Markup {
    let title = format!("{id}-title");
    html! {
        section #(id) data-live aria-labelledby=(title) {
            h2 #(title) { (heading) }
            (content)
        }
    }
}

/// Renders a secret that is shown only once, with a button that copies it.
pub(super) fn new_secret(heading: &str, note: &str, secret: &str) -> Markup {
    html! {
        section.new-secret role="status" aria-labelledby="new-secret-title" {
            h2 #new-secret-title { (heading) }
            p { (note) }
            p.tools {
                code #new-secret { (secret) }
                button type="button" data-copy-of="new-secret" { "Copy" }
            }
        }
    }
}

/// Renders a form that has only a button.
pub(super) fn post_button(session: &Session, action: &str, label: impl Render) -> Markup {
    html! {
        form method="post" action=(action) { (token_field(session)) button { (label) } }
    }
}

/// A button that opens a confirmation dialog.
pub(super) struct ConfirmButton<'a> {
    /// Id of the dialog on the page.
    pub(super) id: &'a str,
    pub(super) button: &'a str,
    /// Subject of the button for screen readers. May be empty.
    pub(super) about: &'a str,
    pub(super) question: &'a str,
    pub(super) effect: Markup,
    pub(super) confirm: &'a str,
    /// URL that the form posts to.
    pub(super) action: &'a str,
    /// Marks an action that cannot be undone.
    pub(super) is_final: bool,
}

impl ConfirmButton<'_> {
    /// Renders the button and its dialog; `fields` are added to the form.
    pub(super) fn show(&self, session: &Session, fields: &Markup) -> Markup {
        let title = format!("{}-title", self.id);
        html! {
            button type="button" popovertarget=(self.id) {
                (self.button) @if !self.about.is_empty() { span.visually-hidden { " " (self.about) } }
            }
            div.confirm #(self.id) popover role="dialog" aria-labelledby=(title) {
                h2 #(title) { (self.question) }
                (self.effect)
                form method="post" action=(self.action) {
                    (token_field(session))
                    (fields)
                    p.choices {
                        button.danger[self.is_final].primary[!self.is_final] { (self.confirm) }
                        button type="button" popovertarget=(self.id) popovertargetaction="hide" {
                            "Keep as is"
                        }
                    }
                }
            }
        }
    }
}

/// Renders the hidden field with the form token.
pub(super) fn token_field(session: &Session) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(session.token); }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        let format = |millis| duration(Duration::from_millis(millis));
        let texts = [7, 1_540, 59_999, 61_000, 3_600_000 * 5 + 61_000, 86_400_000 * 3].map(format);
        assert_eq!(texts, ["7 ms", "1.5 s", "59 s", "1 min 1 s", "5 h 1 min", "3 d 0 h"]);
    }

    #[test]
    fn sizes_have_units_and_counts_have_thousands_separators() {
        assert_eq!(
            [0, 1_023, 1_536, 5 << 20].map(bytes),
            ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 MiB"]
        );
        assert_eq!([1, 1_000, 1_234_567].map(count), ["1", "1,000", "1,234,567"]);
    }

    #[test]
    fn truncated_text_ends_at_a_character() {
        assert_eq!(truncated("äöü", 2), "äö…");
        assert_eq!(truncated("äöü", 3), "äöü");
    }
}
