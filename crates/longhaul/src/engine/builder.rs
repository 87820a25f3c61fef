//! Describing an engine and starting it.

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
use super::kind_registry::RemoteKinds;
use super::payload_store::EncryptedBlobs;
use super::{
    DeliveryWindows, DeliveryWorker, Engine, JobArgs, Kind, Shared,
    retry_after::RetryAfterEstimator, watchers::Watchers,
};
use crate::blob::{BlobError, Blobs, Keyring};
use crate::clock::Clock;
use crate::ctx::Ctx;
use crate::job::{
    DELIVERY_KIND, IdSource, IntoName, JobError, Limits, Name, NameError, Retention, TenantId,
};
#[cfg(feature = "sqlite")]
use crate::store::sqlite::{OpenError, SqliteStore};
use crate::store::{FlowLimit, FlowLimits, QueueCapacity, ReplicaState, Store};
use crate::worker::{WorkerSettings, Workers, heartbeat};

/// Describes an engine. Everything has a default; without a store it keeps its jobs in memory.
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
    replica: Option<String>,
    role: String,
    tenant: TenantId,
    limits: Limits,
    flow: FlowLimits,
    pending: HashMap<Name, u64>,
    retention: Retention,
    payload_retention: Duration,
    encrypted_blobs: Option<EncryptedBlobs>,
    work_root: Option<PathBuf>,
    kinds: Vec<Kind>,
    delivery_worker: Option<(Kind, usize, DeliveryWindows)>,
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

/// Why an engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The SQLite file cannot be opened.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The Postgres database could not be opened.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(crate::store::postgres::OpenError),
    /// No store was chosen, and this build has none in memory.
    #[cfg(not(feature = "sqlite"))]
    #[error("no store: call postgres() or store(), or enable the feature sqlite")]
    NoStore,
    /// A kind's name cannot be used.
    #[error("a kind cannot have this name: {0}")]
    Name(#[from] NameError),
    /// Two kinds have one name.
    #[error("there are two kinds {0:?}")]
    KindTwice(String),
    /// What delivers has another name.
    #[error("what delivers is of the kind {DELIVERY_KIND:?}, not {0:?}")]
    DeliveryKind(String),
    /// The lease times contradict each other.
    #[error(
        "a lease must last longer than two renewals: it lasts {lease:?} and is renewed every {renew:?}"
    )]
    LeaseTooShort {
        /// How long a lease lasts.
        lease: Duration,
        /// How often it is renewed.
        renew: Duration,
    },
    /// Another process that lives has this replica's name.
    #[error(
        "another replica with the name {replica:?} is running{}; give each its own",
        holder.as_ref().map(|held| format!(
            " (process {} on {})", held.heartbeat.pid, held.heartbeat.host
        )).unwrap_or_default()
    )]
    NameTaken {
        /// The name.
        replica: String,
        /// Who has it, if that is known.
        holder: Option<Box<ReplicaState>>,
    },
    /// There is no store for payloads.
    #[error(transparent)]
    Blobs(BlobError),
    /// The thread that renews leases could not be started.
    #[error("cannot start the thread that renews leases")]
    Thread(#[source] std::io::Error),
}

impl Default for EngineBuilder {
    fn default() -> Self {
        Self {
            store: StoreChoice::Memory,
            clock: Clock::system(),
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
    /// Keeps jobs in this SQLite file, which is created if it is not there. It belongs to one
    /// process at a time.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(mut self, path: impl Into<PathBuf>) -> Self {
        self.store = StoreChoice::Sqlite(path.into());
        self
    }

    /// Keeps jobs in this Postgres database, which any number of processes may share. See
    /// [`PostgresStore::open`](crate::store::postgres::PostgresStore::open) for what the address may
    /// say.
    #[cfg(feature = "postgres")]
    pub fn postgres(mut self, url: impl Into<String>) -> Self {
        self.store = StoreChoice::Postgres(url.into());
        self
    }

    /// Keeps jobs in memory: for tests and for trying things out. They are gone with the process.
    #[cfg(feature = "sqlite")]
    pub fn memory(mut self) -> Self {
        self.store = StoreChoice::Memory;
        self
    }

    /// Keeps jobs in this store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = StoreChoice::Given(store);
        self
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

    /// Delivers what is owed to endpoints and webhooks by this kind's handler, whose input is a
    /// [`Delivery`](crate::job::Delivery), so many at once beside the other kinds' jobs. Its name must be
    /// [`DELIVERY_KIND`](crate::job::DELIVERY_KIND). Nobody can submit jobs of it.
    ///
    /// Each receiver has a queue of its own ([`Receiver::queue`](crate::job::Receiver::queue)), and queues
    /// take turns. Before each claim `windows` is told how many deliveries of each are under way, and asked
    /// how many may be: few for a receiver that hangs, so that it does not take the places of others. A claim
    /// brings at most a quarter of what may be under way in all.
    pub fn delivery_worker(
        mut self,
        kind: Kind,
        concurrency: usize,
        windows: impl Fn(&HashMap<Name, usize>) -> QueueCapacity + Send + Sync + 'static,
    ) -> Self {
        self.delivery_worker = Some((kind, concurrency, Arc::new(windows)));
        self
    }

    /// The tenant that the engine acts for unless told otherwise.
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.tenant = tenant;
        self
    }

