//! Charts as inline SVG. Sizes are attributes, because the content security policy forbids inline styles.

use longhaul::Timestamp;
use maud::{Markup, html};

/// Size of a chart in SVG units.
const WIDTH: u64 = 1_000;
const HEIGHT: u64 = 120;

/// The time span of a Gantt chart.
#[derive(Debug, Clone, Copy)]
pub(super) struct GanttSpan {
    begin: Timestamp,
    millis: u64,
}

impl GanttSpan {
    pub(super) fn new(begin: Timestamp, end: Timestamp) -> Self {
        let millis = u64::try_from(end.since(begin).as_millis()).unwrap_or(u64::MAX).max(1);
        Self { begin, millis }
    }

    fn x(&self, at: Timestamp) -> u64 {
        let after = u64::try_from(at.since(self.begin).as_millis()).unwrap_or(u64::MAX);
        after.min(self.millis).saturating_mul(WIDTH) / self.millis
    }

    /// Renders a bar between two instants, at least 6 units wide so that it is visible.
    pub(super) fn bar(&self, from: Timestamp, to: Timestamp, class: &str) -> Markup {
        let (begin, end) = (self.x(from).min(WIDTH - 6), self.x(to));
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

/// A stacked column: CSS class and value of each part, from the bottom up.
pub(super) struct Column {
    pub(super) title: String,
    pub(super) parts: Vec<(&'static str, u64)>,
}

impl Column {
    fn sum(&self) -> u64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }
}

/// Renders stacked columns. `label` describes the chart for screen readers; `ends` are the labels of both ends
/// of the time axis.
pub(super) fn columns(
    columns: &[Column],
    label: &str,
    ends: (&str, &str),
    unit: impl Fn(u64) -> String,
) -> Markup {
    let peak = columns.iter().map(Column::sum).max().unwrap_or(0).max(1);
    let each = 20;
    let width = each * u64::try_from(columns.len()).unwrap_or(1).max(1);
    html! {
        figure.chart {
            svg viewBox=(format!("0 0 {width} {HEIGHT}")) preserveAspectRatio="none" role="img"
                aria-label=(label) {
                line.axis x1="0" y1=(HEIGHT) x2=(width) y2=(HEIGHT) {}
                @for (index, column) in (0_u64..).zip(columns) {
                    g {
                        title { (column.title) }
                        rect.hover x=(index * each) y="0" width=(each) height=(HEIGHT) {}
                        (stack(column, index * each + 1, each.saturating_sub(2).max(1), peak))
                    }
                }
            }
            figcaption {
                span { (ends.0) } span { "peak " (unit(peak)) } span { (ends.1) }
            }
        }
    }
}

fn stack(column: &Column, x: u64, width: u64, peak: u64) -> Markup {
    let mut below = 0;
    let mut rects = Vec::new();
    for (class, value) in column.parts.iter().filter(|(_, value)| *value > 0) {
        // At least 2 units, so that every value is visible.
        let height = (value.saturating_mul(HEIGHT) / peak).max(2);
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
    fn gantt_bars_stay_inside_the_chart() {
        let at = Timestamp::from_millis;
        let span = GanttSpan::new(at(1_000), at(2_000));
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
