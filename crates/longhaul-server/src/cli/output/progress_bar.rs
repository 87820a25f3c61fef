//! The bar that grows while bytes are on their way.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::output::color::{Style, printable};

const TICK: Duration = Duration::from_millis(100);

/// What is on its way, how much of it has passed, and how fast.
pub(crate) struct TransferBar {
    bar: ProgressBar,
}

impl TransferBar {
    /// A bar for something of this size, if it is known. Where nobody looks, nothing is drawn.
    pub(crate) fn new(what: &str, size: Option<u64>, shown: bool, style: Style) -> Self {
        if !shown {
            return Self { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
        bar.set_prefix(style.bold(&printable(what)));
        // Before the first tick, which would draw indicatif's own style.
        bar.set_style(template(size.is_some(), style));
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// So many bytes have passed.
    pub(crate) fn passed(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Tells the bar from elsewhere how many bytes have passed.
    pub(crate) fn watcher(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let bar = self.bar.clone();
        move |bytes| bar.set_position(bytes)
    }
}

/// Whatever ends the transfer, an error included, leaves a clean line behind.
impl Drop for TransferBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn template(has_size: bool, style: Style) -> ProgressStyle {
    let text = match (has_size, style.color) {
        (true, true) => {
            "{spinner:.cyan} {prefix}  {bar:24.cyan/black.bright} {bytes}/{total_bytes}  {bytes_per_sec:.dim}  {eta:.dim}"
        }
        (true, false) => {
            "{spinner} {prefix}  {bar:24} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}"
        }
        (false, true) => "{spinner:.cyan} {prefix}  {bytes}  {bytes_per_sec:.dim}  {elapsed:.dim}",
        (false, false) => "{spinner} {prefix}  {bytes}  {bytes_per_sec}  {elapsed}",
    };
    ProgressStyle::with_template(text)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
        .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏✓")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for has_size in [true, false] {
            for color in [true, false] {
                let style = template(has_size, Style { color });
                ProgressBar::hidden().with_style(style).tick();
            }
        }
    }

    #[test]
    fn a_watcher_moves_the_bar() {
        let transfer = TransferBar::new("x", Some(10), false, Style::PLAIN);
        transfer.watcher()(4);
        assert_eq!(transfer.bar.position(), 4);
    }

    #[test]
    fn nothing_is_drawn_where_nobody_looks() {
        assert!(TransferBar::new("x", Some(1), false, Style::PLAIN).bar.is_hidden());
    }
}
