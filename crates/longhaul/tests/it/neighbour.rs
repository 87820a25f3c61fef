//! A store as one of several processes sees it: with hints at what the others do, which here a test
//! gives, and with a way to know when it was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use longhaul::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};
use longhaul::store::{
    Blob, BlobRef, ChangeNotifications, Checkpoint, Claim, ClaimResult, Deletion, Filter,
    Heartbeat, JobVersion, LeaseRef, NewJob, Page, PageRequest, QueueState, Renewal, ReplicaState,
    Report, SettleResult, Settlement, Store, StoreError, SubmitResult,
};
use tokio::sync::{Semaphore, watch};

pub(crate) struct Neighbour {
    inner: Arc<dyn Store>,
    line: watch::Sender<u64>,
    jobs: watch::Sender<u64>,
    /// One permit for each glimpse that was answered.
    glimpsed: Semaphore,
    pub(crate) glimpses: AtomicUsize,
    pub(crate) counts: AtomicUsize,
    /// Whether it is out of reach for those who watch and for those who ask for replicas.
    pub(crate) away: AtomicBool,
}

impl Neighbour {
    pub(crate) fn new(inner: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            line: watch::Sender::new(0),
            jobs: watch::Sender::new(0),
            glimpsed: Semaphore::new(0),
            glimpses: AtomicUsize::new(0),
            counts: AtomicUsize::new(0),
            away: AtomicBool::new(false),
        })
    }

    pub(crate) fn hint_at_line(&self) {
        self.line.send_modify(|hints| *hints += 1);
    }

    pub(crate) fn hint_at_jobs(&self) {
        self.jobs.send_modify(|hints| *hints += 1);
    }

    /// Waits for a glimpse that nobody waited for before.
    pub(crate) async fn glimpsed(&self) {
        self.glimpsed.acquire().await.unwrap().forget();
    }

    fn reachable(&self) -> Result<(), StoreError> {
        let away = self.away.load(Ordering::SeqCst);
        if away { Err(StoreError::Unavailable("away".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for Neighbour {
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        self.inner.submit(jobs).await
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        self.inner.job(tenant, id).await
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        self.inner.jobs(tenant, filter, page).await
    }

    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError> {
        self.inner.job_by_key(tenant, key).await
    }

    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError> {
        self.inner.input(tenant, id).await
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        self.inner.steps(tenant, id).await
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        self.inner.cancel(tenant, id).await
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
        self.inner.fork(tenant, id, new_id, from_step).await
    }

    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        self.inner.purge(tenant, id).await
    }

    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError> {
        self.inner.queues(tenant).await
    }

    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        self.inner.pause_queue(tenant, queue, paused).await
    }

    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        self.counts.fetch_add(1, Ordering::SeqCst);
        self.inner.count_pending(tenant, queue, up_to).await
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        let answer = self.inner.versions(jobs).await;
        self.glimpses.fetch_add(1, Ordering::SeqCst);
        // Whoever waits for it runs on the same thread, and so only once this is answered.
        self.glimpsed.add_permits(1);
        self.reachable().and(answer)
    }

    fn outbox_notify(&self) -> std::sync::Arc<tokio::sync::Notify> {
        std::sync::Arc::default()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        Some(ChangeNotifications { line: self.line.subscribe(), jobs: self.jobs.subscribe() })
    }

    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        self.inner.claim(want).await
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        self.inner.renew(leases, duration).await
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        self.inner.report(reports).await
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.inner.checkpoint(checkpoint).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        self.inner.settle(settlements).await
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.inner.rescue(limit).await
    }

    async fn prune(&self, limit: usize) -> Result<usize, StoreError> {
        self.inner.prune(limit).await
    }

    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError> {
        self.inner.blobs(tenant, id).await
    }

    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.inner.blob_bytes(tenant).await
    }

    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError> {
        self.inner.record_work_dir(lease, path, replica).await
    }

    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.inner.expire_payloads(kept, limit).await
    }

    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        self.inner.blobs_to_delete(limit).await
    }

    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        self.inner.work_dirs(host, limit).await
    }

    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError> {
        self.inner.record_deletions(deletions, replica).await
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        self.inner.usage(tenant, from, to).await
    }

    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError> {
        self.inner.roll_up_usage(limit).await
    }

    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        self.inner.orphan_blobs(blobs).await
    }

    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError> {
        self.inner.heartbeat(beat).await
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        self.reachable()?;
        self.inner.replicas().await
    }

    async fn deregister(&self, replica: &str) -> Result<(), StoreError> {
        self.inner.deregister(replica).await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}
