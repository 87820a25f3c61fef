//! Assembles a server from a configuration: engine, kinds, API and listener.

mod kinds;
mod payload_store;
mod postgres;
mod replica_name;
mod work_dir;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul::blob::{BlobError, Blobs, KeyError, Keyring};
use longhaul::store::accounts::Accounts;
use longhaul::store::endpoints::Endpoints;
use longhaul::store::postgres::OpenError;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{Store, StoreError};
use longhaul::{BuildError, Clock, Engine};
use longhaul_kinds::chat::{Chat, ModelServerError};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::http::metrics::Metrics;
use crate::api::{
    AppContext, AppState, LoadShedder, ProxyRoutes, Settings, StreamAuthorizations, Uploads,
    Webhooks, probes, router,
};
use crate::auth::{Auth, AuthSettings, IssuedKey, Issuer};
use crate::config::{Config, Database};
use crate::listen::{self, ListenerConfig, Tls, TlsError, raise_open_files};
use crate::webhooks::{Secrets, WebhookDispatcher};
pub use kinds::{KindError, program_user};
use longhaul_net::egress;
pub use payload_store::{check_keys, existing_keyring};
use work_dir::ProcessWorkDir;

/// Interval of metrics maintenance, needed even if no scraper reads them.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);
/// Additional time before the engine drops a cancelled handler, so that its kind can stop the program.
const CANCEL_MARGIN: Duration = Duration::from_secs(5);
/// Default limit on pending diagrams of one tenant.
const DIAGRAMS_PENDING_MAX: u64 = 1_000;

/// A started server: it runs jobs, and serves requests after [`run`](Self::run).
#[derive(Debug)]
pub struct Server {
    state: AppState,
    /// None for a worker.
    api: Option<BoundSocket>,
    /// Serves only health and metrics.
    metrics: Option<BoundSocket>,
    front: ListenerConfig,
    work: ProcessWorkDir,
    first_key: Option<IssuedKey>,
}

#[derive(Debug)]
struct BoundSocket {
    listener: TcpListener,
    address: SocketAddr,
}

impl BoundSocket {
    async fn open(address: Option<SocketAddr>) -> Result<Option<Self>, StartError> {
        let Some(address) = address else { return Ok(None) };
        let in_use = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(in_use)?;
        let address = listener.local_addr().map_err(in_use)?;
        Ok(Some(Self { listener, address }))
    }
}

/// Error of a start, by what the operator can do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Check the directory and its permissions.
    #[error("cannot use the data directory {}: {source}", path.display())]
    Data { path: PathBuf, source: io::Error },
    /// Stop the program that uses the address, or choose another one.
    #[error("cannot listen on {address}: {source}{}", free_port_hint(*address, source))]
    Listen { address: SocketAddr, source: io::Error },
    /// Check the certificate and its key.
    #[error("cannot use TLS: {0}")]
    Tls(#[from] TlsError),
    /// Check the key file.
    #[error("cannot use the server keys: {0}")]
    Keys(#[from] KeyError),
    /// Check the blob store and its configuration.
    #[error("cannot store payloads in {location}: {source}")]
    Blobs {
        /// Configured URL without secrets.
        location: String,
        source: BlobError,
    },
    /// Restore the missing key, or delete the stored data.
    #[error(
        "the data in {location} is encrypted with server key {newest:?}, and {found}; restore that key, \
         or delete {markers} to give up the stored data, and start again"
    )]
    ForeignKeys {
        /// Configured URL without secrets.
        location: String,
        /// Id of the missing key.
        newest: String,
        /// Keys that the server has.
        found: String,
        /// Object that records the keys in use.
        markers: String,
    },
    /// Fix the configuration of the kind.
    #[error("cannot run kind {kind:?}: {source}")]
    Kind { kind: String, source: KindError },
    /// Fix the configuration of the target.
    #[error("cannot use a target in [chat]: {0}")]
    Chat(#[from] ModelServerError),
    /// Install root certificates.
    #[error("cannot set up requests to the issuer in [oidc]: {0}")]
    Issuer(String),
    /// Check the database.
    #[error("cannot read the API keys: {0}")]
    Accounts(StoreError),
    /// Start the database, or fix its address.
    #[error("cannot connect to Postgres at {address}: {reason}")]
    Postgres { address: String, reason: String },
    #[error(transparent)]
    Engine(#[from] BuildError),
}

impl StartError {
    /// Shortens the text of a failed connection, which begins with the address.
    pub fn postgres(error: OpenError) -> Self {
        let (OpenError::Unreachable(text) | OpenError::Connect(text)) = error else {
            return Self::Engine(BuildError::Postgres(error));
        };
        let (address, reason) = text.split_once(": ").unwrap_or(("", &text));
        let reason = reason.trim_start_matches("error connecting to server: ");
        let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
        Self::Postgres { address: address.to_owned(), reason }
    }
}

/// Names a way out of an address that is in use.
fn free_port_hint(address: SocketAddr, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::AddrInUse {
        format!("; `longhaul serve --listen {}:0` picks a free port", address.ip())
    } else {
        String::new()
    }
}

/// Reason for the end of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A stop was requested.
    Stopped,
    /// The database failed: restart, or restore a backup.
    StoreFailed,
}

