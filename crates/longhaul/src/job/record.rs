//! A job as stores return it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{JobError, JobId, Json, Name, Status, TenantId, Timestamp};

/// A job, without its input, result and history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Which handler runs it.
    pub kind: Name,
    /// The lane it waits in.
    pub queue: Name,
    /// Where it stands.
    pub status: Status,
    /// The handler's own word for what it is doing; `cancelling` once it was asked to stop.
    pub phase: Option<String>,
    /// Higher goes first; each point is worth a minute of waiting.
    pub priority: i32,
    /// Attempts so far.
    pub attempt: u32,
    /// Attempts allowed.
    pub max_attempts: u32,
    /// How far the handler says it is.
    pub progress: Option<Progress>,
    /// The submitter's own words on it.
    pub labels: BTreeMap<String, String>,
    /// Rises with each change.
    pub version: u64,
    /// The key it was submitted under.
    pub idempotency_key: Option<String>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it is or was due.
    pub run_at: Timestamp,
    /// When its first attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// When it will be deleted.
    pub expires_at: Option<Timestamp>,
    /// The last error; kept while retrying, absent once completed.
    pub error: Option<JobError>,
    /// When somebody asked it to stop.
    pub cancel_requested_at: Option<Timestamp>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Version of the code that first claimed it.
    pub code_version: Option<String>,
    /// The job that it was forked from.
    pub forked_from: Option<JobId>,
    /// The job that spawned it.
    pub parent_id: Option<JobId>,
    /// Whether it was submitted with a payload.
    pub has_payload: bool,
    /// What it produced besides its result; nothing until it completes.
    pub artifacts: Vec<Artifact>,
}

/// Bytes that a job produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its name, unique in the job.
    pub name: String,
    /// What it is.
    pub content_type: String,
    /// How many bytes.
    pub size: u64,
}

/// A job with its result and the history of its transitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The job as it stands now.
    pub job: Job,
    /// There if and only if the job completed.
    pub result: Option<Json>,
    /// Its transitions, oldest first.
    pub history: Vec<Event>,
}

/// One recorded transition of a job, numbered by the job's version. Short keys: it is stored on
/// the job's row, which every transition rewrites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The job's version after it.
    #[serde(rename = "v")]
    pub version: u64,
    /// When.
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
    /// When the job is due, if it went back in line.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none", with = "opt_millis")]
    pub run_at: Option<Timestamp>,
    /// What went wrong, if something did.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
}

/// One numbered try, read off the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// From 1. A number comes twice when an attempt was given back and went on later.
    pub attempt: u32,
    /// Who ran it.
    pub replica: Option<String>,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When it ended; absent while it runs.
    pub ended_at: Option<Timestamp>,
    /// The job's status after it; absent while it runs.
    pub status: Option<Status>,
    /// What went wrong, if something did.
    pub error: Option<JobError>,
}

/// How far a handler says it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all, if known.
    pub total: Option<u64>,
    /// In words.
    pub message: Option<String>,
}

/// A finished step of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name, unique in its job.
    pub name: String,
    /// Its place in the order in which the job's code asked for its steps, from 0.
    pub position: u32,
    /// What it returned.
    pub output: Json,
    /// Whether no other step of the job ran at the same time.
    pub alone: bool,
    /// The attempt in which it finished.
    pub attempt: u32,
    /// When its last try began.
    pub started_at: Timestamp,
    /// When its checkpoint was stored.
    pub completed_at: Timestamp,
}

/// How long a finished job is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// After completing.
    pub completed: Duration,
    /// After failing or being cancelled.
    pub failed: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self { completed: day, failed: day * 7 }
    }
}

impl Retention {
    /// How long a job with this terminal status is kept; `None` while it has not ended.
    pub fn of(&self, status: Status) -> Option<Duration> {
        match status {
            Status::Completed => Some(self.completed),
            Status::Failed | Status::Cancelled => Some(self.failed),
            Status::Pending | Status::Running | Status::Waiting => None,
        }
    }
}

impl Job {
    /// The job as it was right after `event`, as far as the history tells.
    pub(crate) fn at(&self, event: &Event) -> Self {
        let mut job = self.clone();
        job.version = event.version;
        job.status = event.status;
        job.attempt = event.attempt;
        job.phase.clone_from(&event.phase);
        job.error.clone_from(&event.error);
        job.run_at = event.run_at.unwrap_or(job.run_at);
        // Progress is the latest word of a run, not part of an older transition.
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
    /// The job as it was at each transition after `version`, oldest first, and as it is now if it
    /// changed since its last transition (progress). This is what a watcher is owed.
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

    /// The job as it was right after `event`.
    fn at(&self, event: &Event) -> Self {
        Self { job: self.job.at(event), result: None, history: Vec::new() }
    }

    /// Its attempts, oldest first.
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

mod millis {
    use super::{Deserialize, Timestamp};
    use serde::{Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    pub(super) fn serialize<S: Serializer>(
        at: &Timestamp,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.as_millis())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp::from_millis)
    }
}

mod opt_millis {
    use super::{Deserialize, Timestamp};
    use serde::{Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde asks for")]
    pub(super) fn serialize<S: Serializer>(
        at: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        at.map(Timestamp::as_millis).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<i64>::deserialize(deserializer)?.map(Timestamp::from_millis))
    }
}
