//! How a render should look.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ErrorCode, OutputType, RenderError};

/// A diagram that is drawn a tenth as large cannot be read, one ten times as large is a poster.
const SCALE: std::ops::RangeInclusive<f64> = 0.1..=10.0;
const WIDTH: std::ops::RangeInclusive<u32> = 16..=16_384;

/// What a caller may choose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    /// Dark on light, or light on dark.
    pub theme: Theme,
    /// What is behind the diagram; the theme's own if nobody says.
    pub background: Option<Background>,
    /// How many pixels a unit of the diagram has; 1 if nobody says. Only for PNG.
    pub scale: Option<f64>,
    /// How many pixels the render is wide, instead of a scale. Only for PNG.
    pub width: Option<u32>,
}

/// A choice of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// Dark on light.
    #[default]
    Light,
    /// Light on dark.
    Dark,
}

/// What is behind a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Background {
    /// Whatever the render is put on.
    Transparent,
    /// Red, green and blue.
    Colour([u8; 3]),
}

impl Options {
    /// Refuses what makes no sense.
    pub(super) fn check(&self, output_type: OutputType) -> Result<(), RenderError> {
        let refused = |why: String| Err(RenderError::new(ErrorCode::BadInput, why));
        match (output_type, self.scale, self.width) {
            (_, None, None) => Ok(()),
            (OutputType::Svg, _, _) => refused("scale and width are for png only".to_owned()),
            (OutputType::Png, Some(_), Some(_)) => {
                refused("scale and width exclude each other".to_owned())
            }
            (OutputType::Png, Some(scale), None) if !SCALE.contains(&scale) => {
                refused(format!("scale is from {} to {}", SCALE.start(), SCALE.end()))
            }
            (OutputType::Png, None, Some(width)) if !WIDTH.contains(&width) => {
                refused(format!("width is from {} to {} pixels", WIDTH.start(), WIDTH.end()))
            }
            (OutputType::Png, _, _) => Ok(()),
        }
    }
}

impl Theme {
    /// Its word in inputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// What text has that says nothing of its colour.
    pub(super) fn text_colour(self) -> &'static str {
        match self {
            Self::Light => "#333333",
            Self::Dark => "#cccccc",
        }
    }

    pub(super) fn background(self) -> Background {
        match self {
            Self::Light => Background::Colour([0xff; 3]),
            // What d2's dark theme has, so that both languages look alike.
            Self::Dark => Background::Colour([0x1e, 0x1e, 0x2e]),
        }
    }
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transparent => f.write_str("transparent"),
            Self::Colour([red, green, blue]) => write!(f, "#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

impl std::str::FromStr for Background {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "transparent" {
            return Ok(Self::Transparent);
        }
        let digits = text.strip_prefix('#').filter(|digits| {
            digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let [_, red, green, blue] = number
            .ok_or_else(|| "a background is #rrggbb or transparent".to_owned())?
            .to_be_bytes();
        Ok(Self::Colour([red, green, blue]))
    }
}

impl TryFrom<String> for Background {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Background> for String {
    fn from(background: Background) -> Self {
        background.to_string()
    }
}
