//! A whole server from a configuration: engine, kinds, API and listener, from start to stop.

mod kinds;
mod payload_store;
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
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{Store, StoreError};
use longhaul::{BuildError, Clock, Engine};
use longhaul_kinds::chat::{Chat, ModelServerError};
use longhaul_kinds::command::CommandError;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::http::metrics::Metrics;
use crate::api::{AppState, LoadShedder, ProxyRoutes, Settings, Uploads, Webhooks, probes, router};
use crate::auth::{Auth, AuthSettings, IssuedKey, Issuer};
use crate::config::{Config, Database};
use crate::listen::{self, ListenerConfig, Tls, TlsError, raise_open_files};
use crate::secret::Secret;
use crate::webhooks::{Secrets, WebhookDispatcher};
use longhaul_net::egress;
pub use payload_store::check_keys;
use work_dir::WorkDir;

/// How often recorded metrics are put away, whether or not somebody reads them.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);
/// A cancelled program is stopped by its kind; the engine drops the handler only well after that.
const CANCEL_MARGIN: Duration = Duration::from_secs(5);
/// Diagrams of one tenant that may wait, unless the configuration says otherwise of their queue.
const DIAGRAMS_PENDING_MAX: u64 = 1_000;

/// A server that has all it needs: its jobs run, and callers are answered once it [`run`](Self::run)s.
#[derive(Debug)]
pub struct Server {
    state: AppState,
    /// None for a worker.
    api: Option<BoundSocket>,
    /// For health and metrics alone.
    metrics: Option<BoundSocket>,
    front: ListenerConfig,
    work: WorkDir,
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
        let taken = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(taken)?;
        let address = listener.local_addr().map_err(taken)?;
        Ok(Some(Self { listener, address }))
    }
}

