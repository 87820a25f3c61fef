//! Options of a diagram: theme, background and size.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, OutputType, RenderError};

const SCALE: std::ops::RangeInclusive<f64> = 0.1..=10.0;
const WIDTH: std::ops::RangeInclusive<u32> = 16..=16_384;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    pub theme: Theme,
    /// Defaults to the theme's background.
    pub background: Option<Background>,
    /// Pixels per unit of the diagram, from 0.1 to 10. Defaults to 1. PNG only.
    pub scale: Option<f64>,
    /// Width in pixels, from 16 to 16,384, instead of a scale. PNG only.
    pub width: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    #[default]
    Light,
    Dark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Background {
    Transparent,
    /// Red, green and blue.
    Colour([u8; 3]),
}

impl Options {
    /// Rejects options that are out of range or contradict each other.
    pub(crate) fn check(&self, output_type: OutputType) -> Result<(), RenderError> {
        let rejected = |message: String| Err(RenderError::new(ErrorCode::BadInput, message));
        match (output_type, self.scale, self.width) {
            (_, None, None) => Ok(()),
            (OutputType::Svg, _, _) => rejected("scale and width apply to png only".to_owned()),
            (OutputType::Png, Some(_), Some(_)) => {
                rejected("scale and width are mutually exclusive".to_owned())
            }
            (OutputType::Png, Some(scale), None) if !SCALE.contains(&scale) => {
                rejected(format!("scale must be from {} to {}", SCALE.start(), SCALE.end()))
            }
            (OutputType::Png, None, Some(width)) if !WIDTH.contains(&width) => {
                rejected(format!("width must be from {} to {} pixels", WIDTH.start(), WIDTH.end()))
            }
            (OutputType::Png, _, _) => Ok(()),
        }
    }
}

impl Theme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(crate) fn text_colour(self) -> &'static str {
        match self {
            Self::Light => "#333333",
            Self::Dark => "#cccccc",
        }
    }

    pub(crate) fn background(self) -> Background {
        match self {
            Self::Light => Background::Colour([0xff; 3]),
            // The background of d2's dark theme, so that both languages look alike.
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
            .ok_or_else(|| "a background must be #rrggbb or transparent".to_owned())?
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