    /// The name under which this process holds leases, its own among all that share a store; random
    /// if nobody says.
    pub fn replica(mut self, name: impl Into<String>) -> Self {
        self.replica = Some(name.into());
        self
    }

    /// What others are told that this process does: `all` if nobody says. It changes nothing here;
    /// a process that runs no jobs has a [`concurrency`](Self::concurrency) of zero.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = role.into();
        self
    }

    /// At most so many jobs at once in this process. Zero: it submits and watches, and runs none.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.settings.concurrency = jobs;
        self
    }

    /// How long leases last and how often they are renewed: 15 s and 5 s if nobody says.
    pub fn lease(mut self, lasts: Duration, renewed_every: Duration) -> Self {
        self.settings.lease = lasts;
        self.settings.renew = renewed_every;
        self
    }

    /// How often the leases of dead workers are looked for: every 2 s if nobody says.
    pub fn rescue_interval(mut self, interval: Duration) -> Self {
        self.settings.sweep = interval;
        self
    }

    /// How long a cancelled job may take to stop by itself before its handler is dropped.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// How long [`Engine::stop`] lets running jobs go on before it gives them back.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.settings.stop_grace = grace;
        self
    }

    /// How long finished jobs are kept.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// How long a payload waits for its job to be claimed before the job fails: an hour if nobody says.
    pub fn payload_retention(mut self, kept: Duration) -> Self {
        self.payload_retention = kept;
        self
    }

    /// Keeps payloads and artifacts there, each sealed with a key of its own, which is sealed with the
    /// keyring's. An engine that keeps its jobs in memory keeps them there too, if nobody says.
    pub fn blobs(mut self, blobs: Blobs, keyring: impl Into<Arc<Keyring>>) -> Self {
        self.encrypted_blobs = Some(EncryptedBlobs::new(blobs, keyring.into()));
        self
    }

    /// Where attempts that ask for one get a folder of their own; below the system's folder for temporary
    /// files if nobody says. Whatever is in it when a process dies is for whoever starts the next one
    /// to delete.
    pub fn work_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.work_root = Some(path.into());
        self
    }

    /// The bounds that submissions are held to.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits what a queue may do, over all tenants and all processes that share a store, each of
    /// which has to say so. Jobs that are held back wait in line; other queues' go on.
    pub fn queue_limit(mut self, queue: impl IntoName, limit: FlowLimit) -> Self {
        let Some(queue) = self.checked(queue) else { return self };
        self.flow.queues.retain(|(name, _)| *name != queue);
        self.flow.queues.push((queue, limit));
        self
    }

    /// How many of one tenant's jobs may be pending in a queue: beyond it submissions are refused. Each process
    /// that accepts jobs has to say so.
    pub fn queue_pending_max(mut self, queue: impl IntoName, max: u64) -> Self {
        let Some(queue) = self.checked(queue) else { return self };
        self.pending.insert(queue, max);
        self
    }

    /// Limits what each tenant may do, over all processes that share a store, each of which has to
    /// say so. One tenant's limit holds no other back. For kinds see [`Kind::running_max`].
    pub fn tenant_limit(mut self, limit: FlowLimit) -> Self {
        self.flow.tenants = limit;
        self
    }

    /// Where the time comes from. A given store brings its own clock: hand both the same one.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
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
        let clock = self.clock.clone();
        let encrypted_blobs = match (self.encrypted_blobs, &self.store) {
            (None, StoreChoice::Memory) => {
                let blobs = Blobs::open("memory:").map_err(BuildError::Blobs)?;
                Some(EncryptedBlobs::new(blobs, Keyring::generate().into()))
            }
            (encrypted_blobs, _) => encrypted_blobs,
        };
        let store: Arc<dyn Store> = match self.store {
            #[cfg(feature = "sqlite")]
            StoreChoice::Memory => Arc::new(SqliteStore::memory(clock)?),
            #[cfg(not(feature = "sqlite"))]
            StoreChoice::Memory => return Err(BuildError::NoStore),
            #[cfg(feature = "sqlite")]
            StoreChoice::Sqlite(path) => {
                // Opening may have to recover a write-ahead log: not on the runtime's own threads.
                let opening = tokio::task::spawn_blocking(move || SqliteStore::open(path, clock));
                Arc::new(opening.await.map_err(|error| BuildError::Thread(error.into()))??)
            }
            #[cfg(feature = "postgres")]
            StoreChoice::Postgres(url) => {
                let opened = crate::store::postgres::PostgresStore::open(&url, clock).await;
                Arc::new(opened.map_err(BuildError::Postgres)?)
            }
            StoreChoice::Given(store) => store,
        };
        let replica = self.replica.unwrap_or_else(random_replica);
        let work_root = self.work_root.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("longhaul-{}", std::process::id()))
        });
        let delivery_worker = match self.delivery_worker {
            Some((kind, jobs, windows)) => {
                if kind.checked_name()?.as_str() != DELIVERY_KIND {
                    return Err(BuildError::DeliveryKind(kind.name().to_owned()));
                }
                Some(DeliveryWorker { kind: Arc::new(kind), jobs, windows })
            }
            None => None,
        };
        let shared = Arc::new(Shared {
            wake_deliveries: store.outbox_notify(),
            delivery_worker,
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
            wake: Arc::default(),
            watchers: Watchers::default(),
            retry_after_estimator: RetryAfterEstimator::default(),
            admission: Admission::new(self.pending),
            remote_kinds: RemoteKinds::default(),
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