impl Server {
    /// Opens the ports and the database, and starts to run jobs.
    ///
    /// The ports come first, so that a second server fails before it touches the data of the first.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        let api =
            BoundSocket::open(Some(config.listen).filter(|_| config.role.serves_http())).await?;
        let metrics = BoundSocket::open(config.metrics_listen).await?;
        let tls = match config.tls.as_ref().filter(|_| api.is_some()) {
            Some(files) => Some(Arc::new(Tls::load(files.clone(), Clock::system())?)),
            None => None,
        };
        let unusable = |source| StartError::Data { path: config.data.clone(), source };
        create_private(&config.data).map_err(unusable)?;
        let recorder = Metrics::installed();
        let clock = Clock::system();
        let ((store, accounts, endpoints), after_outage) = store(config, &clock).await?;
        let blob_store = payload_store::open(config).await?;
        let (keyring, issuer) = (Arc::clone(&blob_store.1), issuer(config, &clock)?);
        let states_secret = config.chat.as_ref().and_then(|chat| chat.webhook_secret.clone());
        let hooks = Webhooks {
            endpoints,
            secrets: Secrets::new(Arc::clone(&keyring)).for_states(states_secret),
            client: egress::Client::new(config.egress.clone()),
        };
        let dispatcher = dispatcher(config, &hooks, &clock);
        let auth =
            Auth::with_issuer(accounts, keyring, clock.clone(), auth_settings(config), issuer);
        let first_key = if config.auth.require_keys && config.role.serves_http() {
            auth.create_first_key().await.map_err(StartError::Accounts)?
        } else {
            None
        };
        let work = ProcessWorkDir::acquire(&config.work, has_program_users(config))
            .map_err(|source| StartError::Data { path: config.work.clone(), source })?;
        let chat = kinds::chat(config, &clock)?;
        let start = async || {
            let given = EngineParts {
                work: &work,
                blob_store: &blob_store,
                chat: chat.as_ref(),
                dispatcher: &dispatcher,
                client: &hooks.client,
                after_outage,
            };
            engine(config, given, store.clone(), clock.clone()).await
        };
        let engine = replica_name::start_when_free(start).await?;
        let state = AppState::from(AppContext {
            engine,
            caller_urls: kinds::kinds_with_caller_urls(config),
            proxies: ProxyRoutes::new(config.proxies.clone(), Arc::clone(&blob_store.1)),
            auth,
            webhooks: hooks,
            chat,
            #[cfg(feature = "render")]
            render: kinds::render_api(config, &blob_store.1),
            stripe_secret: config.stripe_secret.clone(),
            settings: settings(config),
            load_shedder: LoadShedder::new(config.limits.requests_in_flight_max, clock.clone()),
            origins: config.http.cors_origins.clone(),
            hosts: config.http.hosts.clone(),
            clock,
            stop: CancellationToken::new(),
            metrics: recorder,
            uploads: Uploads::default(),
            streams: StreamAuthorizations::default(),
        });
        let limits = config.conn_limits().within(raise_open_files());
        let front = ListenerConfig { limits, tls, proxies: config.http.trusted_proxies.clone() };
        Ok(Self { state, api, metrics, front, work, first_key })
    }

    /// Returns the address of the API, with the actual port.
    pub fn address(&self) -> Option<SocketAddr> {
        self.api.as_ref().map(|socket| socket.address)
    }

    /// Takes the admin key that was created for an empty database, to print it once.
    pub fn take_first_key(&mut self) -> Option<IssuedKey> {
        self.first_key.take()
    }

    /// Returns `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.front.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the address for health and metrics, which is always plain HTTP.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|socket| socket.address)
    }

    /// Serves requests until `stop`, then finishes or releases running jobs.
    ///
    /// Waiting requests and event streams end at once; jobs and other responses get the configured
    /// grace, at the same time.
    pub async fn run(self, stop: CancellationToken) -> StopReason {
        let Self { state, api, metrics, front, work, first_key: _ } = self;
        let (engine, stopping) = (state.engine.clone(), state.stop.clone());
        let mut serving = JoinSet::new();
        if let Some(tls) = &front.tls {
            serving.spawn(Arc::clone(tls).reload_until(stopping.clone()));
        }
        // Scrapers and probes run beside the server and do not know its certificate.
        let plain = ListenerConfig { tls: None, ..front.clone() };
        let sockets =
            [(api, router(state.clone()), front), (metrics, probes(state.clone()), plain)];
        for (socket, router, front) in sockets {
            if let Some(BoundSocket { listener, .. }) = socket {
                serving.spawn(listen::serve(listener, router, front, stopping.clone()));
            }
        }
        let upkeep = tokio::spawn(run_background(state.metrics.clone(), stopping.clone()));
        let auth = state.auth.clone();
        let auth = tokio::spawn(auth.run_background(engine.clone(), stopping.clone()));
        let ended = tokio::select! {
            () = stop.cancelled() => StopReason::Stopped,
            () = engine.store_failed() => StopReason::StoreFailed,
        };
        stopping.cancel();
        if ended == StopReason::Stopped {
            tracing::info!(jobs = engine.running(), "stopping");
            let served = async {
                while let Some(served) = serving.join_next().await {
                    if let Err(error) = served {
                        tracing::error!(%error, "listener failed");
                    }
                }
            };
            tokio::join!(served, engine.stop());
            drop(auth.await);
        }
        // Lets responses about the failed database finish.
        serving.detach_all();
        upkeep.abort();
        drop(work);
        ended
    }
}

