//! A server on a real socket whose paths lead to a target, and a clock that tests own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method};
use longhaul::blob::{Blobs, Keyring};
use longhaul::store::Store;
use longhaul::store::accounts::Accounts;
use longhaul::store::endpoints::Endpoints;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Engine, Retry, Timestamp};
use longhaul_kinds::http::{HttpKind, TargetUrl};
use longhaul_net::egress;
use longhaul_server::api::{AppState, CallerUrls, ProxyRoute, ProxyRoutes, Webhooks, router};
use longhaul_server::auth::{Auth, AuthSettings};
use longhaul_server::listen::{ListenerConfig, serve};
use longhaul_server::webhooks::Secrets;
use reqwest::redirect;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::e2e::database::Database;
use crate::e2e::http;
use crate::listen::server::PATIENT;

/// How long the target of `/once` may take: less than a lease, so that time can jump by it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// What the operator sends to the target of `/own`.
pub(super) const OPERATORS: &str = "Bearer the-operators-own";
/// The house's time goes on with the real one, besides the jumps that a test makes.
const TICK: Duration = Duration::from_millis(10);
const ATTEMPTS: Retry =
    Retry { max_attempts: 3, first: Duration::from_millis(1), max: Duration::from_millis(1) };

pub(super) struct House {
    pub(super) address: SocketAddr,
    pub(super) clock: Clock,
    pub(super) client: reqwest::Client,
    /// Sent with every request if there is one.
    pub(super) key: Option<String>,
    ticks: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    folder: TempDir,
    database: Option<Database>,
    pub(super) engine: Engine,
}

/// How a house may differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// On both stores, or this one.
    pub(super) postgres: bool,
    pub(super) require_keys: bool,
    /// Whether URLs of callers may lead to this machine.
    pub(super) loopback: bool,
}

impl House {
    /// A house whose paths lead to this target.
    pub(super) async fn before(target: SocketAddr, wish: Wish) -> Self {
        let clock = Clock::manual(Clock::system().now());
        let folder = tempfile::tempdir().unwrap();
        if wish.postgres {
            let database = Database::create().await;
            let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
            return Self::on(Arc::new(store), target, wish, clock, folder, Some(database)).await;
        }
        let store = SqliteStore::open(folder.path().join("jobs.db"), clock.clone()).unwrap();
        Self::on(Arc::new(store), target, wish, clock, folder, None).await
    }

