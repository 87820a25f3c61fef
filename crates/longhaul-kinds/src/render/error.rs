//! Why there is no picture.

use std::fmt;

use longhaul::JobError;
use serde::{Deserialize, Serialize};

/// How much of a line is shown.
const EXCERPT_CHARS_MAX: usize = 120;

/// Why a source was not drawn, and where that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderError {
    /// What kind of trouble.
    pub code: Code,
    /// A sentence for whoever wrote the source.
    pub message: String,
    /// Which line, from 1, if the renderer knows.
    pub line: Option<usize>,
    /// Which character of it, from 1.
    pub column: Option<usize>,
    /// What is there.
    pub excerpt: Option<String>,
}

/// What kind of trouble there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The request makes no sense.
    BadInput,
    /// The source is not what its language allows.
    Syntax,
    /// The source is right, but asks for what cannot be drawn here.
    Unsupported,
    /// The source, or what comes of it, is beyond a limit.
    TooLarge,
    /// Drawing did not end in time.
    TookTooLong,
    /// The renderer broke: its fault, or that of a source that it did not expect.
    RendererFailed,
}

impl Code {
    /// As jobs have it.
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
    /// Trouble with no place.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), line: None, column: None, excerpt: None }
    }

    /// As a job has it. No further attempt would draw it.
    pub(super) fn into_job_error(self) -> JobError {
        JobError::fatal(&self).with_code(self.code.as_str())
    }

    /// Says where in the source it is: a line and a column, both from 1.
    #[must_use]
    pub(super) fn at(mut self, source: &str, line: usize, column: usize) -> Self {
        let text = source.lines().nth(line.saturating_sub(1)).map(str::trim).unwrap_or_default();
        self.excerpt = Some(text.chars().take(EXCERPT_CHARS_MAX).collect())
            .filter(|excerpt: &String| !excerpt.is_empty());
        (self.line, self.column) = (Some(line), Some(column));
        self
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
