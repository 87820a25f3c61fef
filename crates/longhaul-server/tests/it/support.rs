//! A server in memory with kinds that tests hold by a gate, and a way to ask it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use longhaul::blob::{Blobs, Keyring};
use longhaul::job::{Json, Name, Rate};
use longhaul::store::accounts::Accounts;
use longhaul::store::endpoints::Endpoints;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{FlowLimit, Store};
use longhaul::{Clock, Ctx, Engine, EngineBuilder, JobError, Kind, Retry, Timestamp};
use longhaul_net::egress;
use longhaul_server::api::{AppState, Webhooks, router};
use longhaul_server::auth::{Auth, AuthSettings};
use longhaul_server::webhooks::{Secrets, WebhookDispatcher, WebhookSettings};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// The limits of the queue `mail`, more than any test needs.
fn mail() -> FlowLimit {
    FlowLimit::running(10).and_rate(Rate::new(100, Duration::from_mins(1)))
}

/// A running server.
pub(crate) struct Server {
    pub(crate) state: AppState,
    router: Router,
    gate: Arc<Semaphore>,
    runs: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A server whose state is changed before it starts. Held requests wait on a clock that
    /// stands still unless a test moves it.
    pub(crate) async fn with(change: impl FnOnce(&mut AppState)) -> Self {
        Self::having(&[], change).await
    }

    /// A server with kinds that take a payload, and one that takes none.
    pub(crate) async fn for_payloads() -> Self {
        let plain = Kind::new("plain", fails).payload(false);
        Self::having(&[Kind::new("copy", copy), plain], |_| {}).await
    }

    /// A server with these kinds besides.
    pub(crate) async fn with_kinds(kinds: &[Kind]) -> Self {
        Self::having(kinds, |_| {}).await
    }

    async fn having(kinds: &[Kind], change: impl FnOnce(&mut AppState)) -> Self {
        Self::build(kinds, AuthSettings::default(), change).await
    }

    async fn build(
        kinds: &[Kind],
        settings: AuthSettings,
        change: impl FnOnce(&mut AppState),
    ) -> Self {
        let store = SqliteStore::memory(Clock::system()).unwrap();
        Self::build_on(Arc::new(store), kinds, (settings, Clock::system()), change).await
    }

