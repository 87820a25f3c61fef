//! The job as callers see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Instant, RawJson, Status};

/// A job. Every key is always present; what is not known or not there is null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Its id, a ULID.
    pub job_id: String,
    /// Which handler runs it.
    pub kind: String,
    /// The lane it waits in.
    pub queue: String,
    /// Where it stands.
    pub status: Status,
    /// The handler's own word for what it is doing; `cancelling` once it was asked to stop.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub phase: Option<String>,
    /// Higher goes first.
    pub priority: i32,
    /// Attempts so far.
    pub attempt: u32,
    /// Attempts allowed.
    pub max_attempts: u32,
    /// How far the handler says it is.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub progress: Option<Progress>,
    /// The submitter's own words on it.
    pub labels: BTreeMap<String, String>,
    /// Rises with each change; the job's `ETag` and the id of its events.
    pub version: u64,
    /// The key it was submitted under.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub idempotency_key: Option<String>,
    /// When it was accepted.
    pub created_at: Instant,
    /// When it is or was due.
    pub run_at: Instant,
    /// When its first attempt began.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub started_at: Option<Instant>,
    /// When it ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub completed_at: Option<Instant>,
    /// When it will be deleted.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Instant>,
    /// What came out; null unless the job completed.
    // Any JSON is null too: "either a value or null" would match a null twice.
    #[cfg_attr(feature = "openapi", schema(required, value_type = RawJson))]
    pub result: Option<RawJson>,
    /// The last error; kept while retrying, null once completed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub error: Option<JobError>,
    /// Bytes that the job produced.
    pub artifacts: Vec<Artifact>,
    /// Where to read it.
    pub status_url: String,
    /// Where to watch it.
    pub events_url: String,
    /// Seconds after which asking again is worthwhile; null once the job has ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub retry_after: Option<u32>,
    /// The job that it was forked from.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub forked_from: Option<String>,
    /// The job that spawned it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub parent_id: Option<String>,
}

/// A job in a list: everything but its result.
///
/// Spelt out rather than flattened into [`Job`], so that both write their keys in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// Its id, a ULID.
    pub job_id: String,
    /// Which handler runs it.
    pub kind: String,
    /// The lane it waits in.
    pub queue: String,
    /// Where it stands.
    pub status: Status,
    /// The handler's own word for what it is doing; `cancelling` once it was asked to stop.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub phase: Option<String>,
    /// Higher goes first.
    pub priority: i32,
    /// Attempts so far.
    pub attempt: u32,
    /// Attempts allowed.
    pub max_attempts: u32,
    /// How far the handler says it is.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub progress: Option<Progress>,
    /// The submitter's own words on it.
    pub labels: BTreeMap<String, String>,
    /// Rises with each change.
    pub version: u64,
    /// The key it was submitted under.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub idempotency_key: Option<String>,
    /// When it was accepted.
    pub created_at: Instant,
    /// When it is or was due.
    pub run_at: Instant,
    /// When its first attempt began.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub started_at: Option<Instant>,
    /// When it ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub completed_at: Option<Instant>,
    /// When it will be deleted.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Instant>,
    /// The last error; kept while retrying, null once completed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub error: Option<JobError>,
    /// Bytes that the job produced.
    pub artifacts: Vec<Artifact>,
    /// Where to read it.
    pub status_url: String,
    /// Where to watch it.
    pub events_url: String,
    /// Seconds after which asking again is worthwhile; null once the job has ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub retry_after: Option<u32>,
    /// The job that it was forked from.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub forked_from: Option<String>,
    /// The job that spawned it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub parent_id: Option<String>,
}

impl From<Job> for JobSummary {
    fn from(job: Job) -> Self {
        Self {
            job_id: job.job_id,
            kind: job.kind,
            queue: job.queue,
            status: job.status,
            phase: job.phase,
            priority: job.priority,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            progress: job.progress,
            labels: job.labels,
            version: job.version,
            idempotency_key: job.idempotency_key,
            created_at: job.created_at,
            run_at: job.run_at,
            started_at: job.started_at,
            completed_at: job.completed_at,
            expires_at: job.expires_at,
            error: job.error,
            artifacts: job.artifacts,
            status_url: job.status_url,
            events_url: job.events_url,
            retry_after: job.retry_after,
            forked_from: job.forked_from,
            parent_id: job.parent_id,
        }
    }
}

/// Part of a list of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobList {
    /// The jobs of this page.
    pub jobs: Vec<JobSummary>,
    /// Pass it as `cursor` for the next page; null on the last one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// How far a handler says it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all, if known.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub total: Option<u64>,
    /// In words.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub message: Option<String>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobError {
    /// A stable word for programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether another attempt may succeed.
    pub retryable: bool,
    /// The attempt that it ended, from 1.
    pub attempt: u32,
}

/// Bytes that a job produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Artifact {
    /// Its name, unique in its job.
    pub name: String,
    /// Its media type.
    pub content_type: String,
    /// Bytes.
    pub size: u64,
    /// Where to read it.
    pub url: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the contract, with its dots filled in.
    const CONTRACT: &str = r#"{"jobId":"01KA","kind":"graph","queue":"default","status":"running","phase":"parsing","priority":0,"attempt":1,"maxAttempts":3,"progress":{"done":120,"total":400,"message":"src/lib.rs"},"labels":{},"version":4,"idempotencyKey":"k","createdAt":"c","runAt":"r","startedAt":"s","completedAt":null,"expiresAt":null,"result":null,"error":null,"artifacts":[{"name":"n","contentType":"t","size":1,"url":"u"}],"statusUrl":"/v1/jobs/01KA","eventsUrl":"/v1/jobs/01KA/events","retryAfter":3,"forkedFrom":null,"parentId":null}"#;

    #[test]
    fn job_has_the_contracts_keys_in_the_contracts_order() {
        let job: Job = serde_json::from_str(CONTRACT).unwrap();
        assert_eq!(serde_json::to_string(&job).unwrap(), CONTRACT);
    }

    #[test]
    fn a_listed_job_lacks_the_result_and_nothing_else() {
        let job: Job = serde_json::from_str(CONTRACT).unwrap();
        let listed = serde_json::to_string(&JobSummary::from(job)).unwrap();
        assert_eq!(listed, CONTRACT.replace(r#""result":null,"#, ""));
    }

    #[test]
    fn a_field_of_a_newer_server_is_passed_over() {
        let newer = CONTRACT.replacen('{', r#"{"costs":1,"#, 1);
        assert!(serde_json::from_str::<Job>(&newer).is_ok());
    }
}
