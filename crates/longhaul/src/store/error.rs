//! Store errors, by what the caller can do about them.

use crate::job::{Command, JobId, Status};

/// An error of a store operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Stop working: the job has finished, or another attempt has the lease.
    #[error("lease lost: the job has finished or another attempt runs it")]
    LeaseLost,

    /// Fix the request: the job does not exist.
    #[error("job not found")]
    NotFound,
    /// Fix the request: the job was deleted.
    #[error("the job was deleted")]
    Gone,
    /// Fix the request: the job's status does not allow it.
    #[error("cannot {command} a job that is {status}")]
    WrongStatus {
        /// Current status.
        status: Status,
        /// Rejected command.
        command: Command,
    },
    /// Fix the request: the key belongs to another submission.
    #[error("the idempotency key was used for another submission (job {existing})")]
    KeyReused {
        /// Job that was submitted with the key.
        existing: JobId,
    },
    /// Fix the request: the step is stored with another output.
    #[error("step {name:?} is stored with another output")]
    StepConflict {
        /// Step name.
        name: String,
    },
    /// Fix the request: the job has no such step.
    #[error("the job has no finished step {name:?}")]
    UnknownStep {
        /// Step name.
        name: String,
    },

    /// Fix the request: the job's payload was deleted, so the job cannot run again.
    #[error("the job's payload was deleted; submit the job again")]
    PayloadPurged,

    /// Fix the configuration: a running process has this replica name.
    #[error("another replica with the name {replica:?} is running")]
    NameTaken {
        /// Replica name.
        replica: String,
    },

    /// Retry later: the store is busy or unreachable. It is unknown whether the write happened.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Inform the operator: the disk is full. Nothing was written, reads still work, and writes succeed again
    /// when there is space.
    #[error("the storage is full")]
    StorageFull,
    /// Inform the operator and stop the process: the store can no longer guarantee durability.
    #[error("the store is broken: {0}")]
    Broken(String),
}

impl StoreError {
    /// Returns true if the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::StorageFull => true,
            Self::LeaseLost
            | Self::NotFound
            | Self::Gone
            | Self::WrongStatus { .. }
            | Self::KeyReused { .. }
            | Self::StepConflict { .. }
            | Self::UnknownStep { .. }
            | Self::PayloadPurged
            | Self::NameTaken { .. }
            | Self::Broken(_) => false,
        }
    }
}
