//! Errors of commands with their messages, hints and exit codes.

use std::io;

use longhaul_client::ClientError;
use longhaul_client::wire::{Problem, Status};
use serde_json::{Value, json};

/// Exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    /// The command succeeded, but its job failed or was cancelled.
    JobFailed,
    /// The arguments are invalid.
    Usage,
    /// The server is unreachable or rejected the request.
    Server,
    /// A local error.
    Broken,
    /// Ctrl-C, with the exit code that shells use.
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::JobFailed | Self::Broken => 1,
            Self::Usage => 2,
            Self::Server => 3,
            Self::Interrupted => 130,
        }
    }

    /// Returns the exit status of a command that waited for a job.
    pub(crate) fn of(status: Status) -> Self {
        match status {
            Status::Completed => Self::Done,
            Status::Failed | Status::Cancelled => Self::JobFailed,
            // The connection ended before the job.
            Status::Pending | Status::Running | Status::Waiting => Self::Server,
        }
    }
}

pub(crate) type CliResult<T = Exit> = Result<T, CliError>;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Invalid arguments.
    #[error("{message}")]
    Usage { message: String, hint: Option<&'static str> },
    /// The server is unreachable or rejected the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("job {id} is {status}, not finished yet")]
    NotFinished { id: String, status: Status },
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// Any other local error.
    #[error("{}", with_causes(.0))]
    Other(#[from] anyhow::Error),
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    pub(crate) fn usage_with_hint(message: impl Into<String>, hint: &'static str) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint) }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. }
            | Self::Client(ClientError::Invalid(_) | ClientError::Payload { .. }) => Exit::Usage,
            Self::Client(_) | Self::NotFinished { .. } => Exit::Server,
            // A closed pipe, as in `longhaul list | head`, is not a failure.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Output(_) | Self::Other(_) => Exit::Broken,
        }
    }

    /// Returns the next thing to try.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Usage { hint, .. } => (*hint)?,
            Self::Client(ClientError::Unreachable { reason, .. })
                if reason.contains("certificate") =>
            {
                "set SSL_CERT_FILE to a file with the certificate authority of the server"
            }
            Self::Client(ClientError::Unreachable { .. }) => {
                "is `longhaul serve` running? Set another address with --server or LONGHAUL_SERVER"
            }
            Self::Client(ClientError::Refused(problem)) => return hint_for(problem),
            Self::Client(ClientError::Protocol { .. }) => {
                "check the address in --server or LONGHAUL_SERVER"
            }
            Self::NotFinished { id, .. } => {
                return Some(format!("`longhaul result {id} --wait` waits for it"));
            }
            Self::Client(ClientError::Invalid(_) | ClientError::Payload { .. })
            | Self::Output(_)
            | Self::Other(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// Returns the error for `--json`.
    pub(crate) fn to_json(&self) -> Value {
        let (code, problem) = match self {
            Self::Usage { .. } | Self::Client(ClientError::Invalid(_)) => ("usage", None),
            Self::Client(ClientError::Unreachable { .. }) => ("unreachable", None),
            Self::Client(ClientError::Refused(problem)) => (problem.code.as_str(), Some(problem)),
            Self::Client(ClientError::Protocol { .. }) => ("protocol", None),
            Self::Client(ClientError::Payload { .. }) => ("payload-unreadable", None),
            Self::NotFinished { .. } => ("not-finished", None),
            Self::Output(_) | Self::Other(_) => ("broken", None),
        };
        json!({"error": {
            "code": code,
            "message": self.to_string(),
            "hint": self.hint(),
            "problem": problem,
        }})
    }
}

/// Returns the error with the causes that its message does not contain.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

fn hint_for(problem: &Problem) -> Option<String> {
    let hint = match (problem.status, problem.code.as_str()) {
        (_, "job-not-found") => "`longhaul list` lists all jobs",
        (_, "unknown-kind") => "`longhaul kinds` lists all kinds",
        (_, "wrong-status") => "`longhaul get` shows the status of the job",
        (_, "idempotency-key-reused") => "the key belongs to another job: use a new --key",
        (_, "upload-in-progress") => {
            "another process uploads a payload under this key: try again when it is done"
        }
        (_, "artifact-not-found") => "`longhaul artifacts JOB` lists the artifacts of a job",
        (_, "stored-limit") => "`longhaul purge` deletes finished jobs and frees storage",
        (413, _) => "the limits are set in the server's configuration under [limits]",
        (401, _) => "set an API key with --api-key or LONGHAUL_API_KEY",
        (403, _) => "use an API key with the required scope",
        (410, _) => "the job was purged or its retention ended; only its id is stored",
        (429 | 503, _) => "the server is busy: try again in a few seconds",
        (500.., _) => {
            return Some(format!("request {} is in the server's log", problem.request_id));
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_stable() {
        assert_eq!(Exit::of(Status::Completed).code(), 0);
        assert_eq!(Exit::of(Status::Failed).code(), 1);
        assert_eq!(Exit::of(Status::Cancelled).code(), 1);
        assert_eq!(CliError::usage("").exit().code(), 2);
        let invalid = CliError::Client(ClientError::Invalid(String::new()));
        assert_eq!(invalid.exit().code(), 2);
        let (server, reason) = (String::new(), String::new());
        let unreachable = CliError::Client(ClientError::Unreachable { server, reason });
        assert_eq!(unreachable.exit().code(), 3);
    }

    #[test]
    fn closed_pipe_is_not_an_error() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.exit(), Exit::Done);
    }

    #[test]
    fn error_causes_are_not_repeated() {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        let start = longhaul_server::server::StartError::Data { path: "/x".into(), source };
        let error = CliError::Other(anyhow::Error::from(start).context("not started"));
        assert_eq!(
            error.to_string(),
            "not started: cannot use the data directory /x: permission denied"
        );
    }
}
