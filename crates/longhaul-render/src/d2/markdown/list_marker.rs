//! Markers of list items.

use super::layout::{Item, LabelColour, LabelLayout, LabelStyle, Width};

/// Distance between a marker and its item, in units of the text size.
const GAP_EM: f64 = 0.4;
/// Size of a bullet, in units of the text size.
const BULLET_EM: f64 = 0.34;
/// Height of a bullet's centre above the baseline.
const BULLET_ABOVE_EM: f64 = 0.28;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListMarker {
    Disc,
    Circle,
    Square,
    Number(String),
}

impl ListMarker {
    /// Returns the bullet of an unordered list, by the number of lists around it.
    pub(super) fn bullet(lists_around: usize) -> Self {
        match lists_around {
            0 => Self::Disc,
            1 => Self::Circle,
            _ => Self::Square,
        }
    }

    /// Returns the number of an item: decimal, then roman, then letters.
    pub(super) fn number(number: u32, lists_around: usize) -> Self {
        let text = match lists_around {
            0 => None,
            1 => roman(number),
            _ => letters(number),
        };
        Self::Number(format!("{}.", text.unwrap_or_else(|| number.to_string())))
    }

    /// Returns the space that the marker needs to the left of its item.
    pub(super) fn width(&self, style: LabelStyle) -> f64 {
        let gap = GAP_EM * style.size;
        match self {
            Self::Number(text) => style.width(text) + gap,
            Self::Disc | Self::Circle | Self::Square => BULLET_EM * style.size + gap,
        }
    }

    /// Writes the marker of an item that starts at `x`.
    pub(super) fn write(self, layout: &mut LabelLayout, x: f64, baseline: f64, style: LabelStyle) {
        let left = x - self.width(style);
        let (size, above) = (BULLET_EM * style.size, BULLET_ABOVE_EM * style.size);
        let filled = match self {
            Self::Number(text) => {
                layout.text(left, baseline, text, style);
                return;
            }
            Self::Square => {
                let top = baseline - above - size / 2.0;
                layout.fill(left, top, (Width::Fixed(size), size), 0.0, LabelColour::Text);
                return;
            }
            Self::Disc => true,
            Self::Circle => false,
        };
        let (x, y, radius) = (left + size / 2.0, baseline - above, size / 2.0);
        layout.items.push(Item::Circle { x, y, radius, filled });
    }
}

/// Returns a number as roman digits, if there are some for it.
fn roman(number: u32) -> Option<String> {
    const DIGITS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    if !(1..4000).contains(&number) {
        return None;
    }
    let (mut rest, mut text) = (number, String::new());
    for (value, digit) in DIGITS {
        while rest >= value {
            text.push_str(digit);
            rest -= value;
        }
    }
    Some(text)
}

/// Returns a, b, …, z, aa, ab, …
fn letters(number: u32) -> Option<String> {
    let mut rest = number;
    let mut text = String::new();
    while rest > 0 {
        rest -= 1;
        text.insert(0, char::from(b'a' + u8::try_from(rest % 26).ok()?));
        rest /= 26;
    }
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_numbers_are_decimal_then_roman_then_letters() {
        let number = |number, lists| {
            let marker = ListMarker::number(number, lists);
            let ListMarker::Number(text) = marker else { panic!("{marker:?}") };
            text
        };
        assert_eq!(number(12, 0), "12.");
        assert_eq!([4, 9, 1999].map(|n| number(n, 1)), ["iv.", "ix.", "mcmxcix."]);
        assert_eq!([1, 26, 27, 703].map(|n| number(n, 2)), ["a.", "z.", "aa.", "aaa."]);
        assert_eq!([number(0, 1), number(0, 2), number(4000, 1)], ["0.", "0.", "4000."]);
    }
}