    async fn on<S: Store + Accounts + Endpoints + 'static>(
        store: Arc<S>,
        target: SocketAddr,
        wish: Wish,
        clock: Clock,
        folder: TempDir,
        database: Option<Database>,
    ) -> Self {
        let keyring = Arc::new(Keyring::generate());
        let settings = AuthSettings { require_keys: wish.require_keys, ..AuthSettings::default() };
        let auth = Auth::new(store.clone(), Arc::clone(&keyring), clock.clone(), settings);
        let made = if wish.require_keys { auth.create_first_key().await.unwrap() } else { None };
        let key = made.map(|made| made.text.to_string());
        let allowed = ["127.0.0.0/8".parse().unwrap()];
        let policy = egress::Policy::new(allowed.into_iter().filter(|_| wish.loopback));
        let client = egress::Client::new(policy);
        let kind = |name: &str| {
            let target = TargetUrl::parse(&format!("http://{target}/own?k=1")).unwrap();
            let kind = HttpKind::new(name, target).clock(clock.clone());
            kind.keyring(Arc::clone(&keyring))
        };
        let mut own = HeaderMap::new();
        own.insert("authorization", HeaderValue::from_static(OPERATORS));
        let blobs = Blobs::open(&format!("file:{}", folder.path().join("blobs").display()));
        let engine = Engine::builder()
            .clock(clock.clone())
            .store(store.clone())
            .blobs(blobs.unwrap(), Arc::clone(&keyring))
            .replica("test")
            .register(kind("report").build().retry(ATTEMPTS))
            .register(kind("own").headers(own.clone()).build().retry(ATTEMPTS))
            .register(kind("once").timeout(PATIENCE).build().retry(Retry::NEVER))
            .register(
                kind("anywhere").headers(own).caller_urls(client.clone()).build().retry(ATTEMPTS),
            )
            .start()
            .await
            .unwrap();
        let ticking = clock.clone();
        let ticks = tokio::spawn(async move {
            let mut tick = tokio::time::interval(TICK);
            loop {
                tick.tick().await;
                ticking.advance(TICK);
            }
        });
        let hooks =
            Webhooks { endpoints: store, secrets: Secrets::new(Arc::clone(&keyring)), client };
        let mut state = AppState::new(engine.clone(), auth, hooks);
        state.clock = Clock::system();
        state.caller_urls = CallerUrls::of(["anywhere".to_owned()]);
        state.proxies = ProxyRoutes::new(routes(), keyring);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        tokio::spawn(serve(listener, router(state), ListenerConfig::plain(PATIENT), stop.clone()));
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().redirect(redirect::Policy::none()).no_proxy();
        let client = client.build().unwrap();
        Self { address, clock, client, key, ticks, stop, folder, database, engine }
    }

    pub(super) fn ask(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        match &self.key {
            Some(key) => request.header("x-api-key", key),
            None => request,
        }
    }

    pub(super) fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.ask(Method::GET, path)
    }

    pub(super) fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.ask(Method::POST, path)
    }

    /// Asks without a client that would make it better.
    pub(super) async fn raw(&self, call: &str, fields: &[(&str, &str)]) -> http::Answer {
        http::ask(self.address, call, fields, "").await.unwrap()
    }

    /// Submits a job to `/v1/jobs`.
    pub(super) async fn submit(&self, kind: &str, input: Value) -> Value {
        let body = json!({"kind": kind, "input": input});
        json_of(self.post("/v1/jobs").json(&body)).await
    }

    pub(super) async fn job(&self, id: &str) -> Value {
        json_of(self.get(&format!("/v1/jobs/{id}"))).await
    }

    /// The job once it is so. Time goes on to when it is due next, whenever it waits for that.
    pub(super) async fn until(&self, id: &str, so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let job = self.job(id).await;
            if so(&job) {
                return job;
            }
            let due = Timestamp::parse(job["runAt"].as_str().unwrap()).unwrap();
            let now = self.clock.now();
            if job["status"] == "pending" && due > now {
                self.clock.advance(due.since(now));
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn ended(&self, id: &str) -> Value {
        self.until(id, |job| job["completedAt"].is_string()).await
    }

    /// All that is stored, in whatever form.
    pub(super) async fn everything_stored(&self) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(database) = &self.database {
            all.extend(database.dump().await.into_bytes());
        }
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(bytes) = std::fs::read(path) {
                    all.extend(bytes);
                }
            }
        }
        all
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.ticks.abort();
        self.stop.cancel();
    }
}

fn routes() -> Vec<ProxyRoute> {
    let route = |path: &str, kind: &str, sync: bool, pass: &[&'static str]| ProxyRoute {
        path: path.to_owned(),
        kind: kind.to_owned(),
        sync,
        pass: pass.iter().map(|name| axum::http::HeaderName::from_static(name)).collect(),
    };
    vec![
        route("/reports", "report", false, &[]),
        route("/sync", "report", true, &[]),
        route("/own", "own", true, &["authorization"]),
        route("/passing", "report", true, &["authorization", "cookie", "x-token"]),
        route("/once", "once", true, &[]),
    ]
}

/// The JSON that is answered.
pub(super) async fn json_of(request: reqwest::RequestBuilder) -> Value {
    request.send().await.unwrap().json().await.unwrap()
}

/// The status and the problem's code.
pub(super) async fn problem_of(request: reqwest::RequestBuilder) -> (u16, String) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let problem: Value = answer.json().await.unwrap();
    (status, problem["code"].as_str().unwrap_or_else(|| panic!("{problem}")).to_owned())
}

pub(super) fn id_of(answer: &reqwest::Response) -> String {
    answer.headers()["longhaul-job-id"].to_str().unwrap().to_owned()
}

macro_rules! on_both_stores {
    ($($case:ident $(with { $($field:ident: $value:expr),* })?,)*) => {
        mod in_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(crate::proxy::house::Wish {
                    $($($field: $value,)*)?
                    ..crate::proxy::house::SQLITE
                }).await;
            })*
        }

        mod in_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(crate::proxy::house::Wish {
                    $($($field: $value,)*)?
                    ..crate::proxy::house::POSTGRES
                }).await;
            })*
        }
    };
}
pub(super) use on_both_stores;

pub(super) const SQLITE: Wish = Wish { postgres: false, require_keys: false, loopback: true };
pub(super) const POSTGRES: Wish = Wish { postgres: true, ..SQLITE };
