//! Two stores that are asked the same, and have to answer the same.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use longhaul::job::{Job, JobId, Json, Name, Record, Step, TenantId, Timestamp, UsageRow};
use longhaul::store::{
    Blob, BlobRef, ChangeNotifications, Checkpoint, Claim, ClaimResult, Deletion, Filter,
    Heartbeat, JobVersion, LeaseRef, NewJob, Page, PageRequest, QueueState, Renewal, ReplicaState,
    Report, SettleResult, Settlement, Store, StoreError, SubmitResult,
};

/// Two stores that go by one clock.
pub(crate) struct Twins {
    pub(crate) one: Arc<dyn Store>,
    pub(crate) other: Arc<dyn Store>,
}

/// The answer, if both gave it.
fn same<T: Debug>(call: &str, one: T, other: &T) -> T {
    let (first, second) = (format!("{one:?}"), format!("{other:?}"));
    assert_eq!(first, second, "the stores do not agree on {call}");
    one
}

macro_rules! both {
    ($self:ident, $call:ident($($given:expr),*)) => {{
        let one = $self.one.$call($(Clone::clone(&$given)),*).await;
        let other = $self.other.$call($($given),*).await;
        same(stringify!($call), one, &other)
    }};
}

#[async_trait]
impl Store for Twins {
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        both!(self, submit(jobs))
    }

    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let (mut one, mut other) = (self.one.claim(want).await?, self.other.claim(want).await?);
        // A claim that took all that it may need not say what is next: whoever asked asks again.
        if one.leases.len() >= want.limit {
            (one.next_due_at, other.next_due_at) = (None, None);
        }
        Ok(same("claim", one, &other))
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        both!(self, report(reports))
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        both!(self, checkpoint(checkpoint))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        both!(self, settle(settlements))
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        both!(self, renew(leases, duration))
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        let (mut one, mut other) = (self.one.rescue(limit).await?, self.other.rescue(limit).await?);
        one.sort_by_key(|job| job.id);
        other.sort_by_key(|job| job.id);
        Ok(same("sweep", one, &other))
    }

    fn outbox_notify(&self) -> std::sync::Arc<tokio::sync::Notify> {
        self.other.outbox_notify()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        self.other.change_notifications()
    }

    fn now(&self) -> Timestamp {
        self.one.now()
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        both!(self, job(tenant, id))
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        both!(self, jobs(tenant, filter, page))
    }

    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError> {
        both!(self, job_by_key(tenant, key))
    }

    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError> {
        both!(self, input(tenant, id))
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        both!(self, steps(tenant, id))
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        both!(self, cancel(tenant, id))
    }

    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        both!(self, resume(tenant, id))
    }

    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError> {
        both!(self, fork(tenant, id, new_id, from_step))
    }

    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        both!(self, purge(tenant, id))
    }

    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError> {
        both!(self, queues(tenant))
    }

    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        both!(self, pause_queue(tenant, queue, paused))
    }

    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        both!(self, count_pending(tenant, queue, up_to))
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        both!(self, versions(jobs))
    }

    async fn prune(&self, limit: usize) -> Result<usize, StoreError> {
        both!(self, prune(limit))
    }

    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError> {
        both!(self, blobs(tenant, id))
    }

    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        both!(self, blob_bytes(tenant))
    }

    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError> {
        both!(self, record_work_dir(lease, path, replica))
    }

    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError> {
        both!(self, expire_payloads(kept, limit))
    }

    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        both!(self, blobs_to_delete(limit))
    }

    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        both!(self, work_dirs(host, limit))
    }

    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError> {
        both!(self, record_deletions(deletions, replica))
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        both!(self, usage(tenant, from, to))
    }

    async fn roll_up_usage(&self, limit: usize) -> Result<usize, StoreError> {
        // How many notes a store keeps is its own matter.
        self.one.roll_up_usage(limit).await?;
        self.other.roll_up_usage(limit).await
    }

    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        both!(self, orphan_blobs(blobs))
    }

    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError> {
        both!(self, heartbeat(beat))
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        both!(self, replicas())
    }

    async fn deregister(&self, replica: &str) -> Result<(), StoreError> {
        both!(self, deregister(replica))
    }
}
