//! A job store in Postgres, shared by any number of replicas.
//!
//! Concurrent writes are grouped into multi-row statements over arrays (`batcher`). Each statement is a
//! transaction of its own, so that no transaction is open while a handler runs. Hot tables are small and
//! separate from large or finished rows: see the first migration.

/// Repeats an attempt while its error is transient.
macro_rules! retrying {
    ($work:expr) => {{
        let mut retries = RetryState::default();
        loop {
            match $work.await {
                Ok(done) => break Ok(done),
                Err(error) => retries.again(error).await?,
            }
        }
    }};
}

#[cfg(feature = "server")]
mod accounts;
mod batch;
mod caller_transaction;
mod checkpoints;
mod claim;
mod connection;
mod control;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod lease_cache;
mod leases;
mod maintenance;
mod outbox;
mod queries;
mod replicas;
mod row;
mod schema;
mod settle;
mod settle_batch;
mod sql;
mod sql_submissions;
mod submit;
#[cfg(test)]
mod tests;
#[cfg(feature = "sqlite")]
mod transfer;

use std::collections::HashSet;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

pub(crate) use caller_transaction::{SqlSubmitError, submit_in_transaction};
pub use schema::migrate::MigrationReport;
pub use schema::row_security::RowSecurity;
pub use schema::{DatabaseInfo, OpenError, inspect, migrate};
/// The Postgres client crate, in the version that
/// [`Submission::in_transaction`](crate::Submission::in_transaction) accepts.
pub use tokio_postgres;
#[cfg(feature = "sqlite")]
pub(crate) use transfer::fit_for_postgres;

use self::claim::lane_cursors::LaneCursors;
use self::claim::query::Rotation;
use self::connection::batcher::Batcher;
use self::connection::database::Database;
use self::connection::error::{RetryState, to_store_error};
use self::connection::notify::{self, Notifier};
use self::lease_cache::LeaseCache;
use self::outbox::SubscriptionCache;
use super::{
    Blob, BlobRef, ChangeNotifications, Checkpoint, Claim, ClaimResult, Deletion, Filter,
    Heartbeat, JobStore, JobVersion, LeaseRef, MaintenanceStore, NewJob, Page, PageRequest,
    QueueState, Renewal, ReplicaState, ReplicaStore, Report, SettleResult, Settlement, Store,
    StoreError, SubmitResult, WorkerStore,
};
use crate::clock::Clock;
use crate::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};

/// Batches of one sort in flight at once: while one waits for its sync, the next is assembled.
const WRITERS: usize = 2;

/// A store in a Postgres database, in its schema `longhaul`.
pub struct PostgresStore {
    inner: Arc<Inner>,
    submits: Batcher<NewJob, SubmitResult>,
    checkpoints: Batcher<Checkpoint, ()>,
    settlements: Batcher<Settlement, SettleResult>,
    /// Background tasks, aborted when the store is dropped.
    tasks: Vec<JoinHandle<()>>,
}

/// State shared by all calls.
struct Inner {
    database: Arc<Database>,
    clock: Clock,
    notify: Notifier,
    lease_cache: LeaseCache,
    /// Round-robin state over tenants.
    tenants: Rotation,
    /// Round-robin state over the queues of outboxes.
    outboxes: Rotation,
    /// Tenants whose limits were exhausted at the last claim. Only a hint: claims check again.
    limited_tenants: Mutex<HashSet<TenantId>>,
    lane_cursors: tokio::sync::Mutex<LaneCursors>,
    /// Time at which this process last checked `incoming` for jobs submitted by SQL.
    incoming_checked_at: AtomicI64,
    /// Dedicated connection for lease renewals and heartbeats.
    heartbeat: tokio::sync::Mutex<Option<Client>>,
    subscriptions: SubscriptionCache,
    /// Notified when this process has written deliveries.
    outbox_notify: Arc<Notify>,
}