/// Why a server could not start, by what the operator can do about it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Look at the folder and its permissions.
    #[error("cannot use the data folder {}: {source}", path.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Stop what listens there, or take another address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Look at the certificate and its key.
    #[error("cannot speak TLS: {0}")]
    Tls(#[from] TlsError),
    /// Look at the file with the server's keys.
    #[error("cannot use the server's keys: {0}")]
    Keys(#[from] KeyError),
    /// Look at the blob store and its configuration.
    #[error("cannot keep payloads in {place}: {source}")]
    Blobs {
        /// As configured, without what may be secret.
        place: String,
        /// What is wrong.
        source: BlobError,
    },
    /// Put the key back that is missing, or begin anew.
    #[error(
        "what is in {place} is sealed with the server key {newest:?}, and {looked}; put that key back, \
         or if all that is stored there may be lost, delete {marks} and start again"
    )]
    ForeignKeys {
        /// As configured, without what may be secret.
        place: String,
        /// The id of the key that is missing.
        newest: String,
        /// Where it was looked for, and what was found.
        looked: String,
        /// What holds this server back.
        marks: String,
    },
    /// Put the kind's declaration right.
    #[error("the kind {kind:?} cannot be run: {source}")]
    Kind {
        /// Its name.
        kind: String,
        /// What is wrong with it.
        source: CommandError,
    },
    /// Put the target's description right.
    #[error("a target in [chat] cannot be used: {0}")]
    Chat(#[from] ModelServerError),
    /// Install root certificates.
    #[error("cannot ask the issuer in [oidc] for its keys: {0}")]
    Issuer(String),
    /// Look at the database.
    #[error("cannot read the API keys: {0}")]
    Accounts(StoreError),
    /// What the engine says.
    #[error(transparent)]
    Engine(#[from] BuildError),
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It was asked to.
    Stopped,
    /// Its store is broken: start it again, or restore a backup.
    StoreFailed,
}

impl Server {
    /// Makes the data folder, takes the ports, opens the store and starts running jobs.
    ///
    /// The ports come first: whoever starts a second server by mistake finds out before it touches
    /// the data of the first.
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
        let (store, accounts, endpoints) = store(&config.database, &clock).await?;
        let vault = payload_store::open(config).await?;
        let (keyring, issuer) = (Arc::clone(&vault.1), issuer(config, &clock)?);
        let hooks = Webhooks {
            endpoints,
            secrets: Secrets::new(Arc::clone(&keyring)).for_states(states_secret(config)),
            client: egress::Client::new(config.egress.clone()),
        };
        let courier = courier(config, &store, &hooks, &clock);
        let auth =
            Auth::with_issuer(accounts, keyring, clock.clone(), auth_settings(config), issuer);
        let first_key = if config.auth.require_keys && config.role.serves_http() {
            auth.create_first_key().await.map_err(StartError::Accounts)?
        } else {
            None
        };
        let work = WorkDir::acquire(&config.work)
            .map_err(|source| StartError::Data { path: config.work.clone(), source })?;
        let chat = kinds::chat(config, &clock)?;
        let start = async || {
            let given = EngineParts {
                work: &work,
                vault: &vault,
                chat: chat.as_ref(),
                courier: &courier,
                client: &hooks.client,
            };
            engine(config, given, store.clone(), clock.clone()).await
        };
        let engine = replica_name::start_when_free(start).await?;
        let state = AppState {
            engine,
            caller_urls: kinds::kinds_with_caller_urls(config),
            proxies: ProxyRoutes::new(config.proxies.clone(), Arc::clone(&vault.1)),
            auth,
            webhooks: hooks,
            chat,
            #[cfg(feature = "render")]
            render: kinds::render_api(config, &vault.1),
            stripe_secret: config.stripe_secret.clone(),
            settings: settings(config),
            load_shedder: LoadShedder::new(config.limits.requests_in_flight_max, clock.clone()),
            origins: config.http.cors_origins.clone(),
            clock,
            stop: CancellationToken::new(),
            metrics: recorder,
            uploads: Uploads::default(),
        };
        let limits = config.conn_limits().within(raise_open_files());
        let front = ListenerConfig { limits, tls, proxies: config.http.trusted_proxies.clone() };
        Ok(Self { state, api, metrics, front, work, first_key })
    }

    /// Where it listens, if it does: the port that was picked if none was named.
    pub fn address(&self) -> Option<SocketAddr> {
        self.api.as_ref().map(|socket| socket.address)
    }

    /// The admin key that was made for an empty store: to be shown once.
    pub fn take_first_key(&mut self) -> Option<IssuedKey> {
        self.first_key.take()
    }

    /// What the API speaks: `https`, or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.front.tls.is_some() { "https" } else { "http" }
    }

    /// Where health and metrics alone are answered, if anywhere: always in clear.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|socket| socket.address)
    }

    /// Answers callers until `stop`, then finishes or gives back what runs.
    ///
    /// Held requests and event streams end at once, jobs and other answers have the configured
    /// grace, both at the same time.
    pub async fn run(self, stop: CancellationToken) -> StopReason {
        let Self { state, api, metrics, front, work, first_key: _ } = self;
        let (engine, stopping) = (state.engine.clone(), state.stop.clone());
        let mut serving = JoinSet::new();
        if let Some(tls) = &front.tls {
            serving.spawn(Arc::clone(tls).reload_until(stopping.clone()));
        }
        // What scrapes and probes stands beside the server, and knows no certificate.
        let in_clear = ListenerConfig { tls: None, ..front.clone() };
        let ways =
            [(api, router(state.clone()), front), (metrics, probes(state.clone()), in_clear)];
        for (socket, router, front) in ways {
            if let Some(BoundSocket { listener, .. }) = socket {
                serving.spawn(listen::serve(listener, router, front, stopping.clone()));
            }
        }
        let upkeep = tokio::spawn(run_background(state.metrics, stopping.clone()));
        let auth = tokio::spawn(state.auth.run_background(engine.clone(), stopping.clone()));
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
                        tracing::error!(%error, "the listener failed");
                    }
                }
            };
            tokio::join!(served, engine.stop());
            drop(auth.await);
        }
        // Whoever is just being told that the store is broken is told to the end.
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

