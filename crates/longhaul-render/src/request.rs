//! Render requests.

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Options, RenderError, RenderLimits};

/// Source of a diagram, its language and the image to produce. Input of a render job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenderRequest {
    pub source: String,
    pub format: Format,
    /// Defaults to SVG.
    #[serde(default)]
    pub output_type: OutputType,
    #[serde(default)]
    pub options: Options,
}

/// Diagram language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// mermaid.js.org
    Mermaid,
    /// d2lang.com
    D2,
}

/// Image format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputType {
    #[default]
    Svg,
    Png,
}

impl Format {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mermaid => "mermaid",
            Self::D2 => "d2",
        }
    }
}

impl OutputType {
    /// Returns the name of the format, which is also its file extension.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Svg => "image/svg+xml",
            Self::Png => "image/png",
        }
    }

    pub fn artifact(self) -> &'static str {
        match self {
            Self::Svg => "diagram.svg",
            Self::Png => "diagram.png",
        }
    }
}

impl RenderRequest {
    /// Rejects invalid options and a source over the limit.
    pub fn check(&self, limits: &RenderLimits) -> Result<(), RenderError> {
        if self.source.len() > limits.source_bytes_max {
            let max = limits.source_bytes_max;
            let bytes = self.source.len();
            let message = format!("the source has {bytes} bytes; the limit is {max}");
            return Err(RenderError::new(ErrorCode::TooLarge, message));
        }
        self.options.check(self.output_type)
    }
}
