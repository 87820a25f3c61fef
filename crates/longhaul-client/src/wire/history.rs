//! What a job left behind on its way: attempts and steps, and the fork that starts from one.

use serde::{Deserialize, Serialize};

use super::{Instant, JobError, RawJson, Status};

/// A finished step of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Step {
    /// Its name, unique in its job.
    pub name: String,
    /// Its place in the order in which the job's code asked for its steps, from 0.
    pub position: u32,
    /// What it returned: the stored checkpoint.
    pub output: RawJson,
    /// The attempt in which it finished.
    pub attempt: u32,
    /// When its last try began.
    pub started_at: Instant,
    /// When its checkpoint was stored.
    pub completed_at: Instant,
}

/// The finished steps of a job, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepList {
    /// The steps.
    pub steps: Vec<Step>,
}

/// One numbered try of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// From 1. A number comes twice when an attempt was given back and went on later.
    pub attempt: u32,
    /// Which replica ran it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub replica: Option<String>,
    /// When it began.
    pub started_at: Instant,
    /// When it ended; null while it runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub ended_at: Option<Instant>,
    /// The job's status after it; null while it runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub status: Option<Status>,
    /// What went wrong, if something did.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub error: Option<JobError>,
}

/// The attempts of a job, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptList {
    /// The attempts.
    pub attempts: Vec<Attempt>,
}

/// From where a fork goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkRequest {
    /// The first step to run again. Unless given, all finished steps are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
}