/// The one database, as the engine and as the door see it.
type Stores = (Arc<dyn Store>, Arc<dyn Accounts>, Arc<dyn Endpoints>);

/// Opens the database.
async fn store(database: &Database, clock: &Clock) -> Result<Stores, StartError> {
    let clock = clock.clone();
    let (path, clock) = match database {
        Database::Memory => {
            let opened = Arc::new(SqliteStore::memory(clock).map_err(BuildError::Open)?);
            return Ok((opened.clone(), opened.clone(), opened));
        }
        Database::Postgres(url) => {
            let opened = PostgresStore::open(url.expose(), clock).await;
            let opened = Arc::new(opened.map_err(BuildError::Postgres)?);
            return Ok((opened.clone(), opened.clone(), opened));
        }
        Database::Sqlite(path) => (path.clone(), clock),
    };
    // Opening may have to recover a write-ahead log: not on the runtime's own threads.
    let opening = tokio::task::spawn_blocking(move || SqliteStore::open(path, clock));
    let opened = opening.await.map_err(|error| BuildError::Thread(error.into()))?;
    let opened = Arc::new(opened.map_err(BuildError::Open)?);
    Ok((opened.clone(), opened.clone(), opened))
}

/// What an engine is made from besides the configuration.
struct EngineParts<'a> {
    work: &'a WorkDir,
    vault: &'a (Blobs, Arc<Keyring>),
    chat: Option<&'a Chat>,
    courier: &'a WebhookDispatcher,
    client: &'a egress::Client,
}

async fn engine(
    config: &Config,
    EngineParts { work, vault: (blobs, keyring), chat, courier, client }: EngineParts<'_>,
    store: Arc<dyn Store>,
    clock: Clock,
) -> Result<Engine, replica_name::StartFailure<StartError>> {
    let deps = kinds::KindDeps { work_root: work.path(), client, keyring, clock: &clock };
    let mut builder = Engine::builder()
        .clock(clock.clone())
        .replica(config.replica.as_str())
        .role(config.role.as_str())
        .lease(config.lease.duration, config.lease.renew)
        .rescue_interval(config.lease.sweep)
        .stop_grace(config.worker.stop_grace)
        .cancel_grace(config.worker.cancel_grace + CANCEL_MARGIN)
        .retention(config.retention)
        .payload_retention(config.payload_retention)
        .blobs(blobs.clone(), Arc::clone(keyring))
        .work_root(work.path())
        .limits(config.limits.job())
        .tenant_limit(config.limits.tenant_flow())
        .concurrency(kinds::concurrency(config, chat))
        .delivery_worker(courier.kind(), config.webhooks.concurrency, courier.windows())
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
            .map_err(|source| StartError::Kind { kind: name.to_string(), source })
            .map_err(replica_name::StartFailure::Other)?;
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

/// What signs deliveries of states.
fn states_secret(config: &Config) -> Option<Secret> {
    config.chat.as_ref().and_then(|chat| chat.webhook_secret.clone())
}

/// What delivers to webhooks.
fn courier(
    config: &Config,
    store: &Arc<dyn Store>,
    hooks: &Webhooks,
    clock: &Clock,
) -> WebhookDispatcher {
    WebhookDispatcher::new(
        Arc::clone(store),
        Arc::clone(&hooks.endpoints),
        hooks.secrets.clone(),
        hooks.client.clone(),
        clock.clone(),
        config.webhooks,
    )
}

/// An issuer that is down is none of this: it is asked when there is a token to judge.
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
        ..Settings::default()
    }
}

/// For the owner alone: it holds what jobs are about. A folder that is there stays as it is.
pub(crate) fn create_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