async fn run_background(metrics: Metrics, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(METRICS_UPKEEP)).await.is_some() {
        metrics.upkeep();
    }
}

/// The database, by the traits of its users.
type Stores = (Arc<dyn Store>, Arc<dyn Accounts>, Arc<dyn Endpoints>);

/// Opens the database. Also returns whether it was not reachable at first.
async fn store(config: &Config, clock: &Clock) -> Result<(Stores, bool), StartError> {
    let clock = clock.clone();
    let mut after_outage = false;
    let opened = match &config.database {
        Database::Memory => stores(SqliteStore::memory(clock).map_err(BuildError::Open)?),
        Database::Postgres(url) => {
            let wait = config.wait_for_database;
            let (opened, has_waited) =
                postgres::open_when_reachable(url.expose(), &clock, wait).await?;
            after_outage = has_waited;
            stores(opened)
        }
        Database::Sqlite(path) => {
            let path = path.clone();
            // Blocking, because it may have to recover a write-ahead log.
            let opening = tokio::task::spawn_blocking(move || SqliteStore::open(path, clock));
            let opened = opening.await.map_err(|error| BuildError::Thread(error.into()))?;
            stores(opened.map_err(BuildError::Open)?)
        }
    };
    Ok((opened, after_outage))
}

fn stores<S: Store + Accounts + Endpoints + 'static>(opened: S) -> Stores {
    let opened = Arc::new(opened);
    (opened.clone(), opened.clone(), opened)
}

/// Dependencies of the engine besides the configuration.
struct EngineParts<'a> {
    work: &'a ProcessWorkDir,
    blob_store: &'a (Blobs, Arc<Keyring>),
    chat: Option<&'a Chat>,
    dispatcher: &'a WebhookDispatcher,
    client: &'a egress::Client,
    after_outage: bool,
}

