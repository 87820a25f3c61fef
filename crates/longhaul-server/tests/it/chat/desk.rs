//! A server whose chats go to the targets of a test, with a clock that the test owns.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use longhaul::blob::{Blobs, Keyring};
use longhaul::store::Store;
use longhaul::store::accounts::Accounts;
use longhaul::store::endpoints::Endpoints;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Engine, Kind, Retry};
use longhaul_kinds::chat::{Chat, ModelServer, TargetApi};
use longhaul_net::egress;
use longhaul_server::api::{AppState, Webhooks, router};
use longhaul_server::auth::{Auth, AuthSettings};
use longhaul_server::secret::Secret;
use longhaul_server::webhooks::{Secrets, WebhookDispatcher, WebhookSettings};
use serde_json::{Value, json};

use super::target::FakeTarget;
use crate::e2e::database::Database;

/// What deliveries of states are signed with.
pub(super) const SECRET: &str = "the foreman's secret";

/// As `[chat] retry` is by default.
const RETRY: Retry =
    Retry { max_attempts: 10, first: Duration::from_secs(1), max: Duration::from_mins(1) };

/// Where a server is made, and with what.
pub(super) enum Ground {
    Sqlite,
    Postgres,
}

/// How a desk may differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) retry: Retry,
    pub(super) require_keys: bool,
    pub(super) signs: bool,
    /// Whether the door is in another process than the jobs.
    pub(super) apart: bool,
    pub(super) concurrency: usize,
}

impl Default for Wish {
    fn default() -> Self {
        Self { retry: RETRY, require_keys: false, signs: true, apart: false, concurrency: 1 }
    }
}

pub(super) struct Desk {
    router: Router,
    pub(super) state: AppState,
    pub(super) clock: Clock,
    ticks: tokio::task::JoinHandle<()>,
    _keep: Box<dyn std::any::Any + Send + Sync>,
}

impl Ground {
    pub(super) async fn desk(&self, targets: &[&FakeTarget]) -> Desk {
        self.wished(targets, Wish::default()).await
    }

    pub(super) async fn wished(&self, targets: &[&FakeTarget], wish: Wish) -> Desk {
        // Near the real time: keys and signatures are judged by it.
        let clock = Clock::manual(Clock::system().now());
        let targets = || {
            let numbered = targets.iter().enumerate();
            numbered.map(|(number, target)| described(number, target, wish)).collect::<Vec<_>>()
        };
        let chats = [targets(), targets()].map(|all| Chat::new(all, wish.retry, clock.clone()));
        match self {
            Self::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("jobs.db");
                let store = SqliteStore::open(path, clock.clone()).unwrap();
                Desk::on(Arc::new(store), clock, wish, chats, Box::new(folder)).await
            }
            Self::Postgres => {
                let database = Database::create().await;
                let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
                Desk::on(Arc::new(store), clock, wish, chats, Box::new(database)).await
            }
        }
    }
}

fn described(number: usize, target: &FakeTarget, wish: Wish) -> ModelServer {
    let named = ModelServer::new(format!("t{number}"), &target.url(), target.api()).unwrap();
    named.concurrency(wish.concurrency).key("sk-target").unwrap()
}

impl Desk {
    async fn on<S: Store + Accounts + Endpoints + 'static>(
        store: Arc<S>,
        clock: Clock,
        wish: Wish,
        [here, there]: [Chat; 2],
        keep: Box<dyn std::any::Any + Send + Sync>,
    ) -> Self {
        let keyring = Arc::new(Keyring::generate());
        let settings = AuthSettings { require_keys: wish.require_keys, ..AuthSettings::default() };
        let auth = Auth::new(store.clone(), Arc::clone(&keyring), clock.clone(), settings);
        let policy = egress::Policy::new(["127.0.0.0/8".parse().unwrap()]);
        let secret = Secret::new(SECRET).filter(|_| wish.signs);
        let hooks = Webhooks {
            endpoints: store.clone(),
            secrets: Secrets::new(Arc::clone(&keyring)).for_states(secret),
            client: egress::Client::new(policy),
        };
        let courier = WebhookDispatcher::new(
            store.clone(),
            store.clone(),
            hooks.secrets.clone(),
            hooks.client.clone(),
            clock.clone(),
            WebhookSettings { timeout: Duration::from_mins(5), ..WebhookSettings::default() },
        );
        let engine = Engine::builder()
            .clock(clock.clone())
            .delivery_worker(courier.kind(), 64, courier.windows())
            .store(store)
            .blobs(Blobs::open("memory:").unwrap(), keyring)
            .replica("test")
            .concurrency(here.concurrency())
            .register(here.kind())
            .register(Kind::new("other", other))
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
        let mut state = AppState::new(engine, auth, hooks);
        state.chat = Some(if wish.apart { there } else { here });
        Self { router: router(state.clone()), state, clock, ticks, _keep: keep }
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Ask<'_> {
        Ask {
            desk: self,
            method: Method::POST,
            path: path.to_owned(),
            fields: Vec::new(),
            body: Some(body.to_string()),
        }
    }

    pub(super) fn get(&self, path: &str) -> Ask<'_> {
        Ask {
            desk: self,
            method: Method::GET,
            path: path.to_owned(),
            fields: Vec::new(),
            body: None,
        }
    }

    /// The job once it is so. Time goes on to when it is due, whenever it waits for that.
    pub(super) async fn until(&self, id: &str, so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let job = self.get(&format!("/v1/jobs/{id}")).send().await.json();
            if so(&job) {
                return job;
            }
            let due = longhaul::Timestamp::parse(job["runAt"].as_str().unwrap()).unwrap();
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

    /// Submits a chat that says something, and returns its id.
    pub(super) async fn submit(&self, said: &str) -> String {
        self.submit_with(said, json!({})).await
    }

    pub(super) async fn submit_with(&self, said: &str, more: Value) -> String {
        let mut body = chat(said);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.post("/jobs", &body).send().await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["job_id"].as_str().unwrap().to_owned()
    }
}

