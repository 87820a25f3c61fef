//! What can go wrong, by what the caller can do about it.

use std::error::Error;

use crate::wire::Problem;

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer came: the server is down, restarting or not where we look. Trying later may help.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// The address that was tried.
        server: String,
        /// What the network said.
        reason: String,
    },
    /// The server understood and said no. Its problem tells what to change.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// Something answered that does not speak as a Longhaul server does: a proxy, another service,
    /// another version.
    #[error("{server} did not answer as a Longhaul server does: {reason}")]
    Protocol {
        /// The address that answered.
        server: String,
        /// The HTTP status that came, if it is what surprised us.
        status: Option<u16>,
        /// What was unexpected.
        reason: String,
    },
    /// The payload could not be read to its end, so that no job was accepted. Look at the file.
    #[error("cannot read {payload}: {reason}")]
    Payload {
        /// Its path or name.
        payload: String,
        /// What the system said.
        reason: String,
    },
    /// Nothing was sent, because what was given cannot be right. Fix the call.
    #[error("{0}")]
    Invalid(String),
}

impl ClientError {
    /// Whether the same call may succeed a little later: no answer, overload, or a gateway with
    /// nobody behind it.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(problem) => is_busy(problem.status),
            Self::Protocol { status, .. } => status.is_some_and(is_busy),
            Self::Payload { .. } | Self::Invalid(_) => false,
        }
    }
}

fn is_busy(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// An error with its sources. reqwest's own text ends at "error sending request".
pub(super) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The innermost source: `Connection refused` rather than the layers around it.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    in_words(cause)
}

/// "Connection refused (os error 111)" without the number, which helps nobody.
pub(super) fn in_words(error: &dyn Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_owned())
}
