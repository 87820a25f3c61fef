//! Builder of in-process test servers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use longhaul::blob::{Blobs, Keyring};
use longhaul::job::{Name, Rate};
use longhaul::store::FlowLimit;
use longhaul::{Clock, Engine, EngineBuilder, Kind, Timestamp};
use longhaul_net::egress;
use longhaul_server::api::{AppState, Webhooks, router};
use longhaul_server::auth::{Auth, AuthSettings};
use longhaul_server::secret::Secret;
use longhaul_server::webhooks::{Secrets, WebhookDispatcher, WebhookSettings};
use tokio::sync::Semaphore;

use super::backend::Storage;
use super::test_server::{ClockTicker, TestServer};
use super::{Backend, kinds};

/// Deliveries in flight, unless a test sets its own webhook settings.
const DELIVERIES_MAX: usize = 64;

/// Options of a [`TestServer`].
///
/// By default: SQLite in memory, no API keys, the machine's clock for jobs and keys, and a clock
/// that never moves for requests that wait, so that such a request ends only when its job changes.
pub(crate) struct TestServerBuilder {
    backend: Backend,
    clock: Clock,
    key_clock: Clock,
    request_clock: Clock,
    is_ticking: bool,
    keyring: Arc<Keyring>,
    egress: egress::Client,
    auth: AuthSettings,
    webhooks: WebhookSettings,
    state_webhook_secret: Option<Secret>,
    concurrency: Option<usize>,
    kinds: Vec<Kind>,
    worker: Option<(Kind, usize)>,
}

impl TestServerBuilder {
    pub(super) fn new() -> Self {
        let loopback = ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        Self {
            backend: Backend::Memory,
            clock: Clock::system(),
            key_clock: Clock::system(),
            request_clock: Clock::manual(Timestamp::from_millis(0)),
            is_ticking: false,
            keyring: Arc::new(Keyring::generate()),
            egress: egress::Client::new(egress::Policy::new(loopback)),
            auth: AuthSettings::default(),
            webhooks: WebhookSettings {
                first_retry: Duration::from_millis(10),
                concurrency: DELIVERIES_MAX,
                ..WebhookSettings::default()
            },
            state_webhook_secret: None,
            concurrency: None,
            kinds: Vec::new(),
            worker: None,
        }
    }

    pub(crate) fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Gives jobs, keys and deliveries a clock that follows the real time, besides the jumps that a
    /// test makes with [`Clock::advance`]. It starts at the real time, because keys and signatures
    /// are checked against that. Requests wait in real time.
    pub(crate) fn ticking_clock(mut self) -> Self {
        self.clock = Clock::manual(Clock::system().now());
        self.key_clock = self.clock.clone();
        self.request_clock = Clock::system();
        self.is_ticking = true;
        self
    }

    /// Makes API keys expire by the clock that waiting requests use.
    pub(crate) fn expire_keys_by_request_clock(mut self) -> Self {
        self.request_clock = Clock::manual(Clock::system().now());
        self.key_clock = self.request_clock.clone();
        self
    }

    pub(crate) fn require_keys(mut self) -> Self {
        self.auth.require_keys = true;
        self
    }

    pub(crate) fn auth(mut self, settings: AuthSettings) -> Self {
        self.auth = settings;
        self
    }

    pub(crate) fn webhooks(mut self, settings: WebhookSettings) -> Self {
        self.webhooks = settings;
        self
    }

    /// Sets the secret that signs deliveries of chat states.
    pub(crate) fn state_webhook_secret(mut self, secret: Option<Secret>) -> Self {
        self.state_webhook_secret = secret;
        self
    }

    /// Denies outgoing requests to this machine, as a server does by default.
    pub(crate) fn deny_loopback(mut self) -> Self {
        self.egress = egress::Client::new(egress::Policy::new([]));
        self
    }

    pub(crate) fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    pub(crate) fn kind(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Runs up to `jobs` jobs of this kind on a second replica, which shares the Postgres database.
    pub(crate) fn worker(mut self, kind: Kind, jobs: usize) -> Self {
        self.worker = Some((kind, jobs));
        self
    }

    /// Returns the clock of jobs, keys and deliveries.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub(crate) fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keyring)
    }

    pub(crate) fn egress(&self) -> egress::Client {
        self.egress.clone()
    }

    pub(crate) async fn start(self) -> TestServer {
        self.start_with(|_| {}).await
    }

    /// Starts the server and creates its first API key.
    pub(crate) async fn start_with_key(self) -> (TestServer, String) {
        let server = self.start().await;
        let key = server.state.auth.create_first_key().await.unwrap().unwrap();
        (server, key.text.to_string())
    }

    /// Starts the server after `change` has edited its state.
    pub(crate) async fn start_with(self, change: impl FnOnce(&mut AppState)) -> TestServer {
        let (storage, stores) = Storage::open(self.backend, &self.clock).await;
        let auth_settings = AuthSettings { shared: self.backend == Backend::Postgres, ..self.auth };
        let auth =
            Auth::new(stores.accounts, Arc::clone(&self.keyring), self.key_clock, auth_settings);
        let hooks = Webhooks {
            endpoints: stores.endpoints,
            secrets: Secrets::new(Arc::clone(&self.keyring)).for_states(self.state_webhook_secret),
            client: self.egress,
        };
        let dispatcher = WebhookDispatcher::new(
            Arc::clone(&hooks.endpoints),
            hooks.secrets.clone(),
            hooks.client.clone(),
            self.clock.clone(),
            self.webhooks,
        );
        let (gate, runs) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut engine = self.kinds.into_iter().fold(Engine::builder(), EngineBuilder::register);
        engine = kinds::all(&gate, &runs).into_iter().fold(engine, EngineBuilder::register);
        if let Some(jobs) = self.concurrency {
            engine = engine.concurrency(jobs);
        }
        let mail = FlowLimit::running(10).and_rate(Rate::new(100, Duration::from_mins(1)));
        let engine = engine
            .clock(self.clock.clone())
            .delivery_worker(dispatcher.kind(), self.webhooks.concurrency, dispatcher.windows())
            .store(stores.jobs)
            .blobs(Blobs::open(&storage.blobs()).unwrap(), self.keyring)
            .replica("test")
            .queue_limit(Name::new("mail").unwrap(), mail)
            .start()
            .await
            .unwrap();
        let worker = match self.worker {
            Some((kind, jobs)) => {
                let store = storage.open_again(&self.clock).await;
                let worker = Engine::builder().clock(self.clock.clone()).store(store);
                let worker = worker.replica("worker").register(kind).concurrency(jobs);
                Some(worker.start().await.unwrap())
            }
            None => None,
        };
        let mut state = AppState::new(engine, auth, hooks);
        state.clock = self.request_clock;
        change(&mut state);
        TestServer {
            router: router(state.clone()),
            state,
            _ticker: self.is_ticking.then(|| ClockTicker::start(self.clock.clone())),
            clock: self.clock,
            gate,
            runs,
            _worker: worker,
            storage,
        }
    }
}