async fn engine(
    config: &Config,
    parts: EngineParts<'_>,
    store: Arc<dyn Store>,
    clock: Clock,
) -> Result<Engine, StartError> {
    let EngineParts { work, blob_store, chat, dispatcher, client, after_outage } = parts;
    let (blobs, keyring) = blob_store;
    let deps = kinds::KindDeps { work_root: work.path(), client, keyring, clock: &clock };
    let mut builder = Engine::builder()
        .clock(clock.clone())
        .replica(config.replica.as_str())
        .role(config.role.as_str())
        .lease(config.lease.duration, config.lease.renew)
        .rescue_interval(config.lease.sweep)
        .after_outage(after_outage)
        .stop_grace(config.worker.stop_grace)
        .cancel_grace(config.worker.cancel_grace + CANCEL_MARGIN)
        .retention(config.retention)
        .payload_retention(config.payload_retention)
        .blobs(blobs.clone(), Arc::clone(keyring))
        .work_root(work.path())
        .limits(config.limits.job())
        .tenant_limit(config.limits.tenant_flow())
        .concurrency(kinds::concurrency(config, chat))
        .delivery_worker(dispatcher.kind(), config.webhooks.concurrency, dispatcher.windows())
        .register(kinds::demo(config));
    if let Some(chat) = chat {
        builder = builder.register(kinds::chat_kind(chat, config));
    }
    if let Some(render) = kinds::render(config) {
        let queue = render.settings().queue.clone();
        builder = builder.register(render).queue_pending_max(queue, DIAGRAMS_PENDING_MAX);
    }
    for (name, kind) in &config.kinds {
        let kind = kinds::configured_kind(name, kind, config, &deps)
            .map_err(|source| StartError::Kind { kind: name.to_string(), source })?;
        builder = builder.register(kind);
    }
    for (name, limit) in &config.queues {
        builder = builder.queue_limit(name.clone(), limit.flow);
        if let Some(max) = limit.pending_max {
            builder = builder.queue_pending_max(name.clone(), max);
        }
    }
    Ok(builder.store(store).start().await?)
}

fn dispatcher(config: &Config, hooks: &Webhooks, clock: &Clock) -> WebhookDispatcher {
    WebhookDispatcher::new(
        Arc::clone(&hooks.endpoints),
        hooks.secrets.clone(),
        hooks.client.clone(),
        clock.clone(),
        config.webhooks,
    )
}

/// Does not contact the issuer; its keys are fetched for the first token.
fn issuer(config: &Config, clock: &Clock) -> Result<Option<Issuer>, StartError> {
    let settings = config.oidc.clone().filter(|_| config.role.serves_http());
    let new = |settings| Issuer::new(settings, clock.clone());
    settings.map(new).transpose().map_err(StartError::Issuer)
}

fn auth_settings(config: &Config) -> AuthSettings {
    AuthSettings {
        require_keys: config.auth.require_keys,
        grace: config.auth.past_due_grace,
        requests_per_s: config.limits.requests_per_s_per_tenant,
        failures_per_minute: config.auth.failures_per_minute,
        shared: config.database.is_shared(),
    }
}

fn settings(config: &Config) -> Settings {
    Settings {
        require_idempotency_key: config.require_idempotency_key,
        sync_wait_max: config.sync_wait_max,
        list_limit_max: config.limits.list_limit_max,
        batch_jobs_max: config.limits.batch_jobs_max,
        batch_bytes_max: config.limits.batch_bytes_max,
        cancel_disconnected_chats: config.chat.as_ref().is_none_or(|chat| chat.cancel_disconnected),
        chat_unreachable_wait: config
            .chat
            .as_ref()
            .map_or(Settings::default().chat_unreachable_wait, |chat| chat.unreachable_wait),
        ..Settings::default()
    }
}

/// Returns whether this process runs programs as other users.
fn has_program_users(config: &Config) -> bool {
    config.role.runs_jobs() && config.kinds.values().any(|kind| kind.user.is_some())
}

/// Creates a directory that only its owner can read. An existing one is unchanged.
pub(crate) fn create_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
