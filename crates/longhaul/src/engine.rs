//! The engine: what a program submits to, asks, watches and stops.

mod admission;
mod args;
mod artifacts;
mod builder;
pub(crate) mod change_poller;
mod control;
mod handle;
mod idempotency;
mod kind;
mod kind_registry;
pub(crate) mod payload_store;
mod retry_after;
mod submission;
mod submit;
#[cfg(feature = "postgres")]
mod transactional;
mod upload;
mod watcher;
mod watchers;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use args::JobArgs;
pub use artifacts::{ArtifactError, Receipt, StoredArtifact};
pub use builder::{BuildError, EngineBuilder};
pub use control::BulkCommand;
pub use handle::{JobHandle, ResultError};
pub use kind::{FingerprintFn, Handler, Kind, KindSettings};
pub use submission::{Submission, SubmitError};
pub(crate) use upload::delete as delete_blob;
pub use upload::{StagedPayload, Upload, UploadError};
pub use watcher::Watcher;

use crate::clock::Clock;
use crate::job::{Delivery, IdSource, JobId, Limits, Name, Retention, TenantId, Timestamp};
use crate::store::outbox::new_delivery;
use crate::store::{FlowLimit, FlowLimits, QueueCapacity, Store, StoreError};
use crate::worker::Workers;

/// A running engine, bound to one tenant. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    workers: Arc<Workers>,
    tenant: TenantId,
    /// The API key that this handle submits with.
    key: Option<Arc<str>>,
    /// Bounds of its tenant's own, instead of those that all share.
    limits: Option<Arc<Limits>>,
}

/// What callers and workers of one process share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) replica: String,
    /// Tells this process from another one that was given its name.
    pub(crate) run: u64,
    pub(crate) role: String,
    pub(crate) kinds: HashMap<Name, Arc<Kind>>,
    pub(crate) limits: Limits,
    /// What its claims are held to.
    pub(crate) flow: RwLock<Arc<FlowLimits>>,
    pub(crate) retention: Retention,
    /// How long a payload waits for its job to be claimed.
    pub(crate) payload_retention: std::time::Duration,
    pub(crate) encrypted_blobs: Option<Arc<payload_store::EncryptedBlobs>>,
    /// Where attempts have their folders.
    pub(crate) work_root: std::path::PathBuf,
    /// There may be something to delete.
    pub(crate) blob_gc_wake: Notify,
    pub(crate) ids: IdSource,
    /// Tells the claim loop that there may be something to claim, or room for it.
    pub(crate) wake: Arc<Notify>,
    /// The same for the loop that claims deliveries.
    pub(crate) wake_deliveries: Arc<Notify>,
    pub(crate) delivery_worker: Option<DeliveryWorker>,
    pub(crate) watchers: watchers::Watchers,
    pub(crate) retry_after_estimator: retry_after::RetryAfterEstimator,
    pub(crate) admission: admission::Admission,
    pub(crate) remote_kinds: kind_registry::RemoteKinds,
    /// Cancelled once the store said that it is broken.
    pub(crate) store_failed: CancellationToken,
}

/// How many deliveries of each queue may be under way at once in this process, now, by how many are.
pub(crate) type DeliveryWindows = Arc<dyn Fn(&HashMap<Name, usize>) -> QueueCapacity + Send + Sync>;

/// What delivers.
pub(crate) struct DeliveryWorker {
    pub(crate) kind: Arc<Kind>,
    /// How many at once.
    pub(crate) jobs: usize,
    pub(crate) windows: DeliveryWindows,
}

impl Engine {
    /// Starts describing an engine. See [`EngineBuilder`].
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// The same engine for another tenant.
    #[must_use]
    pub fn for_tenant(&self, tenant: TenantId) -> Self {
        Self { tenant, ..self.clone() }
    }

    /// The same engine for what is owed to those who are told of this tenant's jobs: deliveries are jobs of
    /// a tenant of their own, and all that can be done to jobs can be done to them.
    #[must_use]
    pub fn outbox(&self) -> Self {
        self.for_tenant(self.tenant.outbox())
    }

