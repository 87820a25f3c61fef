//! What is asked for.

use serde::{Deserialize, Serialize};

use super::{ErrorCode, Limits, Options, RenderError};

/// The input of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenderRequest {
    /// The diagram, in its own language.
    pub source: String,
    /// Which language that is.
    pub format: Format,
    /// What to make of it.
    pub output_type: OutputType,
    /// How it should look.
    #[serde(default)]
    pub options: Options,
}

/// A language of diagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// mermaid.js.org
    Mermaid,
    /// d2lang.com
    D2,
}

/// A kind of render.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputType {
    /// Scalable, with nothing in it that runs or loads.
    Svg,
    /// Pixels.
    Png,
}

impl Format {
    /// Its word in inputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mermaid => "mermaid",
            Self::D2 => "d2",
        }
    }
}

impl OutputType {
    /// Its word in inputs, which is also the ending of a file's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }

    /// As HTTP has it.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Svg => "image/svg+xml",
            Self::Png => "image/png",
        }
    }

    /// The artifact that the render is.
    pub fn artifact(self) -> &'static str {
        match self {
            Self::Svg => "diagram.svg",
            Self::Png => "diagram.png",
        }
    }
}

impl RenderRequest {
    /// Refuses what makes no sense, and what is too large to begin with.
    pub fn check(&self, limits: &Limits) -> Result<(), RenderError> {
        if self.source.len() > limits.source_bytes_max {
            let max = limits.source_bytes_max;
            let why = format!("the source has {} bytes, and {max} are allowed", self.source.len());
            return Err(RenderError::new(ErrorCode::TooLarge, why));
        }
        self.options.check(self.output_type)
    }
}
