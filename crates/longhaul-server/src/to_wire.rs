//! Conversions from the engine's types to the API's wire types.

use std::time::Duration;

use longhaul::job::{self, Record};
use longhaul::store::accounts::{Scope, Subscription};
use longhaul::{Engine, Job, JobError, Status, Timestamp};
use longhaul_client::wire::{self, Instant, RawJson};

use crate::api::http::respond::ceil_seconds;
use crate::encoding;
use crate::problem::{Problem, Result};
pub(crate) fn job(engine: &Engine, record: &Record) -> Result<wire::Job> {
    let result = record.result.as_ref().map(raw).transpose()?;
    Ok(wire::Job { result, ..job_without_result(engine, &record.job) })
}

pub(crate) fn job_summary(engine: &Engine, job: &Job) -> wire::JobSummary {
    job_without_result(engine, job).into()
}

pub(crate) fn job_without_result(engine: &Engine, job: &Job) -> wire::Job {
    let retry_after = (!job.status.is_terminal()).then(|| engine.retry_after(job));
    job_snapshot(job, retry_after)
}

/// Converts a job without its result, with a given estimate for `retryAfter`.
pub(crate) fn job_snapshot(job: &Job, retry_after: Option<Duration>) -> wire::Job {
    let job_id = job.id.to_string();
    let url = format!("/v1/jobs/{job_id}");
    wire::Job {
        job_id,
        kind: job.kind.to_string(),
        queue: job.queue.to_string(),
        status: status(job.status),
        phase: job.phase.clone(),
        priority: job.priority,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        progress: job.progress.clone().map(progress),
        labels: job.labels.clone(),
        version: job.version,
        idempotency_key: job.idempotency_key.clone(),
        created_at: instant(job.created_at),
        run_at: instant(job.run_at),
        started_at: job.started_at.map(instant),
        completed_at: job.completed_at.map(instant),
        expires_at: job.expires_at.map(instant),
        result: None,
        error: job.error.clone().map(error),
        artifacts: job.artifacts.iter().map(|stored| artifact(&url, stored)).collect(),
        events_url: format!("{url}/events"),
        status_url: url,
        retry_after: retry_after.map(ceil_seconds),
        forked_from: job.forked_from.map(|id| id.to_string()),
        parent_id: job.parent_id.map(|id| id.to_string()),
    }
}

fn artifact(job_url: &str, artifact: &job::Artifact) -> wire::Artifact {
    wire::Artifact {
        url: format!("{job_url}/artifacts/{}", encoding::path_segment(&artifact.name)),
        name: artifact.name.clone(),
        content_type: artifact.content_type.clone(),
        size: artifact.size,
    }
}

pub(crate) fn raw(json: &job::Json) -> Result<RawJson> {
    RawJson::from_text(json.as_str()).map_err(Problem::internal)
}

pub(crate) fn instant(at: Timestamp) -> Instant {
    Instant(at.to_string())
}

pub(crate) fn error(error: JobError) -> wire::JobError {
    let JobError { code, message, retryable, attempt, .. } = error;
    wire::JobError { code, message, retryable, attempt }
}

/// Defines the conversions in both directions between an enum of the engine and its twin on the wire.
macro_rules! twins {
    ($($enum:ident: $to_wire:ident, $from_wire:ident { $($variant:ident),* })*) => {$(
        pub(crate) fn $to_wire(value: $enum) -> wire::$enum {
            match value { $($enum::$variant => wire::$enum::$variant,)* }
        }

        pub(crate) fn $from_wire(value: wire::$enum) -> $enum {
            match value { $(wire::$enum::$variant => $enum::$variant,)* }
        }
    )*};
}

twins! {
    Status: status, status_from { Pending, Running, Waiting, Completed, Failed, Cancelled }
    Scope: scope, scope_from { Submit, Read, Work, Admin }
    Subscription: subscription, subscription_from { Active, PastDue, Suspended }
}

fn progress(progress: job::Progress) -> wire::Progress {
    let job::Progress { done, total, message } = progress;
    wire::Progress { done, total, message }
}
