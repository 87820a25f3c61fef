//! Configuring and starting an engine.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::admission::Admission;
use super::control::ListPermits;
use super::kind_registry::RemoteKinds;
use super::output_streams::OutputStreams;
use super::retry_after::RetryAfterEstimator;
use super::store_health::StoreHealth;
use super::submit::Submitters;
use super::watchers::Watchers;
use super::{DeliveryWorker, EncryptedBlobs, Engine, EngineState, JobArgs, Kind};
use crate::clock::Clock;
use crate::ctx::Ctx;
use crate::job::{
    DELIVERY_KIND, IdSource, IntoName, JobError, Limits, Name, NameError, Retention, TenantId,
};
use crate::random::RandomSource;
use crate::setters::setters;
#[cfg(feature = "postgres")]
use crate::store::postgres::PostgresStore;
#[cfg(feature = "sqlite")]
use crate::store::sqlite::{OpenError, SqliteStore};
use crate::store::{FlowLimit, FlowLimits, ReplicaState, Store};
use crate::worker::{WorkerSettings, Workers, heartbeat};

/// Configures an engine. Everything has a default; without a store, jobs are in memory.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul::{Ctx, Engine};
///
/// let engine = Engine::builder()
///     .kind("greet", |_ctx: Ctx, name: String| async move { Ok(format!("Hello, {name}!")) })
///     .start()
///     .await?;
/// let greeting: String = engine.submit_raw("greet", "Ada").await?.result_as().await?;
/// assert_eq!(greeting, "Hello, Ada!");
/// # engine.stop().await; Ok(()) }
/// ```
#[must_use = "an engine does nothing until it is started"]
pub struct EngineBuilder {
    store: StoreChoice,
    clock: Clock,
    random_seed: Option<u64>,
    replica: Option<String>,
    role: String,
    tenant: TenantId,
    limits: Limits,
    flow: FlowLimits,
    pending: HashMap<Name, u64>,
    retention: Retention,
    pub(super) payload_retention: Duration,
    pub(super) encrypted_blobs: Option<EncryptedBlobs>,
    work_root: Option<PathBuf>,
    kinds: Vec<Kind>,
    pub(super) delivery_worker: Option<DeliveryWorker>,
    settings: WorkerSettings,
    invalid_name: Option<NameError>,
}

enum StoreChoice {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(String),
    Given(Arc<dyn Store>),
}

/// Reasons why an engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The SQLite file cannot be opened.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The Postgres database cannot be opened.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(crate::store::postgres::OpenError),
    /// No store was chosen, and this build has none in memory.
    #[cfg(not(feature = "sqlite"))]
    #[error("no store: call postgres() or store(), or enable the feature sqlite")]
    NoStore,
    /// The name of a kind or a queue is invalid.
    #[error("{0}")]
    Name(#[from] NameError),
    /// Two kinds have the same name.
    #[error("two kinds have the name {0:?}")]
    KindTwice(String),
    /// The delivery worker has a kind with another name.
    #[doc(hidden)]
    #[error("the delivery worker must have the kind {DELIVERY_KIND:?}, not {0:?}")]
    DeliveryKind(String),
    /// The lease is not longer than two renewal intervals.
    #[error("the lease ({lease:?}) must be longer than two renewal intervals ({renew:?} each)")]
    LeaseTooShort {
        /// Lease duration.
        lease: Duration,
        /// Renewal interval.
        renew: Duration,
    },
    /// A live process has the same replica name.
    #[error(
        "another replica with the name {replica:?} is running{}; give each replica a unique name",
        holder.as_ref().map(|owner| format!(
            " (process {} on {})", owner.heartbeat.pid, owner.heartbeat.host
        )).unwrap_or_default()
    )]
    NameTaken {
        /// The name.
        replica: String,
        /// The process that has the name, if it can be read.
        holder: Option<Box<ReplicaState>>,
    },
    /// The lease renewal thread cannot be started.
    #[error("cannot start the thread that renews leases")]
    Thread(#[source] std::io::Error),
}

impl Default for EngineBuilder {
    fn default() -> Self {
        Self {
            store: StoreChoice::Memory,
            clock: Clock::system(),
            random_seed: None,
            replica: None,
            role: "all".to_owned(),
            tenant: TenantId::default(),
            limits: Limits::default(),
            flow: FlowLimits::default(),
            pending: HashMap::new(),
            retention: Retention::default(),
            payload_retention: Duration::from_hours(1),
            encrypted_blobs: None,
            work_root: None,
            kinds: Vec::new(),
            delivery_worker: None,
            settings: WorkerSettings::default(),
            invalid_name: None,
        }
    }
}

