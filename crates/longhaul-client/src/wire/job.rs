//! Jobs as clients see them.

use std::collections::BTreeMap;

use super::{Instant, RawJson, Status};

/// Defines [`Job`] and [`JobSummary`] with one declaration of their common fields, so that both
/// write their keys in the same order. A flattened struct would move `result` to the end.
macro_rules! job_structs {
    (
        $($(#[$head_attribute:meta])* $head:ident: $head_type:ty,)*
        @job_only $(#[$result_attribute:meta])* $result:ident: $result_type:ty,
        @both $($(#[$tail_attribute:meta])* $tail:ident: $tail_type:ty,)*
    ) => {
        responses! {
            /// A job. Every key is always present; an unknown or absent value is null.
            pub struct Job {
                $($(#[$head_attribute])* pub $head: $head_type,)*
                $(#[$result_attribute])* pub $result: $result_type,
                $($(#[$tail_attribute])* pub $tail: $tail_type,)*
            }

            /// A job in a list: everything except its result.
            pub struct JobSummary {
                $($(#[$head_attribute])* pub $head: $head_type,)*
                $($(#[$tail_attribute])* pub $tail: $tail_type,)*
            }
        }

        impl From<Job> for JobSummary {
            fn from(job: Job) -> Self {
                Self { $($head: job.$head,)* $($tail: job.$tail,)* }
            }
        }
    };
}

job_structs! {
    /// A ULID.
    job_id: String,
    /// Kind of the job: the handler that runs it.
    kind: String,
    /// Queue of the job.
    queue: String,
    /// Current status.
    status: Status,
    /// The handler's label for its current activity, for example `parsing`; `cancelling` after a
    /// cancel request.
    phase: Option<String>,
    /// Jobs with a higher priority start first.
    priority: i32,
    /// Attempts so far.
    attempt: u32,
    /// Attempts allowed.
    max_attempts: u32,
    /// Progress that the handler reports.
    progress: Option<Progress>,
    /// Labels from the submission.
    labels: BTreeMap<String, String>,
    /// Increases with every change; also the job's `ETag` and the id of its events.
    version: u64,
    /// Idempotency key of the submission.
    idempotency_key: Option<String>,
    /// Time of the submission.
    created_at: Instant,
    /// Time from which the job may start.
    run_at: Instant,
    /// Start of the first attempt.
    started_at: Option<Instant>,
    /// Time at which the job finished.
    completed_at: Option<Instant>,
    /// Time at which the job will be deleted.
    expires_at: Option<Instant>,
    @job_only
    /// Result of the job; null unless it completed.
    // Any JSON includes null: "either a value or null" would match a null twice.
    #[cfg_attr(feature = "openapi", schema(value_type = RawJson))]
    result: Option<RawJson>,
    @both
    /// Last error; kept between retries, null once completed.
    error: Option<JobError>,
    /// Files that the job produced.
    artifacts: Vec<Artifact>,
    /// Path of the job.
    status_url: String,
    /// Path of the job's event stream.
    events_url: String,
    /// Suggested polling delay in seconds; null once the job has finished.
    retry_after: Option<u32>,
    /// Job that this one was forked from.
    forked_from: Option<String>,
    /// Job that created this one.
    parent_id: Option<String>,
}

responses! {
    /// A page of jobs, newest first.
    pub struct JobList {
        /// Jobs of this page; may be fewer than `limit`, or none, although there is a next page.
        pub jobs: Vec<JobSummary>,
        /// `cursor` of the next page; null on the last page only.
        pub next_cursor: Option<String>,
    }

    /// Progress that a handler reports.
    pub struct Progress {
        /// Completed units.
        pub done: u64,
        /// Total units, if known.
        pub total: Option<u64>,
        /// Description of the current unit.
        pub message: Option<String>,
    }

    /// Error of a failed attempt.
    pub struct JobError {
        /// Stable identifier, for example `worker-lost`.
        pub code: String,
        /// Description for people.
        pub message: String,
        /// True if another attempt may succeed.
        pub retryable: bool,
        /// Number of the failed attempt, from 1.
        pub attempt: u32,
    }

    /// A file that a job produced.
    pub struct Artifact {
        /// Unique in its job.
        pub name: String,
        /// Media type.
        pub content_type: String,
        /// Size in bytes.
        pub size: u64,
        /// Path to download it from.
        pub url: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented example.
    const CONTRACT: &str = r#"{"jobId":"01KA","kind":"graph","queue":"default","status":"running","phase":"parsing","priority":0,"attempt":1,"maxAttempts":3,"progress":{"done":120,"total":400,"message":"src/lib.rs"},"labels":{},"version":4,"idempotencyKey":"k","createdAt":"c","runAt":"r","startedAt":"s","completedAt":null,"expiresAt":null,"result":null,"error":null,"artifacts":[{"name":"n","contentType":"t","size":1,"url":"u"}],"statusUrl":"/v1/jobs/01KA","eventsUrl":"/v1/jobs/01KA/events","retryAfter":3,"forkedFrom":null,"parentId":null}"#;

    #[test]
    fn job_serializes_its_keys_in_the_documented_order() {
        let job: Job = serde_json::from_str(CONTRACT).unwrap();
        assert_eq!(serde_json::to_string(&job).unwrap(), CONTRACT);
    }

    #[test]
    fn job_summary_lacks_only_the_result() {
        let job: Job = serde_json::from_str(CONTRACT).unwrap();
        let listed = serde_json::to_string(&JobSummary::from(job)).unwrap();
        assert_eq!(listed, CONTRACT.replace(r#""result":null,"#, ""));
    }

    #[test]
    fn job_ignores_unknown_fields() {
        let newer = CONTRACT.replacen('{', r#"{"costs":1,"#, 1);
        assert!(serde_json::from_str::<Job>(&newer).is_ok());
    }
}
