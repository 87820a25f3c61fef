//! A job store in a SQLite file, or in memory.
//!
//! A file belongs to one process. One thread writes and five read: single jobs, other short reads, and lists. Each has its
//! own connection; callers on any runtime send them tasks and await the results. See `writer` for the group commit.

#[cfg(feature = "server")]
mod accounts;
mod backup;
mod claim;
mod connection;
mod control;
mod history;
mod lease_cache;
mod leases;
mod maintenance;
mod outbox;
mod queries;
mod replicas;
mod row;
mod schema;
mod settle;
mod sql;
mod submit;
#[cfg(feature = "postgres")]
pub(crate) mod transfer;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

pub use backup::Snapshot;
pub use connection::open::{OpenError, inspect, migrate_file, version};
pub use maintenance::fence::fence;

use self::claim::{Rotation, hand_off};
use self::connection::error::SqliteError;
use self::connection::readers::Readers;
use self::connection::task::Tx;
use self::connection::threads::TaskThreads;
use self::connection::{open, task, writer};
use self::maintenance::{blobs, prune, rescue};
use self::queries::{find, list, queues};
use super::{
    Blob, BlobRef, ChangeNotifications, Checkpoint, CheckpointResult, Claim, ClaimResult, Deletion,
    Filter, Heartbeat, JobStore, JobVersion, Lease, LeaseRef, MaintenanceStore, NewJob, Page,
    PageRequest, QueueState, QueueTotal, Renewal, ReplicaState, ReplicaStore, Report, SettleResult,
    Settlement, Store, StoreError, SubmitResult, WorkerStore,
};
use crate::clock::Clock;
use crate::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};

/// A store in a SQLite file or in memory. Dropping it runs the queued tasks and closes the file.
// Fields are dropped in their order: the writer closes last, which empties the write-ahead log, and the
// lock is released after that.
pub struct SqliteStore {
    /// `None` in memory, where only the writer has a connection.
    readers: Option<Readers>,
    writer: TaskThreads,
    clock: Clock,
    rotation: Arc<Rotation>,
    outbox_notify: Arc<Notify>,
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens or creates the file.
    ///
    /// Jobs that were running when the file was last open are due at the next rescue, because no other
    /// process can be running them.
    pub fn open(path: impl AsRef<Path>, clock: Clock) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let opened = open::open(path, clock.now())?;
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let outbox_notify = Arc::new(Notify::new());
        let (marker, told) = (Some(opened.marker), Arc::clone(&outbox_notify));
        let readers = Readers::start(opened.readers, &clock).map_err(io)?;
        let handles = readers.handles.clone();
        Ok(Self {
            writer: writer::start(opened.writer, clock.clone(), handles, marker, told)
                .map_err(io)?,
            outbox_notify,
            readers: Some(readers),
            clock,
            rotation: Arc::default(),
            _lock: Some(opened.lock),
        })
    }

    /// Creates a store in memory, which is lost when it is dropped.
    pub fn memory(clock: Clock) -> Result<Self, OpenError> {
        let conn = open::open_memory()?;
        let io = |source| OpenError::Io { path: ":memory:".into(), source };
        let outbox_notify = Arc::new(Notify::new());
        let told = Arc::clone(&outbox_notify);
        Ok(Self {
            writer: writer::start(conn, clock.clone(), Vec::new(), None, told).map_err(io)?,
            outbox_notify,
            readers: None,
            clock,
            rotation: Arc::default(),
            _lock: None,
        })
    }

    /// Reads a list, or sums over many rows.
    async fn read_list<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.lists.call(body).await,
            None => self.writer.call(body).await,
        }
    }

    /// Reads a few rows.
    async fn read<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.lookups.call(body).await,
            None => self.writer.call(body).await,
        }
    }

    /// Reads a single job, which must be quick: others share its thread and its transaction.
    async fn read_job<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.jobs.call(body).await,
            None => self.writer.call(body).await,
        }
    }

    async fn write<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        self.writer.call(body).await
    }

    /// Writes items, each as a separate task.
    ///
    /// A failing item does not affect the others, and all items that are queued together share a commit.
    async fn write_each<I, T>(
        &self,
        items: Vec<I>,
        body: fn(&Tx<'_>, &I) -> Result<T, SqliteError>,
    ) -> Vec<Result<T, StoreError>>
    where
        I: Send + 'static,
        T: Send + 'static,
    {
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            let (task, answer) = task::call(move |tx: &Tx<'_>| body(tx, &item));
            answers.push(self.writer.send(task).await.map(|()| answer));
        }
        let mut results = Vec::with_capacity(answers.len());
        for answer in answers {
            results.push(match answer {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(self.writer.stopped())),
                Err(error) => Err(error),
            });
        }
        results
    }
}