    /// Owes somebody a delivery that no job's transition made. Its id.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<JobId, StoreError> {
        let id = self.shared.new_id();
        let unfit = || StoreError::Broken("a delivery that is not JSON".to_owned());
        let new = new_delivery(&self.tenant, id, delivery).ok_or_else(unfit)?;
        let answer = self.shared.store.submit(vec![new]).await.pop().ok_or_else(unfit)?;
        self.shared.wake_deliveries.notify_one();
        answer.map(|submitted| submitted.record.job.id)
    }

    /// The same engine for the bearer of an API key: what it submits is metered under the key's id, a name
    /// like a kind's. What is submitted inside a caller's own transaction is metered without one.
    #[must_use]
    pub fn for_key(&self, id: Option<&str>) -> Self {
        Self { key: id.map(Arc::from), ..self.clone() }
    }

    /// The tenant that this handle acts for.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The name under which this process holds leases.
    pub fn replica(&self) -> &str {
        &self.shared.replica
    }

    /// The time that leases, retention and usage go by.
    pub fn now(&self) -> Timestamp {
        self.shared.store.now()
    }

    /// The same engine with other bounds on what is submitted: for a tenant that may more, or less, than
    /// others. What running jobs may do is as the engine was built.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        Self { limits: Some(Arc::new(limits)), ..self.clone() }
    }

    /// The bounds that submissions are held to.
    pub fn limits(&self) -> &Limits {
        self.limits.as_deref().unwrap_or(&self.shared.limits)
    }

    /// The limits over all replicas that this process claims with.
    pub fn flow_limits(&self) -> Arc<FlowLimits> {
        self.shared.flow()
    }

    /// From now on claims of this process let at most so many jobs of one tenant run at once, over all
    /// replicas; none goes back to what holds for all tenants. Every process that runs jobs has to be told.
    pub fn set_tenant_running_max(&self, tenant: &TenantId, running_max: Option<u32>) {
        let mut flow = self.shared.flow.write().unwrap_or_else(PoisonError::into_inner);
        let mut limits = FlowLimits::clone(&flow);
        match running_max {
            Some(jobs) => {
                let limit = FlowLimit { running_max: Some(jobs), ..limits.tenants };
                limits.by_tenant.insert(tenant.clone(), limit);
            }
            None => {
                limits.by_tenant.remove(tenant);
            }
        }
        if limits != **flow {
            *flow = Arc::new(limits);
        }
    }

    /// The kinds that this engine knows, by name.
    pub fn kinds(&self) -> Vec<Arc<Kind>> {
        let mut kinds: Vec<_> = self.shared.kinds.values().cloned().collect();
        kinds.sort_by(|one, other| one.name().cmp(other.name()));
        kinds
    }

    /// Jobs that this process runs right now.
    pub fn running(&self) -> usize {
        self.workers.running()
    }

    /// Returns when the store can no longer promise anything: the process should end, so that
    /// another one, or this one after its restart, reads what was really kept.
    pub async fn store_failed(&self) {
        self.shared.store_failed.cancelled().await;
    }

    /// Stops claiming and lets running jobs finish. What still runs after the grace period is
    /// given back uncharged, so that another replica, or this one after its restart, goes on from
    /// the last finished step. Returns when nothing runs any more.
    pub async fn stop(&self) {
        self.workers.stop().await;
    }
}

impl Shared {
    /// The limits over all replicas as they are now.
    pub(crate) fn flow(&self) -> Arc<FlowLimits> {
        Arc::clone(&self.flow.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells the process when the store can no longer promise anything.
    pub(crate) fn record_store_error(&self, error: &StoreError) {
        if matches!(error, StoreError::Broken(_)) {
            self.store_failed.cancel();
        }
    }

    /// Tells whoever claims this tenant's jobs that there may be one.
    pub(crate) fn wake_for(&self, tenant: &TenantId) {
        if tenant.is_outbox() { self.wake_deliveries.notify_one() } else { self.wake.notify_one() }
    }

    /// Tells everybody who claims that there may be something.
    pub(crate) fn wake_all(&self) {
        self.wake.notify_one();
        self.wake_deliveries.notify_one();
    }

    /// The kind of a job that was claimed.
    pub(crate) fn kind_that_runs(&self, name: &Name) -> Option<Arc<Kind>> {
        let delivery_worker =
            self.delivery_worker.as_ref().map(|delivery_worker| &delivery_worker.kind);
        let delivery_worker = delivery_worker.filter(|kind| kind.name() == name.as_str());
        self.kinds.get(name).or(delivery_worker).cloned()
    }

    /// A fresh job id.
    pub(crate) fn new_id(&self) -> JobId {
        self.ids.next(self.clock.now(), rand::random())
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("replica", &self.shared.replica)
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}
