//! Why a job or a step failed, and whether trying again may help.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest code that is stored; what is beyond it is cut.
const CODE_CHARS_MAX: usize = 64;
/// The longest message that is stored; what is beyond it is cut.
const MESSAGE_CHARS_MAX: usize = 8_192;

/// An error that a handler or a step returns, and that the job shows.
///
/// Any `std::error::Error` turns into a retryable one by `?`, with its chain of sources in the
/// message. Say [`JobError::fatal`] where trying again cannot help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// A stable word for programs: `failed` unless the handler or the engine says otherwise.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether another attempt may succeed.
    pub retryable: bool,
    /// The attempt that it ended, from 1.
    pub attempt: u32,
    /// How long to wait before the next attempt, if the handler knows better than its kind.
    #[serde(skip)]
    pub retry_in: Option<Duration>,
}

impl JobError {
    /// The code of an attempt whose worker died.
    pub const WORKER_LOST: &str = "worker-lost";

    /// An error that another attempt may not meet.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::new("failed", message, true)
    }

    /// An error that every further attempt would meet again.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self::new("failed", message, false)
    }

    /// Replaces the code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// Says how long to wait before the next attempt, instead of what the kind says.
    #[must_use]
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.retry_in = Some(delay);
        self
    }

    pub(crate) fn new(code: &str, message: impl fmt::Display, retryable: bool) -> Self {
        let (code, message) = (code.to_owned(), message.to_string());
        Self { code, message, retryable, attempt: 0, retry_in: None }.bounded()
    }

    /// Cuts what is too long to be stored with each transition.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        for (text, chars_max) in
            [(&mut self.code, CODE_CHARS_MAX), (&mut self.message, MESSAGE_CHARS_MAX)]
        {
            if let Some((cut, _)) = text.char_indices().nth(chars_max) {
                text.truncate(cut);
                text.push('…');
            }
        }
        self
    }

    /// Names the attempt that it ended.
    #[must_use]
    pub(crate) fn in_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The lease of the last attempt ran out: the process or its machine died.
    pub fn worker_lost(replica: &str, attempt: u32, max_attempts: u32) -> Self {
        let message = format!(
            "the worker stopped renewing its lease during attempt {attempt} of {max_attempts} (replica {replica}); \
             it crashed, was killed, or lost its connection"
        );
        Self::new(Self::WORKER_LOST, message, true).in_attempt(attempt)
    }
}

// Not `std::error::Error` itself, like anyhow's, so that this conversion can exist.
impl<E: std::error::Error> From<E> for JobError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many errors already print their source; twice reads badly.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Self::retryable(message)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the page")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn any_error_becomes_retryable_with_its_sources() {
        let error = JobError::from(Outer(std::io::Error::other("line cut")));
        assert_eq!(
            (error.message.as_str(), error.retryable),
            ("cannot read the page: line cut", true)
        );
    }

    #[test]
    fn endless_messages_are_cut_at_a_character() {
        let error = JobError::fatal("ä".repeat(MESSAGE_CHARS_MAX * 2));
        assert_eq!(error.message.chars().count(), MESSAGE_CHARS_MAX + 1);
    }
}
