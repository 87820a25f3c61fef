//! Render errors with their position in the source.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::source_position;

/// Characters of a source line that an error quotes.
const EXCERPT_CHARS_MAX: usize = 120;

/// Reason why a source was not rendered, with its position if the renderer knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderError {
    pub code: ErrorCode,
    /// Message for the author of the source.
    pub message: String,
    /// Line in the source, from 1.
    pub line: Option<usize>,
    /// Character in the line, from 1.
    pub column: Option<usize>,
    pub excerpt: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// The options contradict each other or are out of range.
    BadInput,
    /// The source is invalid in its language.
    Syntax,
    /// The source is valid but uses a feature that this renderer lacks.
    Unsupported,
    /// The source or its result exceeds a limit.
    TooLarge,
    TookTooLong,
    /// The renderer failed, for example with a panic.
    RendererFailed,
}

impl ErrorCode {
    /// Returns the error code of a failed job.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadInput => "bad-input",
            Self::Syntax => "syntax",
            Self::Unsupported => "unsupported",
            Self::TooLarge => "too-large",
            Self::TookTooLong => "took-too-long",
            Self::RendererFailed => "renderer-failed",
        }
    }
}

impl RenderError {
    /// Creates an error without a position.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), line: None, column: None, excerpt: None }
    }

    /// Adds the position, a line and a column from 1, and quotes the source line.
    #[must_use]
    pub(crate) fn at(mut self, source: &str, line: usize, column: usize) -> Self {
        let text = source.lines().nth(line.saturating_sub(1)).map(str::trim).unwrap_or_default();
        let printable = text.chars().filter(|letter| !letter.is_control());
        self.excerpt = Some(printable.take(EXCERPT_CHARS_MAX).collect())
            .filter(|excerpt: &String| !excerpt.is_empty());
        (self.line, self.column) = (Some(line), Some(column));
        self
    }

    /// Adds the position of a byte offset.
    #[must_use]
    pub(crate) fn at_byte(self, source: &str, byte: usize) -> Self {
        let (line, column) = source_position::of_byte(source, byte);
        self.at(source, line, column)
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.excerpt {
            Some(excerpt) => write!(f, ": {excerpt}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RenderError {}
