//! The storage contract between the engine and a database.
//!
//! The contract is split by caller: [`JobStore`] for clients of the engine, [`WorkerStore`] for workers,
//! [`MaintenanceStore`] for background tasks and [`ReplicaStore`] for the registry of processes.
//! [`Store`] is all of them, and offers an [`OutputStreamStore`] if several processes can share it. SQLite and Postgres implement it, and both pass one conformance suite.
//!
//! Every method is one transaction: if it returns an error other than
//! [`StoreError::Unavailable`], nothing was written. An acknowledged write is synced to disk. Every
//! write of a worker carries the epoch of its lease, and a superseded epoch returns
//! [`StoreError::LeaseLost`]. Methods of [`JobStore`] take a tenant and see only its jobs; workers and
//! maintenance serve all tenants. Stores contain no policy: [`crate::job::Outcome::disposition`] decides what
//! follows an outcome and [`crate::job::UsageMeter::meter`] what a finished job used, inside the store's
//! transaction.

/// Declares constants for the SQL statements of a store, one file each.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! statements {
    ($($group:literal { $($name:ident = $file:literal;)* })*) => {
        $($(pub(super) const $name: &str = include_str!(concat!("sql/", $group, "/", $file, ".sql"));)*)*

        /// All statements by path, for the test that prepares each one.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$($((concat!($group, "/", $file), $name)),*),*];
    };
}

#[cfg(feature = "server")]
pub mod accounts;
mod blobs;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod columns;
#[cfg(feature = "conformance")]
pub mod conformance;
mod delegate;
#[cfg(feature = "server")]
pub mod endpoints;
mod error;
mod fairness;
#[cfg(feature = "conformance")]
pub mod faulty;
mod limits;
pub(crate) mod outbox;
mod output_streams;
#[cfg(feature = "postgres")]
pub mod postgres;
mod replicas;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod rows;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stored_job;
#[cfg(any(test, feature = "conformance"))]
mod testing;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub(crate) mod transfer;
mod types;

use std::sync::Arc;
use std::time::Duration;

#[doc(hidden)]
pub use async_trait::async_trait;
#[doc(hidden)]
pub use tokio::sync::Notify;

pub use blobs::{Blob, BlobRef, BlobRole, Deletion, NewBlob, WrappedKey};
pub use error::StoreError;
pub use limits::{FlowLimit, FlowLimits};
pub use output_streams::{OutputChunks, OutputPosition, OutputStreamStore};
pub use replicas::{Heartbeat, REPLICA_FORGOTTEN_AFTER, ReplicaState};
pub use types::{
    ChangeNotifications, Checkpoint, CheckpointResult, Claim, ClaimResult, Filter, JobVersion,
    KindCapacity, Lease, LeaseRef, NewJob, Page, PageRequest, QueueCapacity, QueueState,
    QueueTotal, Renewal, Report, SettleResult, Settlement, Start, SubmitResult,
};

use crate::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};

/// Jobs as clients of the engine see them: submit, read and control.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Accepts jobs independently: a rejected job does not affect the rest of the batch. If a job with
    /// the same idempotency key exists, it is returned when the fingerprints match; otherwise the result
    /// is [`StoreError::KeyReused`].
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>>;

    /// Returns a job with its result and history. [`StoreError::Gone`] if it was deleted and its
    /// tombstone still exists.
    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError>;

    /// Returns a page of matching jobs, newest first. Ends the page after [`PageRequest::examined_max`] jobs, so that the cost
    /// is bounded: it may be short or empty and have a next page.
    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError>;

    /// Returns the job with this idempotency key.
    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError>;

    /// Returns a job's input.
    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError>;

    /// Returns a job's finished steps by position.
    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError>;

    /// Returns the versions and statuses of jobs in the order of the arguments; `None` for a job that
    /// does not exist. One query for all of them, because change polling runs it every second.
    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError>;

    /// Returns the blobs of a job and their deletion state. Also works for a deleted job while its
    /// deletion records exist; empty for an unknown job.
    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError>;

    /// Cancels a pending or waiting job. For a running job, requests cancellation from its worker and
    /// sets the phase to `cancelling`. Repeating the call changes nothing.
    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError>;

    /// Returns a failed or cancelled job to its queue. Finished steps are kept, and the job gets its
    /// original number of attempts again.
    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError>;

    /// Creates the pending job `new_id` with the input of `id` and its finished steps before
    /// `from_step`, or all of them if `from_step` is `None`. [`StoreError::UnknownStep`] if the job has
    /// no such step.
    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError>;

    /// Deletes a finished job. A tombstone remains, so that reads return [`StoreError::Gone`]; the
    /// idempotency key becomes free.
    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError>;

    /// Returns the tenant's queues that are paused or have unfinished jobs.
    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError>;

    /// Pauses or resumes claims from one queue of the tenant. Running jobs continue.
    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError>;

    /// Counts the tenant's pending jobs in one queue or in all of them. Stops counting at `up_to`, so
    /// that the cost is bounded.
    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError>;

    /// Returns the usage of the tenant's finished jobs by hour, kind and API key, from the hour that
    /// contains `from` to the last hour that began before `to`. Each job is counted once, in the
    /// transaction that finished it. Rows are kept for [`crate::job::USAGE_RETENTION`], longer than jobs.
    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError>;
}