impl PostgresStore {
    /// Connects to the database of a `postgres://` URL and migrates its schema.
    ///
    /// Sets the clock to the database's time, which all replicas use. Must be called inside the tokio
    /// runtime that uses the store.
    ///
    /// Besides the settings that Postgres' own clients understand, the URL may contain
    /// `sslmode=verify-full`, `sslrootcert=FILE`, `pool_max=N` (number of connections, 10 by default,
    /// besides one for heartbeats and one for notifications) and `pgbouncer=true` for a transaction
    /// pooler, which is usually detected without it.
    pub async fn open(url: &str, clock: Clock) -> Result<Self, OpenError> {
        let inner = Arc::new(Inner {
            database: schema::open(url).await?,
            clock,
            notify: Notifier::new(),
            lease_cache: LeaseCache::default(),
            tenants: Rotation::default(),
            outboxes: Rotation::default(),
            limited_tenants: Mutex::default(),
            lane_cursors: tokio::sync::Mutex::default(),
            incoming_checked_at: AtomicI64::new(0),
            heartbeat: tokio::sync::Mutex::default(),
            subscriptions: SubscriptionCache::default(),
            outbox_notify: Arc::default(),
        });
        let mut retries = RetryState::default();
        while let Err(error) = inner.sync_clock().await {
            let again = retries.again(error).await;
            again.map_err(|error| {
                OpenError::Connect(format!("{}: {error}", inner.database.address()))
            })?;
        }
        let runtime = Handle::current();
        let tasks = vec![
            runtime.spawn(notify::run_sender(Arc::clone(&inner))),
            runtime.spawn(notify::run_listener(Arc::clone(&inner))),
            runtime.spawn(sql_submissions::run(Arc::clone(&inner))),
        ];
        let (submits, checkpoints, settlements) =
            (Arc::clone(&inner), Arc::clone(&inner), Arc::clone(&inner));
        Ok(Self {
            submits: Batcher::new(runtime.clone(), WRITERS, submit::bytes_of, move |jobs| {
                let inner = Arc::clone(&submits);
                async move { inner.submit_batch(jobs).await }
            }),
            checkpoints: Batcher::new(
                runtime.clone(),
                WRITERS,
                checkpoints::bytes_of,
                move |steps| {
                    let inner = Arc::clone(&checkpoints);
                    async move { inner.checkpoint_batch(steps).await }
                },
            ),
            settlements: Batcher::new(runtime, WRITERS, settle::bytes_of, move |ends| {
                let inner = Arc::clone(&settlements);
                async move { inner.settle_batch(ends).await }
            }),
            inner,
            tasks,
        })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.inner.database.close();
    }
}

#[async_trait]
impl JobStore for PostgresStore {
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        self.submits.write(jobs).await
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        retrying!(self.inner.try_record(tenant, id))
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        retrying!(self.inner.try_jobs(tenant, filter, page))
    }

    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError> {
        retrying!(self.inner.try_record_by_key(tenant, key))
    }

    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError> {
        retrying!(self.inner.try_input(tenant, id))
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        retrying!(self.inner.try_steps(tenant, id))
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        retrying!(self.inner.try_versions(jobs))
    }

    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError> {
        retrying!(self.inner.try_blobs(tenant, id))
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        retrying!(self.inner.try_cancel(tenant, id))
    }

    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        self.inner.resume(tenant, id).await
    }

    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError> {
        retrying!(self.inner.try_fork(tenant, id, new_id, from_step))
    }

    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        self.inner.purge(tenant, id).await
    }

    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError> {
        retrying!(self.inner.try_queues(tenant))
    }

    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        retrying!(self.inner.try_pause_queue(tenant, queue, paused))
    }

    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        retrying!(self.inner.try_count_pending(tenant, queue, up_to))
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        retrying!(self.inner.try_usage(tenant, from, to))
    }
}

#[async_trait]
impl WorkerStore for PostgresStore {
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        self.inner.claim(want).await
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        self.inner.renew(&leases, duration).await
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        self.inner.report(&reports).await
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.checkpoints.write_one(checkpoint).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        self.settlements.write(settlements).await
    }

    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError> {
        retrying!(self.inner.try_record_work_dir(lease, path, replica))
    }
}

#[async_trait]
impl MaintenanceStore for PostgresStore {
    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        if self.inner.try_enqueue_incoming().await > 0 {
            self.inner.notify.wake_claims();
        }
        if let Err(error) = self.inner.maintain_lane_cursors().await {
            tracing::warn!(error = %to_store_error(error), "cannot look after lanes");
        }
        retrying!(self.inner.try_rescue(limit))
    }

    async fn prune(&self, limit: usize) -> Result<usize, StoreError> {
        retrying!(self.inner.try_prune(limit))
    }

    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError> {
        retrying!(self.inner.try_expire_payloads(kept, limit))
    }

    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        retrying!(self.inner.try_blobs_to_delete(limit))
    }

    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        retrying!(self.inner.try_work_dirs(host, limit))
    }

    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError> {
        retrying!(self.inner.try_record_deletions(&deletions, replica))
    }

    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        retrying!(self.inner.try_orphan_blobs(&blobs))
    }

    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        retrying!(self.inner.try_blob_bytes(tenant))
    }

    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError> {
        retrying!(self.inner.try_roll_up_usage(limit))
    }
}

#[async_trait]
impl ReplicaStore for PostgresStore {
    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError> {
        retrying!(self.inner.try_heartbeat(beat))
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        retrying!(self.inner.try_replicas())
    }

    async fn deregister(&self, replica: &str) -> Result<(), StoreError> {
        retrying!(self.inner.try_deregister(replica))
    }
}

impl Store for PostgresStore {
    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        let (line, jobs) = self.inner.notify.subscribe();
        Some(ChangeNotifications { ready: line, jobs })
    }

    fn outbox_notify(&self) -> Arc<Notify> {
        Arc::clone(&self.inner.outbox_notify)
    }
}