impl EngineBuilder {
    setters! {
        /// Stores jobs in a SQLite file, which is created if it does not exist. One process can open
        /// it at a time.
        #[cfg(feature = "sqlite")]
        sqlite(path: impl Into<PathBuf>) { store = StoreChoice::Sqlite(path.into()) }

        /// Stores jobs in a Postgres database, which any number of processes can share. See
        /// [`PostgresStore::open`](crate::store::postgres::PostgresStore::open) for the URL's
        /// parameters.
        #[cfg(feature = "postgres")]
        postgres(url: impl Into<String>) { store = StoreChoice::Postgres(url.into()) }

        /// Stores jobs in memory, for tests and experiments. They are lost with the process.
        #[cfg(feature = "sqlite")]
        memory() { store = StoreChoice::Memory }

        /// Uses this store.
        store(store: Arc<dyn Store>) { store = StoreChoice::Given(store) }

        /// Sets the tenant of the engine. Defaults to `default`.
        tenant(tenant: TenantId) { tenant = tenant }

        /// Sets the name of this replica, which must be unique among the processes that share a
        /// store. Random by default.
        replica(name: impl Into<String>) { replica = Some(name.into()) }

        /// Sets the role that heartbeats report. Informational: set
        /// [`concurrency`](Self::concurrency) to zero for a process that runs no jobs. Defaults to
        /// `all`.
        role(role: impl Into<String>) { role = role.into() }

        /// Sets the maximum of jobs that run at the same time in this process. Zero disables
        /// claiming: the process only submits and watches. Defaults to 4.
        concurrency(jobs: usize) { settings.concurrency = jobs }

        /// Sets the interval between searches for expired leases. Defaults to 2 s.
        rescue_interval(interval: Duration) { settings.rescue_interval = interval }

        /// Sets whether the store was not available when the process started. Then it rescues no job for the duration of
        /// one lease, because leases of live workers may have expired meanwhile. Defaults to `false`.
        after_outage(after_outage: bool) { settings.after_outage = after_outage }

        /// Sets how long a cancelled job may run before its handler is dropped. Defaults to 5 s.
        cancel_grace(grace: Duration) { settings.cancel_grace = grace }

        /// Sets how long [`Engine::stop`] waits for running jobs before it releases them. Defaults
        /// to 20 s.
        stop_grace(grace: Duration) { settings.stop_grace = grace }

        /// Sets how long finished jobs are stored. Defaults to one day for completed and seven days
        /// for failed or cancelled jobs.
        retention(retention: Retention) { retention = retention }

        /// Sets the parent directory of the attempts' working directories. Defaults to a directory
        /// below the system's temporary directory. A process that starts should delete what a
        /// crashed one left there.
        work_root(path: impl Into<PathBuf>) { work_root = Some(path.into()) }

        /// Sets the limits on submissions and running jobs, for example
        /// `Limits { steps_max: 100, ..Limits::default() }`.
        limits(limits: Limits) { limits = limits }

        /// Limits concurrency and rate of each tenant, over all replicas. Every replica that claims
        /// must set it. For kinds see [`Kind::running_max`].
        tenant_limit(limit: FlowLimit) { flow.tenants = limit }

        /// Sets the clock. A store passed to [`store`](Self::store) has its own clock: use the same
        /// one for both.
        clock(clock: Clock) { clock = clock }

        /// Sets the seed of random ids and delays, so that a simulation with [`Clock::virtual_time`] can be repeated.
        /// Engines of one store need different seeds. Unpredictable by default.
        random_seed(seed: u64) { random_seed = Some(seed) }
    }

    /// Adds the kind of a typed handler, with default settings. See [`JobArgs`].
    ///
    /// For other settings use [`register`](Self::register) with [`Kind::from_handler`].
    pub fn handler<A, F, Fut>(self, handler: F) -> Self
    where
        A: JobArgs,
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<A::Output, JobError>> + Send + 'static,
    {
        self.register(Kind::from_handler(handler))
    }

