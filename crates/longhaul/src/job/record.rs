//! Jobs, their history, steps and attempts, as stores return them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{JobError, JobId, Json, Name, Status, TenantId, Timestamp};

/// A job, without its input, result and history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's id.
    pub id: JobId,
    /// The tenant that owns the job.
    pub tenant: TenantId,
    /// The kind that runs the job.
    pub kind: Name,
    /// The queue that the job belongs to.
    pub queue: Name,
    /// The current status.
    pub status: Status,
    /// The handler's label for what it is doing; `cancelling` once cancellation was requested.
    pub phase: Option<String>,
    /// Higher runs first; each point equals one minute of waiting.
    pub priority: i32,
    /// Number of attempts so far.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// The handler's last progress report.
    pub progress: Option<Progress>,
    /// Labels that the submitter set.
    pub labels: BTreeMap<String, String>,
    /// Version, which rises with each change.
    pub version: u64,
    /// The idempotency key, if the submission had one.
    pub idempotency_key: Option<String>,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Time at which the next attempt is or was due.
    pub run_at: Timestamp,
    /// Start of the first attempt.
    pub started_at: Option<Timestamp>,
    /// Time at which the job ended.
    pub completed_at: Option<Timestamp>,
    /// Time at which the job will be deleted.
    pub expires_at: Option<Timestamp>,
    /// The last error. Kept while the job is retried, absent once it completes.
    pub error: Option<JobError>,
    /// Time at which cancellation was requested.
    pub cancel_requested_at: Option<Timestamp>,
    /// Maximum duration of an attempt.
    pub timeout: Option<Duration>,
    /// Version of the code that first claimed the job.
    pub code_version: Option<String>,
    /// The job that this one was forked from.
    pub forked_from: Option<JobId>,
    /// The job that created this one.
    pub parent_id: Option<JobId>,
    /// True if the job was submitted with a payload.
    pub has_payload: bool,
    /// Artifacts; empty until the job completes.
    pub artifacts: Vec<Artifact>,
}

/// Bytes that a job produced, in addition to its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Name, unique within the job.
    pub name: String,
    /// Media type.
    pub content_type: String,
    /// Size in bytes.
    pub size: u64,
}

/// A job with its result and the history of its transitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The job's current state.
    pub job: Job,
    /// The result. Present if and only if the job completed.
    pub result: Option<Json>,
    /// Transitions, oldest first.
    pub history: Vec<Event>,
}

/// One recorded transition of a job, numbered by the job's version. Keys are short, because the
/// history is stored on the job's row, which every transition rewrites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The job's version after the transition.
    #[serde(rename = "v")]
    pub version: u64,
    /// Time of the transition.
    #[serde(rename = "t", with = "millis")]
    pub at: Timestamp,
    /// The status after it.
    #[serde(rename = "s")]
    pub status: Status,
    /// Attempts so far.
    #[serde(rename = "a")]
    pub attempt: u32,
    /// The phase after it.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The replica that holds or held the lease.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
    /// Time at which the job is due, if it returned to its queue.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub run_at: Option<Timestamp>,
    /// The error, if the attempt failed.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
}

/// One attempt, derived from the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Number, from 1. A number occurs twice if the attempt was released and continued later.
    pub attempt: u32,
    /// The replica that ran it.
    pub replica: Option<String>,
    /// Time of the claim.
    pub started_at: Timestamp,
    /// Time of its end; `None` while it runs.
    pub ended_at: Option<Timestamp>,
    /// The job's status after it; `None` while it runs.
    pub status: Option<Status>,
    /// The error, if it failed.
    pub error: Option<JobError>,
}

/// A progress report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Total number of units, if known.
    pub total: Option<u64>,
    /// Message for people.
    pub message: Option<String>,
}

/// A finished step of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name, unique within the job.
    pub name: String,
    /// Position in the order in which the handler started its steps, from 0.
    pub position: u32,
    /// The step's output.
    pub output: Json,
    /// True if no other step of the job ran at the same time.
    pub alone: bool,
    /// The attempt that finished it.
    pub attempt: u32,
    /// Start of the step's last try.
    pub started_at: Timestamp,
    /// Time at which the checkpoint was stored.
    pub completed_at: Timestamp,
}

/// Retention of finished jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// After completion. Defaults to 1 day.
    pub completed: Duration,
    /// After failure or cancellation. Defaults to 7 days.
    pub failed: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self { completed: day, failed: day * 7 }
    }
}

impl Retention {
    /// Returns the retention for a terminal status; `None` for others.
    pub fn of(&self, status: Status) -> Option<Duration> {
        match status {
            Status::Completed => Some(self.completed),
            Status::Failed | Status::Cancelled => Some(self.failed),
            Status::Pending | Status::Running | Status::Waiting => None,
        }
    }
}

impl Job {
    /// Returns the job as it was right after `event`, as far as the history shows.
    pub(crate) fn at(&self, event: &Event) -> Self {
        let mut job = self.clone();
        job.version = event.version;
        job.status = event.status;
        job.attempt = event.attempt;
        job.phase.clone_from(&event.phase);
        job.error.clone_from(&event.error);
        job.run_at = event.run_at.unwrap_or(job.run_at);
        // Progress belongs to the current run, not to an older transition.
        job.progress = None;
        if !event.status.is_terminal() {
            job.completed_at = None;
            job.expires_at = None;
        }
        if job.started_at.is_some_and(|started| started > event.at) {
            job.started_at = None;
        }
        job
    }
}

impl Record {
    /// Returns the job's state at each transition after `version`, oldest first, and its current
    /// state if it has changed since its last transition (progress). A watcher yields exactly
    /// these.
    pub fn since(&self, version: u64) -> Vec<Self> {
        let mut owed: Vec<Self> = self
            .history
            .iter()
            .filter(|event| event.version > version)
            .map(|event| self.at(event))
            .collect();
        let seen = owed.last().map_or(version, |record| record.job.version);
        if self.job.version > seen {
            owed.push(self.clone());
        } else if let Some(last) = owed.last_mut() {
            last.clone_from(self);
        }
        owed
    }

    fn at(&self, event: &Event) -> Self {
        Self { job: self.job.at(event), result: None, history: Vec::new() }
    }

    /// Returns the attempts, oldest first.
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        let mut running = false;
        for event in &self.history {
            let runs = event.status == Status::Running;
            if runs && !running {
                attempts.push(Attempt {
                    attempt: event.attempt,
                    replica: event.replica.clone(),
                    started_at: event.at,
                    ended_at: None,
                    status: None,
                    error: None,
                });
            } else if !runs
                && running
                && let Some(open) = attempts.last_mut()
            {
                open.ended_at = Some(event.at);
                open.status = Some(event.status);
                open.error.clone_from(&event.error);
            }
            running = runs;
        }
        attempts
    }
}

/// Times as milliseconds since 1970.
mod millis {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Timestamp;

    pub(super) fn serialize<S: Serializer>(
        at: &(impl Copy + Into<Option<Timestamp>>),
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (*at).into().map(Timestamp::as_millis).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: From<Timestamp>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Ok(Timestamp::from_millis(i64::deserialize(deserializer)?).into())
    }
}
