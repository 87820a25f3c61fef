//! A store as one of several replicas sees it: the test sends the change notifications of the other
//! replicas and can wait for queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longhaul::job::{JobId, Name, TenantId};
use longhaul::store::{
    ChangeNotifications, Heartbeat, JobVersion, ReplicaState, Store, StoreError,
};
use tokio::sync::{Semaphore, watch};

pub(crate) struct SharedStore {
    inner: Arc<dyn Store>,
    line: watch::Sender<u64>,
    jobs: watch::Sender<u64>,
    cancellations: watch::Sender<u64>,
    /// One permit for each answered version query.
    glimpsed: Semaphore,
    pub(crate) glimpses: AtomicUsize,
    pub(crate) counts: AtomicUsize,
    /// True while version queries and replica lists fail.
    pub(crate) away: AtomicBool,
}

impl SharedStore {
    pub(crate) fn new(inner: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            line: watch::Sender::new(0),
            jobs: watch::Sender::new(0),
            cancellations: watch::Sender::new(0),
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

    pub(crate) fn hint_at_cancellations(&self) {
        self.cancellations.send_modify(|hints| *hints += 1);
    }

    /// Waits for the next version query; each is waited for once.
    pub(crate) async fn glimpsed(&self) {
        self.glimpsed.acquire().await.unwrap().forget();
    }

    fn reachable(&self) -> Result<(), StoreError> {
        let away = self.away.load(Ordering::SeqCst);
        if away { Err(StoreError::Unavailable("away".to_owned())) } else { Ok(()) }
    }
}

impl SharedStore {
    pub(crate) async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        let answer = self.inner.versions(jobs).await;
        self.glimpses.fetch_add(1, Ordering::SeqCst);
        // The waiting test runs on the same thread, so it continues only after this call has returned.
        self.glimpsed.add_permits(1);
        self.reachable().and(answer)
    }

    pub(crate) async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        self.counts.fetch_add(1, Ordering::SeqCst);
        self.inner.count_pending(tenant, queue, up_to).await
    }

    #[expect(clippy::unused_self, reason = "the macro calls it as a method")]
    fn outbox_notify(&self) -> std::sync::Arc<tokio::sync::Notify> {
        std::sync::Arc::default()
    }

    #[expect(clippy::unnecessary_wraps, reason = "the trait's signature")]
    fn change_notifications(&self) -> Option<ChangeNotifications> {
        Some(ChangeNotifications {
            ready: self.line.subscribe(),
            jobs: self.jobs.subscribe(),
            cancellations: self.cancellations.subscribe(),
        })
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        self.reachable()?;
        self.inner.replicas().await
    }

    /// A heartbeat that succeeds would end the backoff of other loops.
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.reachable()?;
        self.inner.heartbeat(heartbeat).await
    }
}

longhaul::delegate_store!(
    impl for SharedStore,
    to [inner],
    except versions count_pending outbox_notify change_notifications replicas heartbeat
);
