//! Two processes on one database that serve calls by turns, so that nothing depends on what one of
//! them remembers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use longhaul::Clock;
use longhaul::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};
use longhaul::store::conformance::Bench;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{
    Blob, BlobRef, ChangeNotifications, Checkpoint, Claim, ClaimResult, Deletion, Filter,
    Heartbeat, JobVersion, LeaseRef, NewJob, Page, PageRequest, QueueState, Renewal, ReplicaState,
    Report, SettleResult, Settlement, Store, StoreError, SubmitResult,
};

use super::database::{TestDatabase, open_now};

/// Two stores on one database. What a lease's holder writes goes through the one that did not claim
/// it: no store ever ends an attempt from its own memory of the claim.
pub(crate) struct ByTurns {
    stores: [PostgresStore; 2],
    calls: AtomicUsize,
    claims: AtomicUsize,
    /// Which of the two claimed a job last. A std mutex: held for a map access, never across an await.
    claimers: Mutex<HashMap<(TenantId, JobId), usize>>,
}

impl ByTurns {
    pub(crate) fn open_now(url: &str, clock: &Clock) -> Self {
        Self {
            stores: [open_now(url, clock.clone()), open_now(url, clock.clone())],
            calls: AtomicUsize::new(0),
            claims: AtomicUsize::new(0),
            claimers: Mutex::default(),
        }
    }

    fn turn(&self) -> usize {
        self.calls.fetch_add(1, Ordering::Relaxed) % 2
    }

    fn next(&self) -> &PostgresStore {
        &self.stores[self.turn()]
    }

    /// Not the one that claimed this.
    fn other(&self, lease: &LeaseRef) -> &PostgresStore {
        let claimers = self.claimers.lock().unwrap_or_else(PoisonError::into_inner);
        let claimer = claimers.get(&(lease.tenant.clone(), lease.job)).copied();
        &self.stores[1 - claimer.unwrap_or_default()]
    }

    /// Whether this batch goes to the second store; one that belongs to both goes to either.
    fn other_of_all<'a>(&self, leases: impl Iterator<Item = &'a LeaseRef>) -> Vec<bool> {
        leases.map(|lease| std::ptr::eq(self.other(lease), &raw const self.stores[1])).collect()
    }
}

/// Splits a batch between the two, and puts the answers back in order.
macro_rules! split {
    ($self:ident, $items:ident, $call:ident) => {{
        let second = $self.other_of_all($items.iter().map(|item| &item.lease));
        let mut parts = [Vec::new(), Vec::new()];
        for (item, second) in $items.into_iter().zip(&second) {
            parts[usize::from(*second)].push(item);
        }
        let [first_part, second_part] = parts;
        let mut answers = [
            $self.stores[0].$call(first_part).await.into_iter(),
            $self.stores[1].$call(second_part).await.into_iter(),
        ];
        second.iter().map(|second| answers[usize::from(*second)].next().unwrap()).collect()
    }};
}

/// Two processes on a database of their own.
pub(crate) async fn bench_by_turns() -> Bench {
    let database = TestDatabase::create().await;
    let (clock, url) = (Bench::clock(), database.url());
    let store = ByTurns::open_now(&url, &clock);
    let reopen = move |clock| ByTurns::open_now(&url, &clock);
    Bench::new(store, clock).keeping(database).reopened_by(reopen)
}

#[async_trait]
impl Store for ByTurns {
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        self.next().submit(jobs).await
    }

    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        // Three at a time: which tenant was served last is each process's own memory.
        let turn = self.claims.fetch_add(1, Ordering::Relaxed) / 3 % 2;
        let claimed = self.stores[turn].claim(want).await?;
        let mut claimers = self.claimers.lock().unwrap_or_else(PoisonError::into_inner);
        for lease in &claimed.leases {
            claimers.insert((lease.job.tenant.clone(), lease.job.id), turn);
        }
        Ok(claimed)
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        split!(self, reports, report)
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.other(&checkpoint.lease).checkpoint(checkpoint).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        split!(self, settlements, settle)
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        self.next().renew(leases, duration).await
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.next().rescue(limit).await
    }

    fn outbox_notify(&self) -> std::sync::Arc<tokio::sync::Notify> {
        self.stores[0].outbox_notify()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        self.stores[0].change_notifications()
    }

    fn now(&self) -> Timestamp {
        self.stores[0].now()
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        self.next().job(tenant, id).await
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        self.next().jobs(tenant, filter, page).await
    }

    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError> {
        self.next().job_by_key(tenant, key).await
    }

    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError> {
        self.next().input(tenant, id).await
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        self.next().steps(tenant, id).await
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        self.next().cancel(tenant, id).await
    }

    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        self.next().resume(tenant, id).await
    }

    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError> {
        self.next().fork(tenant, id, new_id, from_step).await
    }

    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        self.next().purge(tenant, id).await
    }

    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError> {
        self.next().queues(tenant).await
    }

    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        self.next().pause_queue(tenant, queue, paused).await
    }

    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        self.next().count_pending(tenant, queue, up_to).await
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        self.next().versions(jobs).await
    }

    async fn prune(&self, limit: usize) -> Result<usize, StoreError> {
        self.next().prune(limit).await
    }

    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError> {
        self.next().blobs(tenant, id).await
    }

    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.next().blob_bytes(tenant).await
    }

    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError> {
        self.next().record_work_dir(lease, path, replica).await
    }

    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.next().expire_payloads(kept, limit).await
    }

    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        self.next().blobs_to_delete(limit).await
    }

    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        self.next().work_dirs(host, limit).await
    }

    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError> {
        self.next().record_deletions(deletions, replica).await
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        self.next().usage(tenant, from, to).await
    }

    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError> {
        self.next().roll_up_usage(limit).await
    }

    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        self.next().orphan_blobs(blobs).await
    }

    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError> {
        self.next().heartbeat(beat).await
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        self.next().replicas().await
    }

    async fn deregister(&self, replica: &str) -> Result<(), StoreError> {
        self.next().deregister(replica).await
    }
}