/// A chat in Ollama's API.
pub(super) fn chat(said: &str) -> Value {
    json!({"model": super::target::MODEL, "messages": [{"role": "user", "content": said}]})
}

/// The same, with a say on streaming, which is the same in all APIs.
pub(super) fn chat_streaming(said: &str, stream: bool) -> Value {
    let mut body = chat(said);
    body["stream"] = stream.into();
    body
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.ticks.abort();
    }
}

/// The desk's time goes on with the real one, besides the jumps that a test makes.
const TICK: Duration = Duration::from_millis(10);

async fn other(
    _: longhaul::Ctx,
    input: longhaul::job::Json,
) -> Result<longhaul::job::Json, longhaul::JobError> {
    Ok(input)
}

/// A request in the making.
pub(super) struct Ask<'a> {
    desk: &'a Desk,
    method: Method,
    path: String,
    fields: Vec<(String, String)>,
    body: Option<String>,
}

impl Ask<'_> {
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub(super) async fn send(self) -> Answer {
        let Stream { status, headers, body } = self.open().await;
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status, headers, body: String::from_utf8(body.into()).unwrap() }
    }

    /// Sends it and leaves the answer's body to be read piece by piece.
    pub(super) async fn open(self) -> Stream {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.fields {
            request = request.header(name, value);
        }
        let body = match self.body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body)
            }
            None => Body::empty(),
        };
        let request = request.body(body).unwrap();
        let answer = tower::ServiceExt::oneshot(self.desk.router.clone(), request).await.unwrap();
        let (parts, body) = answer.into_parts();
        Stream { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The job that it is about.
    pub(super) fn job(&self) -> String {
        self.header("longhaul-job-id").unwrap().to_owned()
    }
}

pub(super) struct Stream {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    body: Body,
}

impl Stream {
    /// The next piece, or `None` at the end.
    pub(super) async fn piece(&mut self) -> Option<String> {
        let frame = self.body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().into()).unwrap())
    }

    pub(super) fn job(&self) -> String {
        self.headers["longhaul-job-id"].to_str().unwrap().to_owned()
    }

    /// All that is left, piece by piece, but for comments.
    pub(super) async fn rest(mut self) -> Vec<String> {
        let mut pieces = Vec::new();
        while let Some(piece) = self.piece().await {
            if !piece.starts_with(':') {
                pieces.push(piece);
            }
        }
        pieces
    }
}

/// What a piece of a stream says, in any API.
pub(super) fn said(piece: &str) -> String {
    let text = piece.strip_prefix("data: ").unwrap_or(piece);
    let Ok(value) = serde_json::from_str::<Value>(text) else { return String::new() };
    let places = ["/message/content", "/response", "/choices/0/delta/content"];
    let text = places.iter().find_map(|place| value.pointer(place)?.as_str());
    text.unwrap_or_default().to_owned()
}

/// What pieces say together.
pub(super) fn all_said(pieces: &[String]) -> String {
    pieces.iter().map(|piece| said(piece)).collect()
}

/// The two APIs of targets.
pub(super) const APIS: [TargetApi; 2] = [TargetApi::Ollama, TargetApi::OpenAi];

macro_rules! on_both_grounds {
    ($($case:ident,)*) => {
        mod in_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(crate::chat::desk::Ground::Sqlite).await;
            })*
        }

        mod in_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(crate::chat::desk::Ground::Postgres).await;
            })*
        }
    };
}
pub(super) use on_both_grounds;
