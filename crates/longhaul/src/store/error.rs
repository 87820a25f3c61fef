//! What can go wrong in a store, by what the caller can do about it.

use crate::job::{Command, JobId, Status};

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Stop working: somebody else holds the job, or it has ended.
    #[error("the lease on this job is lost: it ended or another attempt holds it")]
    LeaseLost,

    /// Fix the request: there is no such job.
    #[error("there is no such job")]
    NotFound,
    /// Fix the request: the job was deleted.
    #[error("the job was deleted")]
    Gone,
    /// Fix the request: the job's status does not allow it.
    #[error("cannot {command} a job that is {status}")]
    WrongStatus {
        /// Where the job stands.
        status: Status,
        /// What was asked.
        command: Command,
    },
    /// Fix the request: the key belongs to another submission.
    #[error("the idempotency key was used for another submission (job {existing})")]
    KeyReused {
        /// The job that has it.
        existing: JobId,
    },
    /// Fix the request: the step is stored with another output.
    #[error("step {name:?} is stored with another output")]
    StepConflict {
        /// The step.
        name: String,
    },
    /// Fix the request: the job has no such step.
    #[error("the job has no finished step {name:?}")]
    UnknownStep {
        /// The step.
        name: String,
    },

    /// Fix the request: the job had a payload, which is gone.
    #[error("the job's payload is gone: submit it again")]
    PayloadPurged,

    /// Fix the configuration: another process that lives has this name.
    #[error("another replica with the name {replica:?} is running")]
    NameTaken {
        /// The name.
        replica: String,
    },

    /// Try again later: the store is busy or out of reach. Whether the write happened is unknown.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Tell the operator: no room. Nothing was written; reads go on, and it heals by itself.
    #[error("the storage is full")]
    StorageFull,
    /// Tell the operator: the store can no longer promise anything. Stop the process.
    #[error("the store is broken: {0}")]
    Broken(String),
}

impl StoreError {
    /// Whether the same call may succeed later.
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
