//! The contract between the engine and whatever keeps its jobs.
//!
//! Every method is one transaction and leaves no trace when it errs. What is acknowledged is
//! synced. Methods that a worker calls carry its lease's epoch, and a superseded epoch gets
//! [`StoreError::LeaseLost`]. Every method names a tenant, except the few that serve all of them:
//! `claim`, `sweep` and `expire`, `expire_payloads` and what deletes blobs, `roll_up_usage`, and those
//! that are about processes instead of jobs: `beat`, `replicas` and `leave`. Stores hold no policy: what
//! follows from an outcome is decided by [`crate::job::Outcome::next`], and what a finished job used by
//! [`crate::job::Tally::meter`], inside the store's transaction.

pub mod accounts;
mod blobs;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod endpoints;
mod error;
#[cfg(feature = "conformance")]
pub mod faulty;
mod limits;
pub(crate) mod outbox;
#[cfg(feature = "postgres")]
pub mod postgres;
mod replicas;
pub mod sqlite;
mod stored_job;
#[cfg(feature = "postgres")]
pub(crate) mod transfer;
mod types;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

pub use blobs::{Blob, BlobRef, BlobRole, Deletion, NewBlob, WrappedKey};
pub use error::StoreError;
pub use limits::{FlowLimit, FlowLimits};
pub use replicas::{Heartbeat, REPLICA_FORGOTTEN_AFTER, ReplicaState};
pub use types::{
    ChangeNotifications, Checkpoint, Claim, ClaimResult, Filter, JobVersion, KindCapacity, Lease,
    LeaseRef, NewJob, Page, PageRequest, QueueCapacity, QueueState, Renewal, Report, SettleResult,
    Settlement, Start, SubmitResult,
};

use crate::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};

/// Keeps jobs. Two implementations and their wrappers pass one conformance suite.
#[async_trait]
pub trait Store: Send + Sync {
    // --- for callers ---

    /// Accepts jobs, each on its own: one that is refused does not touch the others. Under a known
    /// idempotency key the existing job is returned if the fingerprints are equal, and
    /// [`StoreError::KeyReused`] otherwise.
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>>;

    /// A job with its result and history. [`StoreError::Gone`] if it was deleted and is still
    /// remembered.
    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError>;

    /// Jobs that match, newest first.
    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError>;

    /// The job under an idempotency key.
    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError>;

    /// A job's input.
    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError>;

    /// A job's finished steps, in their order.
    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError>;

    /// All that was stored for a job, and what became of it: also of one that is gone, for as long as
    /// that is remembered. Nothing of a job that never was.
    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError>;

    /// How many bytes are stored for the tenant's jobs.
    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Cancels a pending or waiting job; asks the worker of a running one to stop, which makes its
    /// phase `cancelling`. Asking again changes nothing, also once it has stopped.
    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError>;

    /// Puts a failed or cancelled job back in line with its finished steps kept and as many further
    /// attempts as it had at first.
    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError>;

    /// Makes a new pending job `new_id` with the input of `id` and those of its finished steps that
    /// come before `from_step` (all of them if none is named). [`StoreError::UnknownStep`] if the
    /// job has no such step.
    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError>;

    /// Deletes a finished job with all that belongs to it. Its id is remembered as gone, its
    /// idempotency key is free again.
    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError>;

    /// The tenant's queues: all that have unfinished jobs or are paused, and their state.
    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError>;

    /// Stops or restarts claims from one of the tenant's queues. Running jobs go on.
    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError>;

    /// How many of the tenant's jobs are pending, in all of its queues or in one, counted no further than
    /// `up_to`.
    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError>;

    /// Where jobs stand: their version and status, in the order asked; none for a job that is not
    /// there. One query for all of them: this is what watching costs.
    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError>;

    /// What the tenant's finished jobs used, each counted once, in the transaction that ended it: by hour,
    /// kind and key, from the hour that `from` is in to the last one that began before `to`. Kept for
    /// [`crate::job::USAGE_KEPT`], longer than the jobs.
    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError>;

    /// What other processes do to the same jobs; none if the store belongs to this process alone.
    fn change_notifications(&self) -> Option<ChangeNotifications>;

    /// Told once when this process has written deliveries since it was last told.
    fn outbox_notify(&self) -> Arc<Notify>;

    // --- for workers ---

    /// Claims up to `want.limit` due jobs, rotating over tenants, each for `want.lease`. Charges
    /// each an attempt, unless its last one was given back, and raises its epoch. Takes no more than
    /// `want.limits` allow, and passes over what they hold back.
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError>;

    /// Extends leases to `duration` from now.
    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: std::time::Duration,
    ) -> Result<Vec<Renewal>, StoreError>;

    /// Records phases, each a transition, and the latest progress. Once a job was asked to stop its
    /// phase is `cancelling` to the end.
    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>>;

    /// Stores a step's output. The same again is fine; another output under a stored name is
    /// [`StoreError::StepConflict`].
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError>;

    /// Notes that a job's payload is about to be written in clear to this folder.
    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError>;

    /// Ends attempts. Saying it again, because the answer was lost, is fine.
    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>>;

    // --- for the house, over all tenants ---

    /// Ends the attempts of up to `limit` jobs whose leases ran out. Returns them as they stand
    /// now.
    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError>;

    /// Deletes up to `limit` finished jobs whose retention has ended, and forgets ids that have
    /// been gone for long. Returns how many jobs were deleted.
    async fn prune(&self, limit: usize) -> Result<usize, StoreError>;

    /// Fails up to `limit` jobs whose payloads were stored `kept` ago and that nobody has claimed since.
    async fn expire_payloads(
        &self,
        kept: std::time::Duration,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError>;

    /// Up to `limit` blobs that nobody needs any more and whose deletion is due.
    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError>;

    /// Folders of this host that are not known to be deleted.
    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError>;

    /// Records attempts of `replica` to delete things. What could not be deleted is due again later,
    /// each time after a longer while.
    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError>;

    /// Folds up to `limit` notes of what jobs used into the sums by hour, where a store keeps such notes,
    /// and forgets usage that is kept no longer. Every replica may do so at once. Returns how many notes
    /// were folded.
    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError>;

    /// Those of these blobs that belong to nobody: no job has stored them, and none that still goes on
    /// may be about to.
    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError>;

    // --- for replicas, over all tenants ---

    /// Says that a replica lives, and forgets those that have been silent for
    /// [`REPLICA_FORGOTTEN_AFTER`]. [`StoreError::NameTaken`] if another run of that name is alive;
    /// one that is silent is replaced.
    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError>;

    /// All replicas that were heard of lately, by name.
    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError>;

    /// A replica that stops in good order is forgotten at once. One that is not known is fine.
    async fn deregister(&self, replica: &str) -> Result<(), StoreError>;

    /// The time that leases and retention go by.
    fn now(&self) -> Timestamp;
}
