//! Pictures of numbers, as SVG in the page: sizes are attributes, so that no style is inline.

use longhaul::Timestamp;
use maud::{Markup, html};

/// A picture's own units.
const WIDTH: u64 = 1_000;
const HEIGHT: u64 = 120;

/// A stretch of time that bars are placed in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    begin: Timestamp,
    millis: u64,
}

impl Span {
    pub(super) fn new(begin: Timestamp, end: Timestamp) -> Self {
        let millis = u64::try_from(end.since(begin).as_millis()).unwrap_or(u64::MAX).max(1);
        Self { begin, millis }
    }

    fn place(&self, at: Timestamp) -> u64 {
        let after = u64::try_from(at.since(self.begin).as_millis()).unwrap_or(u64::MAX);
        after.min(self.millis).saturating_mul(WIDTH) / self.millis
    }

    /// From one instant to another, at least wide enough to be seen.
    pub(super) fn bar(&self, from: Timestamp, to: Timestamp, class: &str) -> Markup {
        let (begin, end) = (self.place(from).min(WIDTH - 6), self.place(to));
        let width = end.saturating_sub(begin).max(6);
        html! {
            svg.gantt viewBox=(format!("0 0 {WIDTH} 12")) preserveAspectRatio="none"
                aria-hidden="true" {
                rect.track x="0" y="5" width=(WIDTH) height="2" {}
                rect.(class) x=(begin) y="0" width=(width) height="12" rx="2" {}
            }
        }
    }
}

/// One column of a chart: its parts from the bottom up, each with its class.
pub(super) struct Column {
    pub(super) title: String,
    pub(super) parts: Vec<(&'static str, u64)>,
}

impl Column {
    fn sum(&self) -> u64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }
}

/// Columns that stand on each other's parts. `said` tells it to those who do not see it.
pub(super) fn columns(columns: &[Column], said: &str, unit: impl Fn(u64) -> String) -> Markup {
    let most = columns.iter().map(Column::sum).max().unwrap_or(0).max(1);
    let each = WIDTH / u64::try_from(columns.len()).unwrap_or(1).max(1);
    html! {
        figure.chart {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img"
                aria-label=(said) {
                line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
                @for (place, column) in (0_u64..).zip(columns) {
                    g {
                        title { (column.title) }
                        rect.hover x=(place * each) y="0" width=(each) height=(HEIGHT) {}
                        (stack(column, place * each + 1, each.saturating_sub(2).max(1), most))
                    }
                }
            }
            figcaption { span.soft { "most: " (unit(most)) } }
        }
    }
}

fn stack(column: &Column, x: u64, width: u64, most: u64) -> Markup {
    let mut below = 0;
    let mut rects = Vec::new();
    for (class, value) in column.parts.iter().filter(|(_, value)| *value > 0) {
        // Also the smallest can be seen.
        let height = (value.saturating_mul(HEIGHT) / most).max(2);
        let y = HEIGHT.saturating_sub(below + height);
        below += height;
        rects.push((*class, y, height));
    }
    html! {
        @for (class, y, height) in rects {
            rect.(class) x=(x) y=(y) width=(width) height=(height) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_inside_whatever_the_times_are() {
        let at = Timestamp::from_millis;
        let span = Span::new(at(1_000), at(2_000));
        for (from, to) in
            [(1_000, 2_000), (0, 9_000), (2_000, 2_000), (1_500, 1_400), (i64::MIN, i64::MAX)]
        {
            let bar = span.bar(at(from), at(to), "step").into_string();
            let number = |name: &str| -> u64 {
                let rest = bar.rsplit(&format!(" {name}=\"")).next().unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            };
            assert!(number("x") + number("width") <= WIDTH, "{bar}");
        }
    }
}
