//! Why there is no answer.

use std::error::Error;
use std::io::{self, ErrorKind};

use super::policy::{CheckedUrl, UrlDenied};
use super::resolve::ResolveError;

/// Why there is no answer. The texts have neither the URL nor addresses in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// This server may not go there; nothing was sent.
    #[error("{0}")]
    Denied(#[from] UrlDenied),
    /// The name has no address now.
    #[error("the host cannot be resolved: {0}")]
    Unresolved(String),
    /// Nobody takes the connection.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The receiver's certificate is not good, or no TLS can be spoken.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// No answer came in time. The receiver may have got the request.
    #[error("no answer came in time")]
    TimedOut,
    /// The connection was cut before an answer came. The receiver may have got the request.
    #[error("the connection was closed before the answer came")]
    Reset,
    /// What came is no HTTP.
    #[error("the answer is no HTTP: {0}")]
    Protocol(String),
}

impl SendError {
    /// One word, for what is stored and counted.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied(_) => "refused",
            Self::Unresolved(_) => "unresolved",
            Self::Unreachable(_) => "unreachable",
            Self::Tls(_) => "tls",
            Self::TimedOut => "timed-out",
            Self::Reset => "reset",
            Self::Protocol(_) => "protocol",
        }
    }

    pub fn classify(error: &reqwest::Error, target: Option<&CheckedUrl>) -> Self {
        let causes = || causes(error);
        if let Some(cause) = causes().find_map(|cause| cause.downcast_ref::<ResolveError>()) {
            return match cause {
                ResolveError::Denied(deny_reason) => match target {
                    Some(target) => Self::Denied(target.denied(*deny_reason)),
                    None => Self::Unreachable(cause.to_string()),
                },
                ResolveError::Unresolved(error) => Self::Unresolved(error.to_string()),
            };
        }
        if let Some(cause) = causes().find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
            return Self::Tls(cause.to_string());
        }
        // The last one says what happened, those before it only where.
        let last = || causes().last().map(ToString::to_string).unwrap_or_default();
        if error.is_connect() {
            Self::Unreachable(last())
        } else if error.is_timeout() {
            Self::TimedOut
        } else if causes().any(is_reset) {
            Self::Reset
        } else {
            Self::Protocol(last())
        }
    }
}

/// An error and what it comes from. Inside of an `io::Error` is one that it does not call its source.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map_or_else(|| error.source(), |inner| Some(inner))
    })
}

fn is_reset(cause: &(dyn Error + 'static)) -> bool {
    let by_system = cause.downcast_ref::<io::Error>().is_some_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
        )
    });
    let by_hyper = cause
        .downcast_ref::<hyper::Error>()
        // tidy: allow(vocabulary) hyper spells it so
        .is_some_and(|error| error.is_incomplete_message() || error.is_canceled());
    by_system || by_hyper
}