    /// Adds a kind by name, with default settings.
    ///
    /// For other settings use [`register`](Self::register) with [`Kind::new`].
    pub fn kind<I, O, F, Fut>(self, name: impl IntoName, handler: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, JobError>> + Send + 'static,
    {
        self.register(Kind::new(name, handler))
    }

    /// Adds a kind.
    pub fn register(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Sets the lease duration and the renewal interval. Defaults to 15 s and 5 s; the lease must
    /// be longer than two intervals.
    pub fn lease(mut self, lasts: Duration, renewed_every: Duration) -> Self {
        self.settings.lease = lasts;
        self.settings.renew = renewed_every;
        self
    }

    /// Limits concurrency and rate of a queue, over all tenants and replicas. Every replica that
    /// claims must set it. Jobs over the limit stay pending; other queues are not affected.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use longhaul::Engine;
    /// use longhaul::job::Rate;
    /// use longhaul::store::FlowLimit;
    ///
    /// let rate = Some(Rate::new(100, Duration::from_mins(1)));
    /// let limit = FlowLimit { running_max: Some(2), rate };
    /// let builder = Engine::builder().queue_limit("mail", limit);
    /// ```
    pub fn queue_limit(mut self, queue: impl IntoName, limit: FlowLimit) -> Self {
        let Some(queue) = self.checked(queue) else { return self };
        self.flow.queues.retain(|(name, _)| *name != queue);
        self.flow.queues.push((queue, limit));
        self
    }

    /// Limits the pending jobs of one tenant in a queue. Submissions over the limit are rejected.
    /// Every replica that accepts jobs must set it.
    pub fn queue_pending_max(mut self, queue: impl IntoName, max: u64) -> Self {
        let Some(queue) = self.checked(queue) else { return self };
        self.pending.insert(queue, max);
        self
    }

    /// Keeps the first invalid name until the engine starts.
    fn checked(&mut self, name: impl IntoName) -> Option<Name> {
        name.into_name().map_err(|error| self.invalid_name.get_or_insert(error).clone()).ok()
    }

    /// Opens the store and starts working. Must be called inside a tokio runtime.
    pub async fn start(self) -> Result<Engine, BuildError> {
        if let Some(error) = self.invalid_name {
            return Err(error.into());
        }
        let mut kinds = HashMap::new();
        let mut flow = self.flow;
        for kind in self.kinds {
            let name = kind.checked_name()?;
            flow.kinds.extend(kind.settings().running_max.map(|jobs| (name.clone(), jobs)));
            if kinds.insert(name.clone(), Arc::new(kind)).is_some() {
                return Err(BuildError::KindTwice(name.to_string()));
            }
        }
        if self.settings.lease <= self.settings.renew * 2 {
            let (lease, renew) = (self.settings.lease, self.settings.renew);
            return Err(BuildError::LeaseTooShort { lease, renew });
        }
        let encrypted_blobs = match (self.encrypted_blobs, &self.store) {
            (None, StoreChoice::Memory) => EncryptedBlobs::memory(),
            (encrypted_blobs, _) => encrypted_blobs,
        };
        let store: Arc<dyn Store> = match self.store {
            #[cfg(feature = "sqlite")]
            StoreChoice::Memory => Arc::new(SqliteStore::memory(self.clock.clone())?),
            #[cfg(not(feature = "sqlite"))]
            StoreChoice::Memory => return Err(BuildError::NoStore),
            #[cfg(feature = "sqlite")]
            StoreChoice::Sqlite(path) => {
                let clock = self.clock.clone();
                // Opening may recover a write-ahead log, which must not block the runtime.
                let opening = tokio::task::spawn_blocking(move || SqliteStore::open(path, clock));
                Arc::new(opening.await.map_err(|error| BuildError::Thread(error.into()))??)
            }
            #[cfg(feature = "postgres")]
            StoreChoice::Postgres(url) => {
                let opened = PostgresStore::open(&url, self.clock.clone()).await;
                Arc::new(opened.map_err(BuildError::Postgres)?)
            }
            StoreChoice::Given(store) => store,
        };
        let replica = self.replica.unwrap_or_else(random_replica);
        let work_root = self.work_root.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("longhaul-{}", std::process::id()))
        });
        if let Some(DeliveryWorker { kind, .. }) = &self.delivery_worker
            && kind.checked_name()?.as_str() != DELIVERY_KIND
        {
            return Err(BuildError::DeliveryKind(kind.name().to_owned()));
        }
        let shared = Arc::new(EngineState {
            wake_deliveries: store.outbox_notify(),
            submitting: Submitters::default(),
            delivery_worker: self.delivery_worker,
            store,
            clock: self.clock,
            replica,
            run: rand::random(),
            role: self.role,
            kinds,
            limits: self.limits,
            flow: RwLock::new(Arc::new(flow)),
            retention: self.retention,
            payload_retention: self.payload_retention,
            encrypted_blobs: encrypted_blobs.map(Arc::new),
            work_root,
            blob_gc_wake: Notify::new(),
            ids: IdSource::default(),
            random: RandomSource::new(self.random_seed),
            wake: Arc::default(),
            watchers: Watchers::default(),
            output_streams: OutputStreams::default(),
            retry_after_estimator: RetryAfterEstimator::default(),
            admission: Admission::new(self.pending),
            list_permits: ListPermits::default(),
            remote_kinds: RemoteKinds::default(),
            store_health: StoreHealth::new(),
            store_failed: CancellationToken::new(),
        });
        heartbeat::begin(&shared, self.settings.concurrency).await?;
        let workers = Workers::start(&shared, self.settings).map_err(BuildError::Thread)?;
        Ok(Engine {
            shared,
            workers: Arc::new(workers),
            tenant: self.tenant,
            key: None,
            limits: None,
        })
    }
}

fn random_replica() -> String {
    format!("{}-{:08x}", std::process::id(), rand::random::<u32>())
}
