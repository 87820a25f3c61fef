//! Positioned text and boxes of a label.

use d2_little::fonts::{FontFamily, FontStyle};

use crate::fonts;

/// A label that is laid out, with its origin in the upper left corner.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LabelLayout {
    /// In drawing order.
    pub(super) items: Vec<Item>,
    pub(super) width: f64,
    pub(super) height: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Text { x: f64, baseline: f64, width: f64, text: String, style: LabelStyle },
    Box { x: f64, y: f64, width: Width, height: f64, radius: f64, fill: LabelColour },
    Circle { x: f64, y: f64, radius: f64, filled: bool },
}

/// Width of a box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Width {
    Fixed(f64),
    /// Up to this distance from the right edge of the label, which is known only at the end.
    Full {
        inset: f64,
    },
}

/// Colours, by their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelColour {
    Text,
    MutedText,
    Link,
    /// Backgrounds of code and of every second row of a table.
    Subtle,
    Canvas,
    Border,
    MutedBorder,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LabelStyle {
    pub(super) family: FontFamily,
    pub(super) face: Face,
    pub(super) size: f64,
    pub(super) paint: LabelColour,
    pub(super) underline: bool,
    pub(super) strike: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Face {
    Regular,
    Semibold,
    Bold,
    Italic,
    Mono,
}

impl Face {
    /// Suffix of the font family, as d2 writes it.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Regular => "font-regular",
            Self::Semibold => "font-semibold",
            Self::Bold => "font-bold",
            Self::Italic => "font-italic",
            Self::Mono => "font-mono",
        }
    }

    /// Returns the font of d2 in a label whose text has this family.
    pub(super) fn font(self, family: FontFamily) -> (FontFamily, FontStyle) {
        match self {
            Self::Regular => (family, FontStyle::Regular),
            Self::Semibold => (family, FontStyle::Semibold),
            Self::Bold => (family, FontStyle::Bold),
            Self::Italic => (family, FontStyle::Italic),
            Self::Mono => (FontFamily::SourceCodePro, FontStyle::Regular),
        }
    }
}

impl LabelStyle {
    pub(super) fn width(&self, text: &str) -> f64 {
        fonts::text_width(self.face.font(self.family), self.size, text)
    }

    /// Returns the distance from the top of a line to its baseline.
    pub(super) fn baseline(&self, line_height: f64) -> f64 {
        fonts::baseline(self.face.font(self.family), self.size, line_height)
    }
}

impl LabelLayout {
    /// Adds a box and widens the label to contain it.
    pub(super) fn fill(
        &mut self,
        x: f64,
        y: f64,
        size: (Width, f64),
        radius: f64,
        fill: LabelColour,
    ) {
        let (width, height) = size;
        if let Width::Fixed(width) = width {
            self.widen(x + width);
        }
        self.items.push(Item::Box { x, y, width, height, radius, fill });
    }

    pub(super) fn text(&mut self, x: f64, baseline: f64, text: String, style: LabelStyle) -> f64 {
        let width = style.width(&text);
        self.widen(x + width);
        self.items.push(Item::Text { x, baseline, width, text, style });
        width
    }

    pub(super) fn widen(&mut self, right: f64) {
        self.width = self.width.max(right);
    }

    /// Adds the items of a part, moved to a position.
    pub(super) fn insert(&mut self, part: Self, by_x: f64, by_y: f64) {
        // Boxes over the full width end where the part ends.
        let right = part.width;
        self.items.extend(part.items.into_iter().map(|item| item.moved(by_x, by_y, right)));
    }
}

impl Item {
    fn moved(self, by_x: f64, by_y: f64, right: f64) -> Self {
        match self {
            Self::Text { x, baseline, width, text, style } => {
                Self::Text { x: x + by_x, baseline: baseline + by_y, width, text, style }
            }
            Self::Box { x, y, width, height, radius, fill } => {
                let width = Width::Fixed(width.resolve(x, right));
                Self::Box { x: x + by_x, y: y + by_y, width, height, radius, fill }
            }
            Self::Circle { x, y, radius, filled } => {
                Self::Circle { x: x + by_x, y: y + by_y, radius, filled }
            }
        }
    }
}

impl Width {
    /// Returns the width of a box that starts at `x` in a label that ends at `right`.
    pub(super) fn resolve(self, x: f64, right: f64) -> f64 {
        match self {
            Self::Fixed(width) => width,
            Self::Full { inset } => (right - inset - x).max(0.0),
        }
    }
}
