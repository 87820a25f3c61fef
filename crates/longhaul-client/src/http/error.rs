//! Errors of calls, by what the caller can do.

use std::error::Error;

use crate::wire::Problem;

pub(super) type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No response: the server is down, restarting, or at another address. Retry later.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// Address of the server.
        server: String,
        /// Error of the connection.
        reason: String,
    },
    /// The server rejected the request. The problem describes the remedy.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The response is not from a Longhaul server of this version, but for example from a proxy.
    #[error("{server} {reason}")]
    Protocol {
        /// Address of the server.
        server: String,
        /// Unexpected HTTP status, if that is the problem.
        status: Option<u16>,
        /// Description that follows the address, for example `is not a Longhaul server`.
        reason: String,
    },
    /// The payload could not be read, so that no job was accepted. Check the file.
    #[error("cannot read {payload}: {reason}")]
    Payload {
        /// Path or name of the payload.
        payload: String,
        /// Error of the operating system.
        reason: String,
    },
    /// Invalid arguments; nothing was sent. Fix the call.
    #[error("{0}")]
    Invalid(String),
}

impl ClientError {
    /// Returns whether the same call may succeed later: no response, overload, or a gateway error.
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

/// Returns the error with its sources, because reqwest's message lacks them.
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

/// Returns the innermost source, for example `Connection refused`.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    without_os_code(cause)
}

/// Removes the number from messages such as `Connection refused (os error 111)`.
pub(super) fn without_os_code(error: &dyn Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_owned())
}
