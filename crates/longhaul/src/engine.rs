//! The engine: submits, reads, watches and controls jobs, and runs them in this process.

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
mod receipt;
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
pub use artifacts::{ArtifactError, StoredArtifact};
pub use builder::{BuildError, EngineBuilder};
pub use control::BulkCommand;
pub use handle::{JobHandle, ResultError};
pub use kind::{FingerprintFn, Handler, Kind, KindSettings};
pub use receipt::Receipt;
pub use submission::{Submission, SubmitError};
pub(crate) use upload::delete as delete_blob;
pub use upload::{StagedPayload, Upload, UploadError};
pub use watcher::Watcher;

use crate::clock::Clock;
use crate::job::{Delivery, IdSource, JobId, Limits, Name, Retention, TenantId, Timestamp};
use crate::store::outbox::new_delivery;
use crate::store::{FlowLimit, FlowLimits, QueueCapacity, Store, StoreError};
use crate::worker::Workers;

/// A running engine, bound to one tenant. Clones are cheap and share all state.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    workers: Arc<Workers>,
    tenant: TenantId,
    /// Id of the API key that submissions are metered under.
    key: Option<Arc<str>>,
    /// Limits of this tenant, if they differ from the engine's.
    limits: Option<Arc<Limits>>,
}

/// State shared by callers and workers of one process.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) replica: String,
    /// Distinguishes this process from another one with the same replica name.
    pub(crate) run: u64,
    pub(crate) role: String,
    pub(crate) kinds: HashMap<Name, Arc<Kind>>,
    pub(crate) limits: Limits,
    /// Concurrency and rate limits that apply to claims.
    pub(crate) flow: RwLock<Arc<FlowLimits>>,
    pub(crate) retention: Retention,
    /// Maximum time that a payload is stored before its job is claimed.
    pub(crate) payload_retention: std::time::Duration,
    pub(crate) encrypted_blobs: Option<Arc<payload_store::EncryptedBlobs>>,
    /// Parent directory of the attempts' working directories.
    pub(crate) work_root: std::path::PathBuf,
    /// Wakes the blob garbage collector.
    pub(crate) blob_gc_wake: Notify,
    pub(crate) ids: IdSource,
    /// Wakes the claim loop: a job may be due, or a slot may be free.
    pub(crate) wake: Arc<Notify>,
    /// Wakes the claim loop for webhook deliveries.
    pub(crate) wake_deliveries: Arc<Notify>,
    pub(crate) delivery_worker: Option<DeliveryWorker>,
    pub(crate) watchers: watchers::Watchers,
    pub(crate) retry_after_estimator: retry_after::RetryAfterEstimator,
    pub(crate) admission: admission::Admission,
    pub(crate) remote_kinds: kind_registry::RemoteKinds,
    /// Cancelled when the store reports an unrecoverable error.
    pub(crate) store_failed: CancellationToken,
}

/// Returns the delivery window of each queue, given the number of deliveries in flight by queue.
pub(crate) type DeliveryWindows = Arc<dyn Fn(&HashMap<Name, usize>) -> QueueCapacity + Send + Sync>;

/// Runs webhook deliveries, apart from other jobs.
pub(crate) struct DeliveryWorker {
    pub(crate) kind: Arc<Kind>,
    /// Maximum of deliveries in flight.
    pub(crate) jobs: usize,
    pub(crate) windows: DeliveryWindows,
}

impl Engine {
    /// Returns a builder. See [`EngineBuilder`].
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Returns a handle on the same engine for another tenant.
    #[must_use]
    pub fn for_tenant(&self, tenant: TenantId) -> Self {
        Self { tenant, ..self.clone() }
    }

    /// Returns a handle on this tenant's outbox. Deliveries are jobs of a separate tenant, so that
    /// they can be listed, resumed and purged like jobs.
    #[must_use]
    pub fn outbox(&self) -> Self {
        self.for_tenant(self.tenant.outbox())
    }

