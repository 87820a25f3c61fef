//! How a command fails: what to say, what to do next, and which exit code scripts see.

use std::io;

use longhaul_client::ClientError;
use longhaul_client::wire::{Problem, Status};
use serde_json::{Value, json};

/// How a command ended, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It worked, and the job it was about failed or was cancelled.
    JobFailed,
    /// The command makes no sense as given.
    Usage,
    /// The server could not be reached, or refused.
    Server,
    /// Something broke on this machine.
    Broken,
    /// Ctrl-C, by the convention of shells.
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

    /// What a job's end means for the command that waited for it.
    pub(crate) fn of(status: Status) -> Self {
        match status {
            Status::Completed => Self::Done,
            Status::Failed | Status::Cancelled => Self::JobFailed,
            // The watch ended before the job did.
            Status::Pending | Status::Running | Status::Waiting => Self::Server,
        }
    }
}

/// Why a command could not do what was asked.
#[derive(Debug)]
pub(crate) enum CliError {
    /// Fix the command.
    Usage { message: String, hint: Option<String> },
    /// The server is away or said no.
    Client(ClientError),
    /// The job has no result yet.
    NotFinished { id: String, status: Status },
    /// Nobody reads our output.
    Output(io::Error),
    /// Anything else on this machine.
    Other(anyhow::Error),
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. }
            | Self::Client(ClientError::Invalid(_) | ClientError::Payload { .. }) => Exit::Usage,
            Self::Client(_) | Self::NotFinished { .. } => Exit::Server,
            // `longhaul list | head` is no failure.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Output(_) | Self::Other(_) => Exit::Broken,
        }
    }

    /// What happened, in a sentence.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Usage { message, .. } => message.clone(),
            Self::Client(error) => error.to_string(),
            Self::NotFinished { id, status } => format!("job {id} is {status}, not finished yet"),
            Self::Output(error) => format!("cannot write the output: {error}"),
            Self::Other(error) => with_causes(error),
        }
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } => hint.clone(),
            Self::Client(ClientError::Unreachable { reason, .. })
                if reason.contains("certificate") =>
            {
                Some("SSL_CERT_FILE names a file with the authority that signed it".to_owned())
            }
            Self::Client(ClientError::Unreachable { .. }) => Some(
                "is `longhaul serve` running? --server or LONGHAUL_SERVER names another address"
                    .to_owned(),
            ),
            Self::Client(ClientError::Refused(problem)) => hint_for(problem),
            Self::Client(ClientError::Protocol { .. }) => {
                Some("check what --server or LONGHAUL_SERVER points at".to_owned())
            }
            Self::NotFinished { id, .. } => {
                Some(format!("`longhaul result {id} --wait` waits for it"))
            }
            Self::Client(ClientError::Invalid(_) | ClientError::Payload { .. })
            | Self::Output(_)
            | Self::Other(_) => None,
        }
    }

    /// The error as programs read it.
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
            "message": self.message(),
            "hint": self.hint(),
            "problem": problem,
        }})
    }
}

/// An error with those of its causes that it does not tell itself.
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
        (_, "job-not-found") => "`longhaul list` shows the jobs that there are",
        (_, "unknown-kind") => "`longhaul kinds` shows the kinds that there are",
        (_, "wrong-status") => "`longhaul get` shows where the job stands",
        (_, "idempotency-key-reused") => "the key belongs to another job: take a new --key",
        (_, "upload-in-progress") => {
            "another process sends a payload under this key: ask again when it is done"
        }
        (_, "artifact-not-found") => "`longhaul artifacts` with the job alone lists its artifacts",
        (_, "stored-limit") => "`longhaul purge` makes room by deleting finished jobs",
        (413, _) => "the server's operator sets the limits, in its configuration under [limits]",
        (401, _) => "give a key with --api-key or LONGHAUL_API_KEY",
        (403, _) => "use a key that has the scope",
        (410, _) => "it was purged or its retention ended; only its id is remembered",
        (429 | 503, _) => "the server is busy: try again in a few seconds",
        (500.., _) => {
            return Some(format!("request {} is in the server's log", problem.request_id));
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_contracts() {
        assert_eq!(Exit::of(Status::Completed).code(), 0);
        assert_eq!(Exit::of(Status::Failed).code(), 1);
        assert_eq!(Exit::of(Status::Cancelled).code(), 1);
        assert_eq!(CliError::usage("").exit().code(), 2);
        let invalid = CliError::Client(ClientError::Invalid(String::new()));
        assert_eq!(invalid.exit().code(), 2);
        let (server, reason) = (String::new(), String::new());
        let away = CliError::Client(ClientError::Unreachable { server, reason });
        assert_eq!(away.exit().code(), 3);
    }

    #[test]
    fn a_reader_that_had_enough_is_no_failure() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.exit(), Exit::Done);
    }

    #[test]
    fn cause_is_told_once() {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        let start = longhaul_server::server::StartError::Data { path: "/x".into(), source };
        let error = CliError::Other(anyhow::Error::from(start).context("not started"));
        assert_eq!(
            error.message(),
            "not started: cannot use the data folder /x: permission denied"
        );
    }
}
