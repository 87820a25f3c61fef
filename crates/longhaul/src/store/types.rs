//! What goes into a store and what comes out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::blobs::NewBlob;
use super::limits::FlowLimits;
use crate::job::{
    Fingerprint, Job, JobId, Json, Name, Outcome, Progress, Record, Retention, Status, Step,
    TenantId, Timestamp, Tokens, Webhook,
};

/// A job that was checked and may be accepted.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, if the key is new.
    pub id: JobId,
    /// Which handler runs it.
    pub kind: Name,
    /// The lane it waits in.
    pub queue: Name,
    /// Higher goes first.
    pub priority: i32,
    /// What goes in.
    pub input: Json,
    /// What makes it the same submission as another one under its key.
    pub fingerprint: Fingerprint,
    /// The key it is submitted under.
    pub idempotency_key: Option<String>,
    /// When it is due.
    pub start: Start,
    /// Attempts allowed.
    pub max_attempts: u32,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// The submitter's own words on it.
    pub labels: BTreeMap<String, String>,
    /// How long it is kept once finished.
    pub retention: Retention,
    /// The job that spawns it.
    pub parent_id: Option<JobId>,
    /// What was uploaded with it.
    pub payload: Option<NewBlob>,
    /// The id of the API key that submits it; at most 64 characters.
    pub key_id: Option<String>,
    /// Who wants to be told of it, besides the tenant's endpoints.
    pub webhook: Option<Box<Webhook>>,
}

/// When a new job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As soon as it is accepted.
    Now,
    /// This long after it is accepted, by the store's time.
    In(Duration),
    /// At this time, or as soon as it is accepted if that has passed.
    At(Timestamp),
}

impl Start {
    /// The due time of a job that is accepted at `now`. Never before that: a due time long ago would
    /// be a place in front of everybody.
    pub fn run_at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::In(delay) => now.after(delay),
            Self::At(at) => at.max(now),
        }
    }
}

/// The answer to a submission.
#[derive(Debug, Clone)]
pub struct SubmitResult {
    /// The new job, or the one that already had the key, as it stands now.
    pub record: Record,
    /// Whether this submission made it.
    pub created: bool,
}

/// Which jobs to list. Empty matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only with one of these statuses, if any are named.
    pub statuses: Vec<Status>,
    /// Only of this kind.
    pub kind: Option<Name>,
    /// Only in this queue.
    pub queue: Option<Name>,
    /// Only with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only accepted at or after this.
    pub created_after: Option<Timestamp>,
    /// Only those that belong to this job.
    pub parent: Option<JobId>,
}

/// Which part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// At most so many.
    pub limit: usize,
    /// Only jobs older than this one: the last of the page before.
    pub before: Option<JobId>,
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Newest first.
    pub jobs: Vec<Job>,
    /// There is more: ask for what comes before this one.
    pub next: Option<JobId>,
}

/// A queue of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
    /// Its name.
    pub name: Name,
    /// Whether claims from it are stopped.
    pub paused: bool,
    /// Jobs in line, due or not.
    pub pending: u64,
    /// Jobs that a replica holds.
    pub running: u64,
    /// When the job that has been due longest was due.
    pub oldest_due_at: Option<Timestamp>,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobVersion {
    /// Its version.
    pub version: u64,
    /// Its status.
    pub status: Status,
}

/// Notifications of changes that other replicas made. Each counter rises when something may have happened, and a
/// hint may come too often, too late or not at all: what happened is read from the store.
#[derive(Debug, Clone)]
pub struct ChangeNotifications {
    /// There may be something to claim.
    pub ready: watch::Receiver<u64>,
    /// Jobs may have changed.
    pub jobs: watch::Receiver<u64>,
}

/// What a replica has room for.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Who asks.
    pub replica: String,
    /// At most so many in all.
    pub limit: usize,
    /// How long the leases last.
    pub lease: Duration,
    /// Which kinds, and how many of each at most.
    pub kinds: Vec<KindCapacity>,
    /// What this claim is held to, over all replicas.
    pub limits: Arc<FlowLimits>,
    /// If given, the claim is for deliveries: it looks into outboxes only, and there the queues take turns,
    /// not the tenants, because each receiver has one.
    pub queue_capacity: Option<QueueCapacity>,
}

/// How many more jobs of each queue a claim may bring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueCapacity {
    /// Of a queue that nothing is known of.
    pub each: usize,
    /// Of the others.
    pub known: HashMap<Name, usize>,
}

impl QueueCapacity {
    /// How many more of this one.
    pub fn of(&self, queue: &Name) -> usize {
        self.known.get(queue).copied().unwrap_or(self.each)
    }

    /// The most of any.
    pub(crate) fn most(&self) -> usize {
        self.known.values().copied().fold(self.each, usize::max)
    }
}

/// Room for jobs of one kind.
#[derive(Debug, Clone)]
pub struct KindCapacity {
    /// The kind.
    pub kind: Name,
    /// At most so many.
    pub capacity: usize,
    /// Remembered by jobs that are claimed for the first time.
    pub code_version: Option<String>,
}

/// The answer to a claim.
#[derive(Debug, Clone, Default)]
pub struct ClaimResult {
    /// What the replica now holds, in the order in which it was picked.
    pub leases: Vec<Lease>,
    /// When the next job that is not due yet will be, or the next that a rate held back may start.
    pub next_due_at: Option<Timestamp>,
}

/// A timed right to one attempt of one job.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The job as claimed.
    pub job: Job,
    /// Its fencing number.
    pub epoch: u64,
    /// When the right ends unless renewed.
    pub expires_at: Timestamp,
    /// What goes in.
    pub input: Json,
    /// What earlier attempts finished, in order.
    pub steps: Vec<Step>,
}

impl Lease {
    /// What a worker's writes carry.
    pub fn to_ref(&self) -> LeaseRef {
        LeaseRef { tenant: self.job.tenant.clone(), job: self.job.id, epoch: self.epoch }
    }
}

/// Names a lease: what every write of a worker carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseRef {
    /// Whose job.
    pub tenant: TenantId,
    /// The job.
    pub job: JobId,
    /// The fencing number.
    pub epoch: u64,
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease goes on.
    Kept {
        /// Whether somebody asked the job to stop.
        cancel_requested: bool,
    },
    /// The lease is lost: stop working.
    Lost,
}

/// What a running job tells of itself.
#[derive(Debug, Clone)]
pub struct Report {
    /// Who tells.
    pub lease: LeaseRef,
    /// The phases that it went through since the last report, in order.
    pub phases: Vec<String>,
    /// How far it is, if that changed.
    pub progress: Option<Progress>,
}

/// A finished step.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Who finished it.
    pub lease: LeaseRef,
    /// Its name.
    pub name: String,
    /// Its place in the order in which the code asked.
    pub position: u32,
    /// What it returned.
    pub output: Json,
    /// Whether no other step of the job ran at the same time.
    pub alone: bool,
    /// When its last try began.
    pub started_at: Timestamp,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Who ends it.
    pub lease: LeaseRef,
    /// How.
    pub outcome: Outcome,
    /// Phases that were not reported yet, in order.
    pub phases: Vec<String>,
    /// The last word on progress, if it was not reported yet.
    pub progress: Option<Progress>,
    /// What it produced: the job's artifacts, if this completes it.
    pub artifacts: Vec<NewBlob>,
    /// What it used of a language model: metered if this ends the job.
    pub tokens: Tokens,
}

/// The answer to a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettleResult {
    /// Where the job stands now.
    pub status: Status,
    /// Its version.
    pub version: u64,
    /// When it is due, if it went back in line.
    pub run_at: Timestamp,
}
