//! Errors of egress requests.

use std::error::Error;
use std::io::{self, ErrorKind};

use super::policy::{CheckedUrl, UrlDenied};
use super::resolve::ResolveError;

/// Error of a request without a response. Messages contain neither URL nor addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The policy denies the URL. Nothing was sent.
    #[error("{0}")]
    Denied(#[from] UrlDenied),
    #[error("cannot resolve the host: {0}")]
    Unresolved(String),
    #[error("cannot connect: {0}")]
    Unreachable(String),
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The server may have received the request.
    #[error("no response within the timeout")]
    TimedOut,
    /// The server may have received the request.
    #[error("the connection was closed before the response")]
    Reset,
    #[error("the response is not valid HTTP: {0}")]
    Protocol(String),
}

impl SendError {
    /// Returns the error code that is stored with deliveries and counted in metrics.
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

    pub fn classify(error: &reqwest::Error, url: Option<&CheckedUrl>) -> Self {
        let causes = || causes(error);
        if let Some(cause) = causes().find_map(|cause| cause.downcast_ref::<ResolveError>()) {
            return match cause {
                ResolveError::Denied(deny_reason) => match url {
                    Some(url) => Self::Denied(url.denied(*deny_reason)),
                    None => Self::Unreachable(cause.to_string()),
                },
                ResolveError::Unresolved(error) => Self::Unresolved(error.to_string()),
            };
        }
        if let Some(cause) = causes().find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
            return Self::Tls(cause.to_string());
        }
        // The innermost error is the cause; the outer ones only add context.
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

/// Iterates over an error and its sources, and over errors inside of an `io::Error`, which are not its source.
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
        // tidy: allow(vocabulary) the spelling of hyper
        .is_some_and(|error| error.is_incomplete_message() || error.is_canceled());
    by_system || by_hyper
}
