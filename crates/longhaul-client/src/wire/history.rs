//! History of a job: attempts and steps, and forks from a step.

use serde::{Deserialize, Serialize};

use super::{Instant, JobError, RawJson, Status};

responses! {
    /// A finished step of a job.
    pub struct Step {
        /// Unique in its job.
        pub name: String,
        /// Index in the order in which the handler ran its steps, from 0.
        pub position: u32,
        /// Stored output (checkpoint).
        pub output: RawJson,
        /// Attempt in which the step finished.
        pub attempt: u32,
        /// Start of its last run.
        pub started_at: Instant,
        /// Time at which the checkpoint was stored.
        pub completed_at: Instant,
    }

    /// Finished steps of a job, in order.
    pub struct StepList {
        /// Steps in order.
        pub steps: Vec<Step>,
    }

    /// One attempt of a job.
    pub struct Attempt {
        /// Number from 1. It repeats if an attempt was released at a shutdown and continued later.
        pub attempt: u32,
        /// Replica that ran the attempt.
        pub replica: Option<String>,
        /// Start of the attempt.
        pub started_at: Instant,
        /// End of the attempt; null while it runs.
        pub ended_at: Option<Instant>,
        /// Status of the job after the attempt; null while it runs.
        pub status: Option<Status>,
        /// Error of the attempt, if it failed.
        pub error: Option<JobError>,
    }

    /// Attempts of a job, oldest first.
    pub struct AttemptList {
        /// Attempts, oldest first.
        pub attempts: Vec<Attempt>,
    }
}

/// Options of a fork.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkRequest {
    /// First step to run again. Defaults to none: all finished steps are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
}