    async fn build_on<S: Store + Accounts + Endpoints + 'static>(
        store: Arc<S>,
        kinds: &[Kind],
        (settings, clock): (AuthSettings, Clock),
        change: impl FnOnce(&mut AppState),
    ) -> Self {
        let (gate, runs) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let builder = kinds.iter().cloned().fold(Engine::builder(), EngineBuilder::register);
        let keyring = Arc::new(Keyring::generate());
        let auth = Auth::new(store.clone(), Arc::clone(&keyring), clock, settings);
        let blobs = Blobs::open("memory:").unwrap();
        let loopback = ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let hooks = Webhooks {
            endpoints: store.clone(),
            secrets: Secrets::new(Arc::clone(&keyring)),
            client: egress::Client::new(egress::Policy::new(loopback)),
        };
        let courier = WebhookDispatcher::new(
            store.clone(),
            store.clone(),
            hooks.secrets.clone(),
            hooks.client.clone(),
            Clock::system(),
            WebhookSettings { first_retry: Duration::from_millis(10), ..Default::default() },
        );
        let engine = builder
            .delivery_worker(courier.kind(), 64, courier.windows())
            .store(store)
            .blobs(blobs, keyring)
            .replica("test")
            .queue_limit(Name::new("mail").unwrap(), mail())
            .register(echo(Arc::clone(&runs)))
            .register(gated(Arc::clone(&gate), Arc::clone(&runs)))
            .register(Kind::new("steps", steps).retry(Retry::times(1)))
            .register(Kind::new("fails", fails).retry(Retry::times(1)))
            .start()
            .await
            .unwrap();
        let mut state = AppState::new(engine, auth, hooks);
        state.clock = Clock::manual(Timestamp::from_millis(0));
        change(&mut state);
        Self { router: router(state.clone()), state, gate, runs }
    }

    /// Lets one job of the kind `gated` end.
    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1);
    }

    /// How many attempts of `echo` and `gated` were begun.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// A server on which everybody needs a key, and its first one.
    pub(crate) async fn with_keys() -> (Self, String) {
        Self::with_auth(AuthSettings { require_keys: true, ..AuthSettings::default() }).await
    }

    /// The same, where keys end by the clock that held requests wait on.
    pub(crate) async fn with_keys_that_end() -> (Self, String) {
        let settings = AuthSettings { require_keys: true, ..AuthSettings::default() };
        let clock = Clock::manual(Clock::system().now());
        let store = SqliteStore::memory(Clock::system()).unwrap();
        let auth = (settings, clock.clone());
        let server = Self::build_on(Arc::new(store), &[], auth, |state| state.clock = clock).await;
        let made = server.state.auth.create_first_key().await.unwrap().unwrap();
        (server, made.text.to_string())
    }

    /// The same on Postgres.
    pub(crate) async fn with_keys_on_postgres(url: &str) -> (Self, String) {
        let store = PostgresStore::open(url, Clock::system()).await.unwrap();
        let settings = AuthSettings { require_keys: true, shared: true, ..AuthSettings::default() };
        let auth = (settings, Clock::system());
        let server = Self::build_on(Arc::new(store), &[], auth, |_| {}).await;
        let made = server.state.auth.create_first_key().await.unwrap().unwrap();
        (server, made.text.to_string())
    }

    /// A server with these settings, and its first key.
    pub(crate) async fn with_auth(settings: AuthSettings) -> (Self, String) {
        let server = Self::build(&[], settings, |_| {}).await;
        let made = server.state.auth.create_first_key().await.unwrap().unwrap();
        (server, made.text.to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Ask {
        self.ask(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str) -> Ask {
        self.ask(Method::POST, path)
    }

    pub(crate) fn delete(&self, path: &str) -> Ask {
        self.ask(Method::DELETE, path)
    }

    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask {
        let request = Request::builder().method(method).uri(path);
        Ask { router: self.router.clone(), request, body: Body::empty() }
    }

    /// Submits a job and returns it.
    pub(crate) async fn submit(&self, kind: &str, input: Value) -> Value {
        let answer = self.post("/v1/jobs").json(json!({"kind": kind, "input": input})).send().await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
        answer.json()
    }

    /// Submits a job and waits for its end.
    pub(crate) async fn run(&self, kind: &str, input: Value) -> Value {
        let job = self.submit(kind, input).await;
        self.until(&job, |job| job["completedAt"].is_string()).await
    }

    /// The job once it is so, learned by holding requests.
    pub(crate) async fn until(&self, job: &Value, so: impl Fn(&Value) -> bool) -> Value {
        let mut job = self.get(url(job)).send().await.json();
        while !so(&job) {
            let held = self
                .get(&format!("{}?wait=60", url(&job)))
                .header("if-none-match", &format!("\"{}\"", job["version"]));
            job = held.send().await.json();
        }
        job
    }

    pub(crate) async fn until_running(&self, job: &Value) -> Value {
        self.until(job, |job| job["status"] == "running").await
    }

    /// Moves the clock on until the request, which is held, is answered.
    pub(crate) async fn pass_time(&self, held: Ask) -> Answer {
        let held = tokio::spawn(held.send());
        while !held.is_finished() {
            self.state.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        held.await.unwrap()
    }
}

/// Where to read a job.
pub(crate) fn url(job: &Value) -> &str {
    job["statusUrl"].as_str().unwrap()
}

fn echo(runs: Arc<AtomicUsize>) -> Kind {
    Kind::new("echo", move |_: Ctx, input: Json| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, JobError>(input) }
    })
}

fn gated(gate: Arc<Semaphore>, runs: Arc<AtomicUsize>) -> Kind {
    Kind::new("gated", move |_: Ctx, input: Json| {
        runs.fetch_add(1, Ordering::SeqCst);
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok::<_, JobError>(input)
        }
    })
}

