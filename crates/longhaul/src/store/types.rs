//! Parameters and results of store operations.

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

/// A validated submission.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Tenant that submits it.
    pub tenant: TenantId,
    /// Id of the job, unless the idempotency key is already in use.
    pub id: JobId,
    /// Kind, which selects the handler.
    pub kind: Name,
    /// Queue.
    pub queue: Name,
    /// Priority. One point is worth one minute of waiting; higher runs first.
    pub priority: i32,
    /// Input of the handler.
    pub input: Json,
    /// Fingerprint, which identifies equal submissions under one idempotency key.
    pub fingerprint: Fingerprint,
    /// Idempotency key.
    pub idempotency_key: Option<String>,
    /// Start time.
    pub start: Start,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Timeout of one attempt.
    pub timeout: Option<Duration>,
    /// Labels for filtering.
    pub labels: BTreeMap<String, String>,
    /// Retention after the job finishes.
    pub retention: Retention,
    /// Parent job.
    pub parent_id: Option<JobId>,
    /// Uploaded payload.
    pub payload: Option<NewBlob>,
    /// Id of the API key that submits it; at most 64 characters.
    pub key_id: Option<String>,
    /// Webhook for this job, in addition to the tenant's endpoints.
    pub webhook: Option<Box<Webhook>>,
}

/// The start time of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Immediately.
    Now,
    /// After a delay, by the store's clock.
    In(Duration),
    /// At this time, or immediately if it has passed.
    At(Timestamp),
}

impl Start {
    /// Returns the due time of a job that is accepted at `now`. Never earlier than `now`, because an old due
    /// time would put the job in front of all others.
    pub fn run_at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::In(delay) => now.after(delay),
            Self::At(at) => at.max(now),
        }
    }
}

/// The result of a submission.
#[derive(Debug, Clone)]
pub struct SubmitResult {
    /// The new job, or the existing job with the same idempotency key.
    pub record: Record,
    /// True if this submission created the job.
    pub created: bool,
}

/// A filter for jobs. The default matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these statuses; empty matches all.
    pub statuses: Vec<Status>,
    /// This kind.
    pub kind: Option<Name>,
    /// This queue.
    pub queue: Option<Name>,
    /// All of these labels.
    pub labels: BTreeMap<String, String>,
    /// Created at or after this time.
    pub created_after: Option<Timestamp>,
    /// Children of this job.
    pub parent: Option<JobId>,
}

/// A request for one page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Maximum number of jobs.
    pub limit: usize,
    /// Cursor: only jobs older than this one. Use [`Page::next`] of the previous page.
    pub before: Option<JobId>,
    /// Maximum number of jobs that are examined, at least 1. It bounds the cost of a page when few jobs match. Defaults to
    /// [`EXAMINED_MAX`](Self::EXAMINED_MAX).
    pub examined_max: usize,
}

impl PageRequest {
    /// Jobs that a page examines by default, in a few milliseconds.
    pub const EXAMINED_MAX: usize = 2_000;

    /// Requests up to `limit` jobs, from a cursor or from the newest job on.
    pub fn new(limit: usize, before: Option<JobId>) -> Self {
        Self { limit, before, examined_max: Self::EXAMINED_MAX }
    }

    /// Returns the maximum number of jobs of the page.
    pub(crate) fn jobs_max(&self) -> usize {
        self.limit.min(self.examined_max.max(1))
    }
}

/// One page of a list.
///
/// It may have fewer jobs than the limit, or none, and still have a next page: the jobs that were examined did not match.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Jobs, newest first.
    pub jobs: Vec<Job>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<JobId>,
}

/// The state of a tenant's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
    /// Queue name.
    pub name: Name,
    /// True if no jobs are claimed from it.
    pub paused: bool,
    /// Number of pending jobs, due or not.
    pub pending: u64,
    /// Number of running jobs.
    pub running: u64,
    /// Due time of the oldest due job.
    pub oldest_due_at: Option<Timestamp>,
}

/// A queue's jobs, summed over all tenants that use its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTotal {
    /// Queue name.
    pub name: Name,
    /// Number of tenants that paused it.
    pub paused: u64,
    /// Number of pending jobs, due or not.
    pub pending: u64,
    /// Number of running jobs.
    pub running: u64,
    /// Due time of the oldest due job.
    pub oldest_due_at: Option<Timestamp>,
}

/// The version and status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobVersion {
    /// Version, which rises with every change.
    pub version: u64,
    /// Current status.
    pub status: Status,
    /// True if a client requested cancellation of the running attempt.
    pub cancel_requested: bool,
}

/// Notifications of changes that other replicas made. Each counter rises when there may be a change. A
/// notification may be late, repeated or lost, so the store remains the source of truth.
#[derive(Debug, Clone)]
pub struct ChangeNotifications {
    /// Rises when jobs may be ready to claim.
    pub ready: watch::Receiver<u64>,
    /// Rises when jobs may have changed.
    pub jobs: watch::Receiver<u64>,
    /// Rises when clients may have requested cancellation of running jobs.
    pub cancellations: watch::Receiver<u64>,
}

