//! Label sizes for d2's layout.

use d2_little::fonts::{Font, FontFamily};
use d2_little::textmeasure::{D2GoEmulationMetrics, D2Metrics, MarkdownOptions};
use font_metrics::{Measured, Metrics};

use super::markdown;

/// Measures as d2 does, except for markdown, which is measured as it will be drawn.
pub(super) struct LabelMetrics(D2GoEmulationMetrics);

impl LabelMetrics {
    pub(super) fn new() -> Result<Self, String> {
        D2GoEmulationMetrics::new().map(Self)
    }
}

impl Metrics for LabelMetrics {
    fn measure(&self, text: &str, family: &str, size: f64, bold: bool, italic: bool) -> Measured {
        self.0.measure(text, family, size, bold, italic)
    }
}

impl D2Metrics for LabelMetrics {
    fn line_height_factor(&self) -> f64 {
        self.0.line_height_factor()
    }

    fn set_line_height_factor(&self, value: f64) {
        self.0.set_line_height_factor(value);
    }

    fn measure_text(&self, font: Font, text: &str) -> (i32, i32) {
        self.0.measure_text(font, text)
    }

    fn measure_mono(&self, font: Font, text: &str) -> (i32, i32) {
        self.0.measure_mono(font, text)
    }

    fn measure_precise(&self, font: Font, text: &str) -> (f64, f64) {
        self.0.measure_precise(font, text)
    }

    fn space_width(&self, font: Font) -> f64 {
        self.0.space_width(font)
    }

    fn scale_unicode(&self, width: f64, font: Font, text: &str) -> f64 {
        self.0.scale_unicode(width, font, text)
    }

    fn measure_markdown(
        &self,
        text: &str,
        options: MarkdownOptions,
        size: i32,
    ) -> Result<(i32, i32), String> {
        let family = options.font_family.unwrap_or(FontFamily::SourceSansPro);
        let (width, height) = markdown::measure(text, family, f64::from(size))?;
        #[expect(clippy::cast_possible_truncation, reason = "saturates, far beyond any limit")]
        let rounded_up = |length: f64| length.ceil() as i32;
        Ok((rounded_up(width), rounded_up(height)))
    }
}