#[async_trait]
impl JobStore for SqliteStore {
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        self.write_each(jobs, submit::submit).await
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        let tenant = tenant.clone();
        self.read_job(move |tx| find::record(tx, &tenant, id)).await
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        let (tenant, filter, page) = (tenant.clone(), filter.clone(), *page);
        let is_short = filter.parent.is_some();
        let read = move |tx: &Tx<'_>| list::jobs(tx, &tenant, &filter, &page);
        if is_short { self.read(read).await } else { self.read_list(read).await }
    }

    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError> {
        let (tenant, key) = (tenant.clone(), key.to_owned());
        self.read_job(move |tx| find::record_by_key(tx, &tenant, &key)).await
    }

    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError> {
        let tenant = tenant.clone();
        self.read_job(move |tx| find::input(tx, &tenant, id)).await
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        let tenant = tenant.clone();
        self.read(move |tx| find::steps(tx, &tenant, id)).await
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        let jobs = jobs.to_vec();
        self.read(move |tx| find::versions(tx, &jobs)).await
    }

    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError> {
        let tenant = tenant.clone();
        self.read(move |tx| blobs::blobs(tx, &tenant, id)).await
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        let tenant = tenant.clone();
        self.writer.call(move |tx| control::cancel(tx, &tenant, id)).await
    }

    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        let tenant = tenant.clone();
        self.writer.call(move |tx| control::resume(tx, &tenant, id)).await
    }

    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError> {
        let (tenant, from_step) = (tenant.clone(), from_step.map(str::to_owned));
        self.writer
            .call(move |tx| submit::fork(tx, &tenant, id, new_id, from_step.as_deref()))
            .await
    }

    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.writer.call(move |tx| control::purge(tx, &tenant, id)).await
    }

    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError> {
        let tenant = tenant.clone();
        self.read_list(move |tx| queues::queues(tx, &tenant)).await
    }

    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        let (tenant, queue) = (tenant.clone(), queue.clone());
        self.writer.call(move |tx| control::pause_queue(tx, &tenant, &queue, paused)).await
    }

    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        let (tenant, queue) = (tenant.clone(), queue.cloned());
        self.read(move |tx| queues::count_pending(tx, &tenant, queue.as_ref(), up_to)).await
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        let tenant = tenant.clone();
        self.read_list(move |tx| queries::usage::rows(tx, &tenant, from, to)).await
    }
}

#[async_trait]
impl WorkerStore for SqliteStore {
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let (want, rotation) = (want.clone(), Arc::clone(&self.rotation));
        self.writer.call(move |tx| claim::claim(tx, &want, &rotation)).await
    }

    async fn submit_and_claim(
        &self,
        job: NewJob,
        want: &Claim,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError> {
        let want = want.clone();
        self.writer.call(move |tx| hand_off::submit_and_claim(tx, &job, &want)).await
    }

    async fn next_due_at(&self, _since: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        self.read(claim::next_due_at).await
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        self.writer.call(move |tx| leases::renew(tx, &leases, duration)).await
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        self.write_each(reports, leases::report).await
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<CheckpointResult, StoreError> {
        self.writer.call(move |tx| leases::checkpoint(tx, &checkpoint)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        self.write_each(settlements, settle::settle).await
    }

    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError> {
        let (lease, path, replica) = (lease.clone(), path.to_owned(), replica.to_owned());
        self.writer.call(move |tx| leases::record_work_dir(tx, &lease, &path, &replica)).await
    }
}

#[async_trait]
impl MaintenanceStore for SqliteStore {
    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.clock.follow_calendar();
        let expired_by = self.clock.now();
        self.writer.call(move |tx| rescue::rescue(tx, limit, expired_by)).await
    }

    async fn prune(&self, limit: usize) -> Result<usize, StoreError> {
        let mut deleted = 0;
        loop {
            let left = limit - deleted;
            match self.writer.call(move |tx| prune::prune(tx, left)).await {
                Ok((more, true)) if more < left => deleted += more,
                Ok((more, _)) => return Ok(deleted + more),
                Err(error) if deleted == 0 => return Err(error),
                Err(_) => return Ok(deleted),
            }
        }
    }

    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.writer.call(move |tx| blobs::expire_payloads(tx, kept, limit)).await
    }

    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        self.read(move |tx| blobs::blobs_to_delete(tx, limit)).await
    }

    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        let host = host.to_owned();
        self.read(move |tx| blobs::work_dirs(tx, &host, limit)).await
    }

    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError> {
        let replica = replica.to_owned();
        self.writer.call(move |tx| blobs::record_deletions(tx, &deletions, &replica)).await
    }

    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        self.read(move |tx| blobs::orphan_blobs(tx, &blobs)).await
    }

    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        let tenant = tenant.clone();
        self.read(move |tx| blobs::bytes(tx, &tenant)).await
    }

    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError> {
        self.writer.call(move |tx| maintenance::usage::forget(tx, limit)).await
    }

    async fn queue_totals(&self, limit: usize) -> Result<Vec<QueueTotal>, StoreError> {
        self.read_list(move |tx| queues::queue_totals(tx, limit)).await
    }
}

#[async_trait]
impl ReplicaStore for SqliteStore {
    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError> {
        let beat = beat.clone();
        self.writer.call(move |tx| replicas::heartbeat(tx, &beat)).await
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        self.read(replicas::replicas).await
    }

    async fn take_over(&self, replica: &str, run: u64) -> Result<(), StoreError> {
        let replica = replica.to_owned();
        self.writer.call(move |tx| replicas::take_over(tx, &replica, run)).await
    }

    async fn deregister(&self, replica: &str) -> Result<(), StoreError> {
        let replica = replica.to_owned();
        self.writer.call(move |tx| replicas::deregister(tx, &replica)).await
    }
}

impl Store for SqliteStore {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        None
    }

    fn outbox_notify(&self) -> Arc<Notify> {
        Arc::clone(&self.outbox_notify)
    }
}