/// Operations of workers, over all tenants.
#[async_trait]
pub trait WorkerStore: Send + Sync {
    /// Claims up to `want.limit` due jobs within `want.limits`, round-robin over tenants, each for
    /// `want.lease`. Raises each job's epoch and charges an attempt, unless the previous attempt was
    /// released.
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError>;

    /// Submits a job and leases it in the same transaction, if [`Claim::may_start`] allows it, its queue is not
    /// paused and no due job of its tenant, of the kinds of `want`, comes first. Otherwise, or if the store has a
    /// reason of its own to leave the job to claims, it is pending and there is no lease. The record is that of the
    /// submission.
    async fn submit_and_claim(
        &self,
        job: NewJob,
        want: &Claim,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError>;

    /// Returns when to claim again: the due time of the first job that was not due yet at `since`. A store
    /// that has more due jobs than a claim looks at may return an earlier time.
    async fn next_due_at(&self, since: Timestamp) -> Result<Option<Timestamp>, StoreError>;

    /// Extends leases to `duration` from now. Results are in the order of the arguments.
    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError>;

    /// Records phases, each as an event, and the latest progress. After a cancellation request the phase
    /// stays `cancelling`.
    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>>;

    /// Stores a step's output. Storing the same output again succeeds; a different one returns
    /// [`StoreError::StepConflict`]. A cancellation that was acknowledged before is reported.
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<CheckpointResult, StoreError>;

    /// Ends attempts. Repeating a settlement whose response was lost succeeds.
    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>>;

    /// Records a work directory before a payload is written to it in clear, so that it can be deleted
    /// after a crash.
    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError>;
}

/// Background maintenance, over all tenants. Safe to run on all replicas at once.
#[async_trait]
pub trait MaintenanceStore: Send + Sync {
    /// Ends the attempts of up to `limit` jobs whose lease expired, and returns the jobs.
    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError>;

    /// Deletes up to `limit` finished jobs past their retention, and expired tombstones. Returns the
    /// number of deleted jobs.
    async fn prune(&self, limit: usize) -> Result<usize, StoreError>;

    /// Fails up to `limit` jobs whose payload was stored `kept` ago and that were never claimed.
    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError>;

    /// Returns up to `limit` unreferenced blobs whose deletion is due.
    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError>;

    /// Returns the host's work directories that are not recorded as deleted.
    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError>;

    /// Records deletion attempts of `replica`. A failed deletion becomes due again with exponential
    /// backoff.
    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError>;

    /// Returns those of `blobs` that are orphans: no job references them, and no running submission can
    /// still do so.
    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError>;

    /// Returns the number of bytes stored for the tenant's jobs.
    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Adds up to `limit` usage deltas to the hourly totals, for stores that write deltas, and deletes
    /// expired usage rows. Returns the number of deltas.
    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError>;

    /// Returns the totals of up to `limit` queues over all tenants, without their outboxes: the queues
    /// with the most pending and running jobs first, then by name. Queues that are neither paused nor
    /// have such jobs are not listed.
    async fn queue_totals(&self, limit: usize) -> Result<Vec<QueueTotal>, StoreError>;
}

/// The registry of running processes.
#[async_trait]
pub trait ReplicaStore: Send + Sync {
    /// Records a heartbeat and deletes replicas without one for [`REPLICA_FORGOTTEN_AFTER`].
    /// [`StoreError::NameTaken`] if another process with that name is alive; a dead one is replaced.
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError>;

    /// Returns all registered replicas by name.
    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError>;

    /// Removes a replica whose process has ended without deregistering, and expires its leases, so that the
    /// next rescue ends their attempts. Does nothing if another process than this `run` has the name. The caller must
    /// be sure that the process has ended.
    async fn take_over(&self, replica: &str, run: u64) -> Result<(), StoreError>;

    /// Removes a replica that shuts down. Succeeds for an unknown one.
    async fn deregister(&self, replica: &str) -> Result<(), StoreError>;
}

/// A complete store: what an engine runs on.
pub trait Store: JobStore + WorkerStore + MaintenanceStore + ReplicaStore {
    /// Returns the current time for leases, schedules and retention.
    fn now(&self) -> Timestamp;

    /// Notifications of changes that other processes made; `None` if the store belongs to this process
    /// alone.
    fn change_notifications(&self) -> Option<ChangeNotifications>;

    /// Output streams between processes. Defaults to `None`, for a store that belongs to this process alone.
    fn output_streams(&self) -> Option<&dyn OutputStreamStore> {
        None
    }

    /// Signals that this process wrote webhook deliveries.
    fn outbox_notify(&self) -> Arc<Notify>;
}
