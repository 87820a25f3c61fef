//! A wrapper that fails chosen calls of a store, before or after their commit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::{
    Blob, BlobRef, ChangeNotifications, Checkpoint, Claim, ClaimResult, Deletion, Filter,
    Heartbeat, JobVersion, LeaseRef, NewJob, Page, PageRequest, QueueState, Renewal, ReplicaState,
    Report, SettleResult, Settlement, Store, StoreError, SubmitResult,
};
use crate::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};

/// Where a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The store is never asked: the connection was cut on the way there.
    BeforeCommit,
    /// The store did it and nobody hears of it: the connection was cut on the way back.
    AfterCommit,
}

/// Decides which calls fail.
#[derive(Debug)]
pub struct FaultPlan {
    random: StdRng,
    /// Of a thousand calls, how many fail at each of the two places.
    per_mille: u32,
    next: Option<Fault>,
}

impl FaultPlan {
    /// No call fails.
    pub fn none() -> Self {
        Self::seeded(0, 0)
    }

    /// Of a thousand calls, about `per_mille` fail before their commit and as many after it; which
    /// ones follows from the seed.
    pub fn seeded(seed: u64, per_mille: u32) -> Self {
        Self { random: StdRng::seed_from_u64(seed), per_mille, next: None }
    }

    fn draw(&mut self) -> Option<Fault> {
        if let Some(fault) = self.next.take() {
            return Some(fault);
        }
        match self.random.random_range(0..1_000) {
            n if n < self.per_mille => Some(Fault::BeforeCommit),
            n if n < self.per_mille.saturating_mul(2) => Some(Fault::AfterCommit),
            _ => None,
        }
    }
}

/// A store whose calls fail by a plan, each with [`StoreError::Unavailable`].
#[derive(Debug)]
pub struct Faulty<S: ?Sized> {
    inner: Arc<S>,
    /// A std mutex: held for a draw, never across an await.
    plan: Mutex<FaultPlan>,
    /// Whether submissions wait.
    stalled: watch::Sender<bool>,
}

impl<S: Store + ?Sized> Faulty<S> {
    /// Wraps a store.
    pub fn new(inner: Arc<S>, plan: FaultPlan) -> Self {
        Self { inner, plan: Mutex::new(plan), stalled: watch::Sender::new(false) }
    }

    /// Replaces the plan, for instance by one with which everything heals.
    pub fn follow(&self, plan: FaultPlan) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Makes the next call fail here.
    pub fn fail_next(&self, fault: Fault) {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).next = Some(fault);
    }

    /// Makes submissions wait, those that come in from now on, until it is told that they need not.
    pub fn stall_submits(&self, stalled: bool) {
        self.stalled.send_replace(stalled);
    }

    /// The store that is wrapped, for whoever wants to see what really happened.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Takes the wrapping off.
    pub fn into_inner(self) -> Arc<S> {
        self.inner
    }

    fn draw(&self) -> Option<Fault> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }

    async fn one<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.draw() {
            None => call.await,
            Some(Fault::BeforeCommit) => Err(unavailable()),
            Some(Fault::AfterCommit) => call.await.and(Err(unavailable())),
        }
    }

    /// A batch fails as one: its items share a connection.
    async fn batch<T>(
        &self,
        items: usize,
        call: impl Future<Output = Vec<Result<T, StoreError>>>,
    ) -> Vec<Result<T, StoreError>> {
        let fault = self.draw();
        if fault.is_none() {
            return call.await;
        }
        if fault == Some(Fault::AfterCommit) {
            drop(call.await);
        }
        std::iter::repeat_with(|| Err(unavailable())).take(items).collect()
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("a fault on purpose".to_owned())
}

#[async_trait]
impl<S: Store + ?Sized> Store for Faulty<S> {
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        let mut stalled = self.stalled.subscribe();
        // The sender lives as long as this call does.
        stalled.wait_for(|stalled| !stalled).await.ok();
        self.batch(jobs.len(), self.inner.submit(jobs)).await
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        self.one(self.inner.job(tenant, id)).await
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        self.one(self.inner.jobs(tenant, filter, page)).await
    }

    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError> {
        self.one(self.inner.job_by_key(tenant, key)).await
    }

    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError> {
        self.one(self.inner.input(tenant, id)).await
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        self.one(self.inner.steps(tenant, id)).await
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        self.one(self.inner.cancel(tenant, id)).await
    }

    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        self.one(self.inner.resume(tenant, id)).await
    }

    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError> {
        self.one(self.inner.fork(tenant, id, new_id, from_step)).await
    }

    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        self.one(self.inner.purge(tenant, id)).await
    }

    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError> {
        self.one(self.inner.queues(tenant)).await
    }

    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        self.one(self.inner.pause_queue(tenant, queue, paused)).await
    }

    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        self.one(self.inner.count_pending(tenant, queue, up_to)).await
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        self.one(self.inner.versions(jobs)).await
    }

    fn outbox_notify(&self) -> std::sync::Arc<tokio::sync::Notify> {
        self.inner.outbox_notify()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        self.inner.change_notifications()
    }

    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        self.one(self.inner.claim(want)).await
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        self.one(self.inner.renew(leases, duration)).await
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        self.batch(reports.len(), self.inner.report(reports)).await
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.one(self.inner.checkpoint(checkpoint)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        self.batch(settlements.len(), self.inner.settle(settlements)).await
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.one(self.inner.rescue(limit)).await
    }

    async fn prune(&self, limit: usize) -> Result<usize, StoreError> {
        self.one(self.inner.prune(limit)).await
    }

    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError> {
        self.one(self.inner.blobs(tenant, id)).await
    }

    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        self.one(self.inner.blob_bytes(tenant)).await
    }

    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError> {
        self.one(self.inner.record_work_dir(lease, path, replica)).await
    }

    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError> {
        self.one(self.inner.expire_payloads(kept, limit)).await
    }

    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        self.one(self.inner.blobs_to_delete(limit)).await
    }

    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        self.one(self.inner.work_dirs(host, limit)).await
    }

    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError> {
        self.one(self.inner.record_deletions(deletions, replica)).await
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        self.one(self.inner.usage(tenant, from, to)).await
    }

    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError> {
        self.one(self.inner.roll_up_usage(limit)).await
    }

    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        self.one(self.inner.orphan_blobs(blobs)).await
    }

    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError> {
        self.one(self.inner.heartbeat(beat)).await
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        self.one(self.inner.replicas()).await
    }

    async fn deregister(&self, replica: &str) -> Result<(), StoreError> {
        self.one(self.inner.deregister(replica)).await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}