/// A request to claim jobs.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Replica that claims.
    pub replica: String,
    /// Maximum number of jobs.
    pub limit: usize,
    /// Lease duration.
    pub lease: Duration,
    /// Kinds to claim, each with its capacity.
    pub kinds: Vec<KindCapacity>,
    /// Limits over all replicas.
    pub limits: Arc<FlowLimits>,
    /// If set, the claim is for deliveries: it reads outboxes only, round-robin over queues instead of tenants,
    /// because each endpoint has a queue.
    pub queue_capacity: Option<QueueCapacity>,
}

impl Claim {
    /// Returns whether a new job may start in the transaction of its submission: it is due at once, has no
    /// payload, there is capacity for its kind, and no limit applies to it.
    pub fn may_start(&self, new: &NewJob) -> bool {
        let has_capacity = |kind: &KindCapacity| kind.kind == new.kind && kind.capacity > 0;
        new.start == Start::Now
            && new.payload.is_none()
            && self.limit > 0
            && self.kinds.iter().any(has_capacity)
            && self.queue_capacity.is_none()
            && !self.limits.apply_to(&new.tenant, &new.kind, &new.queue)
    }
}

/// The number of jobs that a claim may take from each queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueCapacity {
    /// Capacity of queues that are not in `known`.
    pub each: usize,
    /// Capacity by queue.
    pub known: HashMap<Name, usize>,
}

impl QueueCapacity {
    /// Returns the capacity of a queue.
    pub fn of(&self, queue: &Name) -> usize {
        self.known.get(queue).copied().unwrap_or(self.each)
    }

    /// Returns the largest capacity.
    #[cfg(feature = "postgres")]
    pub(crate) fn most(&self) -> usize {
        self.known.values().copied().fold(self.each, usize::max)
    }
}

/// The capacity for jobs of one kind.
#[derive(Debug, Clone)]
pub struct KindCapacity {
    /// Kind.
    pub kind: Name,
    /// Maximum number of jobs.
    pub capacity: usize,
    /// Code version that a job records at its first claim.
    pub code_version: Option<String>,
}

/// The result of a claim.
#[derive(Debug, Clone, Default)]
pub struct ClaimResult {
    /// Leases in the order of selection.
    pub leases: Vec<Lease>,
    /// The time at which a rate limit admits the next job, if one kept due jobs back.
    pub limited_until: Option<Timestamp>,
}

/// A timed right to run one attempt of a job.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Job as claimed.
    pub job: Job,
    /// Fencing number.
    pub epoch: u64,
    /// Expiry, unless renewed.
    pub expires_at: Timestamp,
    /// Input of the handler.
    pub input: Json,
    /// Finished steps of earlier attempts, by position.
    pub steps: Vec<Step>,
}

impl Lease {
    /// Returns the reference that a worker's writes carry.
    pub fn to_ref(&self) -> LeaseRef {
        LeaseRef { tenant: self.job.tenant.clone(), job: self.job.id, epoch: self.epoch }
    }
}

/// A reference to a lease, which every write of a worker carries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseRef {
    /// Tenant of the job.
    pub tenant: TenantId,
    /// Leased job.
    pub job: JobId,
    /// Fencing number.
    pub epoch: u64,
}

/// The result of a lease renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease was extended.
    Kept {
        /// True if a client requested cancellation.
        cancel_requested: bool,
    },
    /// The lease is lost: stop working.
    Lost,
}

/// Phases and progress of a running job.
#[derive(Debug, Clone)]
pub struct Report {
    /// Lease of the running attempt.
    pub lease: LeaseRef,
    /// Phases since the last report, in order.
    pub phases: Vec<String>,
    /// New progress, if it changed.
    pub progress: Option<Progress>,
}

/// A finished step.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Lease of the running attempt.
    pub lease: LeaseRef,
    /// Step name.
    pub name: String,
    /// Position in the order of calls.
    pub position: u32,
    /// Output of the step.
    pub output: Json,
    /// True if no other step of the job ran concurrently.
    pub alone: bool,
    /// Start of its last try.
    pub started_at: Timestamp,
}

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointResult {
    /// True if a client requested cancellation.
    pub cancel_requested: bool,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Lease of the attempt.
    pub lease: LeaseRef,
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// Unreported phases, in order.
    pub phases: Vec<String>,
    /// Unreported progress.
    pub progress: Option<Progress>,
    /// Artifacts, stored if the job completes.
    pub artifacts: Vec<NewBlob>,
    /// Language model tokens, metered if the job finishes.
    pub tokens: Tokens,
}

impl Settlement {
    /// Creates a settlement with this outcome and nothing else.
    pub fn of(lease: LeaseRef, outcome: Outcome) -> Self {
        Self {
            lease,
            outcome,
            phases: Vec::new(),
            progress: None,
            artifacts: Vec::new(),
            tokens: Tokens::default(),
        }
    }
}

/// The result of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettleResult {
    /// New status.
    pub status: Status,
    /// Version, which rises with every change.
    pub version: u64,
    /// Due time, if the job is pending again.
    pub run_at: Timestamp,
}