async fn steps(ctx: Ctx, _: Json) -> Result<u32, JobError> {
    let one: u32 = ctx.step("one", || async { Ok::<_, JobError>(1) }).await?;
    let two: u32 = ctx.step("two", || async { Ok::<_, JobError>(2) }).await?;
    Ok(one + two)
}

/// Returns its payload's size, and the payload itself as an artifact.
async fn copy(ctx: Ctx, _: Json) -> Result<u64, JobError> {
    let payload = ctx.payload().await?;
    let mut bytes = payload.read().await?;
    let mut artifact = ctx.artifact("the copy.bin", payload.content_type())?;
    while let Some(piece) = bytes.try_next().await.map_err(JobError::retryable)? {
        artifact.write(piece).await?;
    }
    artifact.finish().await?;
    Ok(payload.size())
}

async fn fails(_: Ctx, _: Json) -> Result<(), JobError> {
    Err(JobError::fatal("the disk is made of cheese").with_code("cheese"))
}

/// A request in the making.
pub(crate) struct Ask {
    router: Router,
    request: axum::http::request::Builder,
    body: Body,
}

impl Ask {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Shows a key.
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers write `json!` in place")]
    pub(crate) fn json(self, body: Value) -> Self {
        self.text(body.to_string())
    }

    /// A body that claims to be JSON.
    pub(crate) fn text(self, body: impl Into<Body>) -> Self {
        let mut ask = self.header("content-type", "application/json");
        ask.body = body.into();
        ask
    }

    pub(crate) fn bare(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) async fn send(self) -> Answer {
        let stream = self.open().await;
        let body = stream.body.collect().await.unwrap().to_bytes();
        Answer { status: stream.status, headers: stream.headers, body }
    }

    /// Sends it and leaves the answer's body to be read piece by piece.
    pub(crate) async fn open(self) -> Stream {
        let request = self.request.body(self.body).unwrap();
        let (parts, body) = self.router.oneshot(request).await.unwrap().into_parts();
        Stream { status: parts.status, headers: parts.headers, body }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The problem's status and code, after checking what all problems share.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        assert_eq!(problem["requestId"].as_str(), self.header("x-request-id"));
        for key in ["type", "title", "detail"] {
            assert!(!problem[key].as_str().unwrap().is_empty(), "{key} in {problem}");
        }
        (self.status.as_u16(), problem["code"].as_str().unwrap().to_owned())
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

/// An answer whose body comes piece by piece.
pub(crate) struct Stream {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl Stream {
    /// The next piece, or `None` at the end.
    pub(crate) async fn piece(&mut self) -> Option<String> {
        let frame = self.body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().into()).unwrap())
    }

    /// The next event: its id and the job.
    pub(crate) async fn event(&mut self) -> Option<(u64, Value)> {
        loop {
            let piece = self.piece().await?;
            if let Some(event) = piece.strip_prefix("event: job\nid: ") {
                let (id, data) = event.split_once("\ndata: ").unwrap();
                let job: Value = serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap();
                return Some((id.parse().unwrap(), job));
            }
        }
    }
}

/// A body with what differs from run to run replaced.
pub(crate) fn tidy(mut value: Value) -> Value {
    tidy_in(&mut value);
    value
}

fn tidy_in(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy_in),
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    (key, value @ Value::String(_)) if key.ends_with("At") => {
                        *value = "[time]".into();
                    }
                    ("jobId" | "requestId" | "forkedFrom", value @ Value::String(_)) => {
                        *value = "[id]".into();
                    }
                    ("statusUrl", value) => *value = "/v1/jobs/[id]".into(),
                    ("eventsUrl", value) => *value = "/v1/jobs/[id]/events".into(),
                    (_, value) => tidy_in(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
