//! The engine: submits, reads, watches and controls jobs, and runs them in this process.

mod admission;
mod args;
#[cfg(feature = "blobs")]
mod artifacts;
mod builder;
pub(crate) mod change_poller;
mod control;
mod handle;
mod idle_map;
mod kind;
mod kind_registry;
#[cfg(not(feature = "blobs"))]
mod no_payload_store;
pub(crate) mod output_poller;
mod output_streams;
#[cfg(feature = "blobs")]
pub(crate) mod payload_store;
#[cfg(feature = "blobs")]
mod receipt;
mod retry_after;
#[cfg(feature = "server")]
mod server_support;
mod staged_payload;
mod store_health;
mod submission;
mod submit;
#[cfg(feature = "postgres")]
mod transactional;
#[cfg(feature = "blobs")]
mod upload;
mod watcher;
mod watchers;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use args::JobArgs;
#[cfg(feature = "blobs")]
pub use artifacts::{ArtifactError, StoredArtifact};
pub use builder::{BuildError, EngineBuilder};
pub use control::BulkCommand;
#[cfg(feature = "sqlite")]
pub(crate) use handle::result_of;
pub use handle::{JobHandle, ResultError};
pub use kind::{FingerprintFn, Kind, KindSettings};
#[cfg(not(feature = "blobs"))]
pub(crate) use no_payload_store::NoBlobs as EncryptedBlobs;
#[cfg(feature = "server")]
pub use output_streams::{OutputRead, OutputReader, OutputWriter};
#[cfg(feature = "blobs")]
pub(crate) use payload_store::EncryptedBlobs;
#[cfg(feature = "blobs")]
pub use receipt::Receipt;
pub use staged_payload::StagedPayload;
pub use submission::{Submission, SubmitError};
#[cfg(feature = "blobs")]
pub use upload::{Upload, UploadError};
pub use watcher::Watcher;

use crate::clock::Clock;
use crate::job::{IdSource, JobId, Limits, Name, Retention, TenantId, Timestamp};
use crate::random::RandomSource;
use crate::store::{FlowLimits, QueueCapacity, Store, StoreError};
use crate::worker::Workers;

/// A running engine, bound to one tenant. Clones are cheap and share all state.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures_util::TryStreamExt as _;
/// use longhaul::store::Filter;
/// use longhaul::{Ctx, Engine, Status};
///
/// let double = |_ctx: Ctx, number: u32| async move { Ok(number * 2) };
/// let engine = Engine::builder().kind("double", double).start().await?;
/// let job = engine.submit_raw("double", &21).key("answer").label("team", "a").await?;
/// assert_eq!(job.result_as::<u32>().await?, 42);
///
/// // The same key returns the same job.
/// let again = engine.submit_raw("double", &21).key("answer").await?;
/// assert!(again.id() == job.id() && !again.created());
///
/// let completed = Filter { statuses: vec![Status::Completed], ..Filter::default() };
/// let jobs: Vec<_> = engine.jobs(completed).try_collect().await?;
/// assert_eq!(jobs.len(), 1);
/// engine.stop().await;
/// # Ok(()) }
/// ```
///
/// - **Submit**: [`submit`](Self::submit), [`submit_raw`](Self::submit_raw),
///   [`submit_all`](Self::submit_all).
/// - **Read**: [`job`](Self::job), [`job_by_key`](Self::job_by_key), [`jobs`](Self::jobs),
///   [`input`](Self::input), [`steps`](Self::steps), [`watch`](Self::watch).
/// - **Control**: [`cancel`](Self::cancel), [`resume`](Self::resume), [`fork`](Self::fork),
///   [`purge`](Self::purge), [`bulk`](Self::bulk), [`pause_queue`](Self::pause_queue).
/// - **Process**: [`running`](Self::running), [`store_failed`](Self::store_failed),
///   [`stop`](Self::stop). Without a stop, dropping the last clone releases running jobs.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<EngineState>,
    workers: Arc<Workers>,
    tenant: TenantId,
    /// Id of the API key that submissions are metered under.
    key: Option<Arc<str>>,
    /// Limits of this tenant, if they differ from the engine's.
    limits: Option<Arc<Limits>>,
}