    /// Adds a delivery to the outbox that does not result from a job's transition, for example a
    /// test event. Returns its id.
    pub async fn deliver(&self, delivery: &Delivery) -> Result<JobId, StoreError> {
        let id = self.shared.new_id();
        let unfit = || StoreError::Broken("a delivery that is not JSON".to_owned());
        let new = new_delivery(&self.tenant, id, delivery).ok_or_else(unfit)?;
        let answer = self.shared.store.submit(vec![new]).await.pop().ok_or_else(unfit)?;
        self.shared.wake_deliveries.notify_one();
        answer.map(|submitted| submitted.record.job.id)
    }

    /// Returns a handle whose submissions are metered under this API key. Submissions inside the
    /// caller's own SQL transaction are metered without a key.
    #[must_use]
    pub fn for_key(&self, id: Option<&str>) -> Self {
        Self { key: id.map(Arc::from), ..self.clone() }
    }

    /// Returns the tenant that this handle acts for.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Returns the name of this replica, under which it holds leases.
    pub fn replica(&self) -> &str {
        &self.shared.replica
    }

    /// Returns the current time of the store, which decides on leases, retention and usage.
    pub fn now(&self) -> Timestamp {
        self.shared.store.now()
    }

    /// Returns a handle with other limits on submissions, for example for a tenant with a larger
    /// plan. Limits on running jobs do not change.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        Self { limits: Some(Arc::new(limits)), ..self.clone() }
    }

    /// Returns the limits on submissions.
    pub fn limits(&self) -> &Limits {
        self.limits.as_deref().unwrap_or(&self.shared.limits)
    }

    /// Returns the concurrency and rate limits that apply to this process's claims.
    pub fn flow_limits(&self) -> Arc<FlowLimits> {
        self.shared.flow()
    }

    /// Limits how many jobs of a tenant run at the same time on all replicas; `None` restores the
    /// default for all tenants. Applies to claims of this process, so that every replica must set
    /// it.
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

    /// Returns the kinds that this engine declares, sorted by name.
    pub fn kinds(&self) -> Vec<Arc<Kind>> {
        let mut kinds: Vec<_> = self.shared.kinds.values().cloned().collect();
        kinds.sort_by(|one, other| one.name().cmp(other.name()));
        kinds
    }

    /// Returns the number of jobs that this process is running.
    pub fn running(&self) -> usize {
        self.workers.running()
    }

    /// Waits until the store reports an unrecoverable error. The process should exit then, because
    /// only a restart shows which writes were stored.
    pub async fn store_failed(&self) {
        self.shared.store_failed.cancelled().await;
    }

    /// Stops claiming and waits for running jobs. Jobs that still run after the grace period are
    /// released without charging an attempt, so that another replica continues them from their last
    /// finished step. Returns when no job is running.
    pub async fn stop(&self) {
        self.workers.stop().await;
    }
}

impl Shared {
    pub(crate) fn flow(&self) -> Arc<FlowLimits> {
        Arc::clone(&self.flow.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Signals [`Engine::store_failed`] if the error is unrecoverable.
    pub(crate) fn record_store_error(&self, error: &StoreError) {
        if matches!(error, StoreError::Broken(_)) {
            self.store_failed.cancel();
        }
    }

    /// Wakes the loop that claims this tenant's jobs.
    pub(crate) fn wake_for(&self, tenant: &TenantId) {
        if tenant.is_outbox() { self.wake_deliveries.notify_one() } else { self.wake.notify_one() }
    }

    /// Wakes both claim loops.
    pub(crate) fn wake_all(&self) {
        self.wake.notify_one();
        self.wake_deliveries.notify_one();
    }

    /// Returns the kind that runs a claimed job.
    pub(crate) fn kind_that_runs(&self, name: &Name) -> Option<Arc<Kind>> {
        let delivery_worker =
            self.delivery_worker.as_ref().map(|delivery_worker| &delivery_worker.kind);
        let delivery_worker = delivery_worker.filter(|kind| kind.name() == name.as_str());
        self.kinds.get(name).or(delivery_worker).cloned()
    }

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
