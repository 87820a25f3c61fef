//! Progress bar of uploads and downloads.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::output::color::{Style, printable};

const TICK: Duration = Duration::from_millis(100);
/// Colors in the templates of bars.
const COLORS: [&str; 3] = [":.cyan", ".cyan/black.bright", ":.dim"];

/// Shows name, transferred bytes and speed.
pub(crate) struct TransferBar {
    bar: ProgressBar,
}

impl TransferBar {
    /// Creates a bar; an invisible one draws nothing.
    pub(crate) fn new(what: &str, size: Option<u64>, visible: bool, style: Style) -> Self {
        if !visible {
            return Self { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
        bar.set_prefix(style.bold(&printable(what)));
        // Before the first tick, which would use indicatif's default style.
        bar.set_style(bar_style(template(size.is_some()), style));
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Sets the number of transferred bytes.
    pub(crate) fn set(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Returns a callback that sets the number of transferred bytes.
    pub(crate) fn callback(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let bar = self.bar.clone();
        move |bytes| bar.set_position(bytes)
    }
}

/// Clears the bar, also after an error.
impl Drop for TransferBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn template(has_size: bool) -> &'static str {
    if has_size {
        "{spinner:.cyan} {prefix}  {bar:24.cyan/black.bright} {bytes}/{total_bytes}  {bytes_per_sec:.dim}  {eta:.dim}"
    } else {
        "{spinner:.cyan} {prefix}  {bytes}  {bytes_per_sec:.dim}  {elapsed:.dim}"
    }
}

/// Returns the style of a template, without its colors if the style has none.
pub(super) fn bar_style(template: &str, style: Style) -> ProgressStyle {
    let plain = || COLORS.iter().fold(template.to_owned(), |text, color| text.replace(color, ""));
    let text = if style.color { template.to_owned() } else { plain() };
    ProgressStyle::with_template(&text)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
        .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏✓")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_bar_templates_are_valid() {
        for has_size in [true, false] {
            for color in [true, false] {
                let style = bar_style(template(has_size), Style { color });
                ProgressBar::hidden().with_style(style).tick();
            }
        }
    }

    #[test]
    fn transfer_bar_callback_sets_the_position() {
        let transfer = TransferBar::new("x", Some(10), false, Style::PLAIN);
        transfer.callback()(4);
        assert_eq!(transfer.bar.position(), 4);
    }

    #[test]
    fn invisible_transfer_bar_draws_nothing() {
        assert!(TransferBar::new("x", Some(1), false, Style::PLAIN).bar.is_hidden());
    }
}