/// State shared by callers and workers of one process.
pub(crate) struct EngineState {
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
    pub(crate) encrypted_blobs: Option<Arc<EncryptedBlobs>>,
    /// Parent directory of the attempts' working directories.
    pub(crate) work_root: std::path::PathBuf,
    pub(crate) blob_gc_wake: Notify,
    pub(crate) ids: IdSource,
    pub(crate) random: RandomSource,
    /// Wakes the claim loop: a job may be due, or a slot may be free.
    pub(crate) wake: Arc<Notify>,
    /// Wakes the claim loop for webhook deliveries.
    pub(crate) wake_deliveries: Arc<Notify>,
    submitting: submit::Submitters,
    pub(crate) delivery_worker: Option<DeliveryWorker>,
    pub(crate) watchers: watchers::Watchers,
    pub(crate) output_streams: output_streams::OutputStreams,
    pub(crate) retry_after_estimator: retry_after::RetryAfterEstimator,
    pub(crate) admission: admission::Admission,
    list_permits: control::ListPermits,
    pub(crate) remote_kinds: kind_registry::RemoteKinds,
    store_health: store_health::StoreHealth,
    /// Cancelled when the store reports an unrecoverable error.
    pub(crate) store_failed: CancellationToken,
}

/// Returns the delivery window of each queue, given the number of deliveries in flight by queue.
pub(crate) type DeliveryWindows = Arc<dyn Fn(&HashMap<Name, usize>) -> QueueCapacity + Send + Sync>;

/// Runs webhook deliveries, apart from other jobs.
pub(crate) struct DeliveryWorker {
    pub(crate) kind: Arc<Kind>,
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

    /// Returns the maximum size of an input for a kind with its own limit, or for other kinds. A handle with a limit of
    /// its own, for example of a tenant, applies it to all kinds.
    pub fn input_bytes_max(&self, kind_max: Option<usize>) -> usize {
        let limit = self.limits().input_bytes_max;
        let is_default = limit == self.shared.limits.input_bytes_max;
        kind_max.filter(|_| is_default).unwrap_or(limit)
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

impl EngineState {
    pub(crate) fn flow(&self) -> Arc<FlowLimits> {
        Arc::clone(&self.flow.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a failed call. Signals [`Engine::store_failed`] if the error is unrecoverable.
    pub(crate) fn record_store_error(&self, error: &StoreError) {
        self.store_health.record_failure();
        if matches!(error, StoreError::Broken(_)) {
            self.store_failed.cancel();
        }
    }

    /// Records a successful call, which ends the backoff of all loops.
    pub(crate) fn record_store_success(&self) {
        self.store_health.record_success();
    }

    /// Waits before a loop repeats a call that has failed so many times.
    pub(crate) async fn back_off(&self, failures: u32) {
        self.store_health.back_off(&self.clock, failures).await;
    }

    /// Wakes the loop that claims this tenant's jobs.
    pub(crate) fn wake_for(&self, tenant: &TenantId) {
        if tenant.is_outbox() { self.wake_deliveries.notify_one() } else { self.wake.notify_one() }
    }

    pub(crate) fn wake_all(&self) {
        self.wake.notify_one();
        self.wake_deliveries.notify_one();
    }

    /// Returns the kind that runs a claimed job.
    pub(crate) fn kind_that_runs(&self, name: &Name) -> Option<Arc<Kind>> {
        let delivery = self.delivery_worker.as_ref().map(|worker| &worker.kind);
        let delivery = delivery.filter(|kind| kind.name() == name.as_str());
        self.kinds.get(name).or(delivery).cloned()
    }

    pub(crate) fn new_id(&self) -> JobId {
        self.ids.next(self.clock.now(), self.random.bits())
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
