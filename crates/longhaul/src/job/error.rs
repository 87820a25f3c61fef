//! Errors of jobs and steps.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum length of a stored code; longer ones are truncated.
const CODE_CHARS_MAX: usize = 64;
/// Maximum length of a stored message; longer ones are truncated.
const MESSAGE_CHARS_MAX: usize = 8_192;

/// The error of a handler or a step, stored on the job.
///
/// Any `std::error::Error` converts to a retryable one with `?`; the message includes its sources.
/// Use [`JobError::fatal`] if another attempt cannot succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// Stable code for programs. Defaults to `failed`.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// If true, another attempt may succeed.
    pub retryable: bool,
    /// The attempt that ended with this error, from 1.
    pub attempt: u32,
    /// Delay before the next attempt, instead of the kind's backoff.
    #[serde(skip)]
    pub retry_in: Option<Duration>,
    /// If true, the attempt is not charged.
    #[serde(skip)]
    pub uncharged: bool,
}

impl JobError {
    /// Code of an attempt whose worker died.
    pub const WORKER_LOST: &str = "worker-lost";

    /// Creates an error after which the job is retried.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::new("failed", message, true)
    }

    /// Creates an error that ends the job.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self::new("failed", message, false)
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// Sets the delay before the next attempt, instead of the kind's backoff.
    #[must_use]
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.retry_in = Some(delay);
        self
    }

    /// Does not charge the attempt: the job is retried however often this error occurs. For work that
    /// could not start, for example because a server that it needs is unreachable. Without effect on an
    /// error that is not retryable.
    #[must_use]
    pub fn uncharged(mut self) -> Self {
        self.uncharged = true;
        self
    }

    pub(crate) fn new(code: &str, message: impl fmt::Display, retryable: bool) -> Self {
        let (code, message) = (code.to_owned(), message.to_string());
        Self { code, message, retryable, attempt: 0, retry_in: None, uncharged: false }.bounded()
    }

    /// Creates the error of a value over a limit, which another attempt would exceed, too.
    pub(crate) fn over_limit(error: impl fmt::Display) -> Self {
        Self::new("limit", error, false)
    }

    /// Truncates code and message, because every transition stores them.
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

    #[must_use]
    pub(crate) fn in_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Creates the error of an attempt whose lease expired.
    pub fn worker_lost(replica: &str, attempt: u32, max_attempts: u32) -> Self {
        let message = format!(
            "the worker stopped renewing its lease during attempt {attempt} of {max_attempts} (replica {replica}); \
             it crashed, was killed, or lost its connection"
        );
        Self::new(Self::WORKER_LOST, message, true).in_attempt(attempt)
    }
}

// Does not implement `std::error::Error`, like `anyhow::Error`, so that this conversion can exist.
impl<E: std::error::Error> From<E> for JobError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many errors already include their source in their message.
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
