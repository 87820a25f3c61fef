//! The status machine: one total function, from which the documentation's table is printed.

use serde::{Deserialize, Serialize};

use super::names::names;

/// The status of a job. Scheduled, backing off and sleeping jobs are `Pending` with a later
/// `run_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Queued, or not due yet.
    Pending,
    /// A replica holds a lease on the job.
    Running,
    /// Waits for a signal or for its children.
    Waiting,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended by cancellation.
    Cancelled,
}

/// A command to the status machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A replica claims the job for one attempt.
    Claim,
    /// The attempt ended with a result.
    Complete,
    /// The attempt ended with an error that ends the job.
    Fail,
    /// The attempt ended and the job continues later: a retry, a sleep, a release, a lost lease.
    Requeue,
    /// The attempt ended because the job was cancelled.
    Stop,
    /// The attempt ended until a signal arrives or children finish.
    Wait,
    /// The signal arrived, or the children finished.
    Wake,
    /// A caller cancels the job.
    Cancel,
    /// A caller resumes a failed or cancelled job from its last finished step.
    Resume,
    /// A caller deletes a finished job.
    Purge,
    /// The payload expired before a worker claimed the job.
    Expire,
}

/// The effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The job gets this status.
    Move(Status),
    /// The status does not change, and the worker gets a cancellation request.
    RequestStop,
    /// Nothing changes, because the job already has the requested status: repeating the request
    /// succeeds.
    Unchanged,
    /// The job is deleted.
    Delete,
    /// The status does not allow the command; nothing changes.
    Reject,
}

impl Status {
    /// Returns the effect of `command` on a job with this status.
    pub fn on(self, command: Command) -> Transition {
        use Command::{
            Cancel, Claim, Complete, Expire, Fail, Purge, Requeue, Resume, Stop, Wait, Wake,
        };
        use Transition::{Delete, Move, Reject, RequestStop, Unchanged};
        match self {
            Self::Pending => match command {
                Claim => Move(Self::Running),
                Cancel => Move(Self::Cancelled),
                Expire => Move(Self::Failed),
                Complete | Fail | Requeue | Stop | Wait | Wake | Resume | Purge => Reject,
            },
            Self::Running => match command {
                Complete => Move(Self::Completed),
                Fail => Move(Self::Failed),
                Requeue => Move(Self::Pending),
                Stop => Move(Self::Cancelled),
                Wait => Move(Self::Waiting),
                Cancel => RequestStop,
                Claim | Wake | Resume | Purge | Expire => Reject,
            },
            Self::Waiting => match command {
                Wake => Move(Self::Pending),
                Cancel => Move(Self::Cancelled),
                Claim | Complete | Fail | Requeue | Stop | Wait | Resume | Purge | Expire => Reject,
            },
            Self::Completed => match command {
                Purge => Delete,
                Claim | Complete | Fail | Requeue | Stop | Wait | Wake | Cancel | Resume
                | Expire => Reject,
            },
            Self::Failed => match command {
                Resume => Move(Self::Pending),
                Purge => Delete,
                Claim | Complete | Fail | Requeue | Stop | Wait | Wake | Cancel | Expire => Reject,
            },
            Self::Cancelled => match command {
                Resume => Move(Self::Pending),
                Purge => Delete,
                Cancel => Unchanged,
                Claim | Complete | Fail | Requeue | Stop | Wait | Wake | Expire => Reject,
            },
        }
    }

    /// Returns true if the job has ended. Only `Resume` leads out of a terminal status, and never
    /// out of `Completed`.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Running | Self::Waiting => false,
        }
    }

    /// Parses a name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

names! {
    Status {
        Pending: "pending",
        Running: "running",
        Waiting: "waiting",
        Completed: "completed",
        Failed: "failed",
        Cancelled: "cancelled",
    }
}

names! {
    Command {
        Claim: "claim",
        Complete: "complete",
        Fail: "fail",
        Requeue: "requeue",
        Stop: "stop",
        Wait: "wait",
        Wake: "wake",
        Cancel: "cancel",
        Resume: "resume",
        Purge: "purge",
        Expire: "expire",
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// ARCHITECTURE.md contains this table, so that it cannot differ from the code.
    #[test]
    fn architecture_shows_the_machine_as_it_is() {
        let mut table = String::from("| status | command | becomes |\n| --- | --- | --- |\n");
        for status in Status::ALL {
            for command in Command::ALL {
                let becomes = match status.on(command) {
                    Transition::Move(next) => next.to_string(),
                    Transition::RequestStop => format!("{status}, and its worker is asked to stop"),
                    Transition::Unchanged => format!("{status}, as it is"),
                    Transition::Delete => "deleted".to_owned(),
                    Transition::Reject => continue,
                };
                writeln!(table, "| {status} | {command} | {becomes} |").unwrap();
            }
        }
        let page = include_str!("../../../../ARCHITECTURE.md");
        assert!(page.contains(&table), "ARCHITECTURE.md should hold this table:\n\n{table}");
    }

    #[test]
    fn terminal_is_final_except_by_resume_and_purge() {
        for status in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
            for command in Command::ALL {
                let changes = match status.on(command) {
                    Transition::Move(_) | Transition::RequestStop | Transition::Delete => true,
                    Transition::Unchanged | Transition::Reject => false,
                };
                let resumes = command == Command::Resume && status != Status::Completed;
                let may_change = resumes || command == Command::Purge;
                assert_eq!(changes, may_change, "{status} {command}");
            }
        }
    }

    #[test]
    fn every_status_reads_back_from_its_word() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        assert_eq!(Status::parse("done"), None);
    }
}
