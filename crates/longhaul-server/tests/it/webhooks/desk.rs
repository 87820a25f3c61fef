//! A server with webhooks, a clock that tests own, and a kind that tests hold.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use longhaul::blob::{Blobs, Keyring};
use longhaul::job::Json;
use longhaul::store::Store;
use longhaul::store::accounts::Accounts;
use longhaul::store::endpoints::Endpoints;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Ctx, Engine, JobError, Kind, Retry, TenantId, Timestamp};
use longhaul_net::egress;
use longhaul_server::api::{AppState, Webhooks, router};
use longhaul_server::auth::{Auth, AuthSettings};
use longhaul_server::webhooks::{Secrets, WebhookDispatcher, WebhookSettings};
use serde_json::{Value, json};

use crate::e2e::database::Database;

/// Deliveries at once.
pub(super) const PLACES: usize = 64;

pub(super) struct Desk {
    router: Router,
    pub(super) clock: Clock,
    _engine: Engine,
    pub(super) secrets: Secrets,
    ticks: tokio::task::JoinHandle<()>,
    _keep: Box<dyn std::any::Any + Send + Sync>,
}

/// How a desk may differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) timeout: Duration,
    /// Whether receivers on this machine may be told.
    pub(super) loopback: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self { timeout: Duration::from_mins(5), loopback: true }
    }
}

impl Desk {
    pub(super) async fn sqlite(wish: Wish) -> Self {
        let clock = clock();
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("jobs.db"), clock.clone()).unwrap();
        Self::on(Arc::new(store), clock, wish, Box::new(folder)).await
    }

    pub(super) async fn postgres(wish: Wish) -> Self {
        let (clock, database) = (clock(), Database::create().await);
        let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
        Self::on(Arc::new(store), clock, wish, Box::new(database)).await
    }

    async fn on<S: Store + Accounts + Endpoints + 'static>(
        store: Arc<S>,
        clock: Clock,
        wish: Wish,
        keep: Box<dyn std::any::Any + Send + Sync>,
    ) -> Self {
        let keyring = Arc::new(Keyring::generate());
        let settings = AuthSettings::default();
        let auth = Auth::new(store.clone(), Arc::clone(&keyring), clock.clone(), settings);
        let allowed = ["127.0.0.0/8".parse().unwrap()];
        let policy = egress::Policy::new(allowed.into_iter().filter(|_| wish.loopback));
        let hooks = Webhooks {
            endpoints: store.clone(),
            secrets: Secrets::new(Arc::clone(&keyring)),
            client: egress::Client::new(policy),
        };
        let secrets = hooks.secrets.clone();
        let courier = WebhookDispatcher::new(
            store.clone(),
            store.clone(),
            secrets.clone(),
            hooks.client.clone(),
            clock.clone(),
            WebhookSettings {
                timeout: wish.timeout,
                concurrency: PLACES,
                ..WebhookSettings::default()
            },
        );
        let engine = Engine::builder()
            .clock(clock.clone())
            .delivery_worker(courier.kind(), PLACES, courier.windows())
            .store(store)
            .blobs(Blobs::open("memory:").unwrap(), keyring)
            .replica("test")
            .register(Kind::new("echo", echo))
            .register(Kind::new("phases", phases))
            .register(Kind::new("fails", fails).retry(Retry::times(1)))
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
        let mut state = AppState::new(engine.clone(), auth, hooks);
        // Held requests and what settles wait for real.
        state.clock = Clock::system();
        Self { router: router(state), clock, _engine: engine, secrets, ticks, _keep: keep }
    }

    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let request = request.body(body).unwrap();
        let answer = tower::ServiceExt::oneshot(self.router.clone(), request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let json =
            if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        (parts.status.as_u16(), json)
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask(Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK.as_u16(), "{path}: {answer}");
        answer
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Submits a job whose own webhook is there.
    pub(super) async fn submit(&self, kind: &str, webhook: Value) -> Value {
        let body = json!({"kind": kind, "input": {"page": 1}, "webhook": webhook});
        let (status, job) = self.post("/v1/jobs", body).await;
        assert_eq!(status, 202, "{job}");
        job
    }

    pub(super) async fn endpoint(&self, body: Value) -> Value {
        let (status, endpoint) = self.post("/v1/endpoints", body).await;
        assert_eq!(status, 201, "{endpoint}");
        endpoint
    }

    pub(super) async fn deliveries(&self, job: &Value) -> Vec<Value> {
        let path = format!("/v1/jobs/{}/deliveries", job["jobId"].as_str().unwrap());
        let mut all = self.get(&path).await["deliveries"].as_array().unwrap().clone();
        all.reverse();
        all
    }

    /// The delivery once it is so. Time goes on to when it is due next, whenever it waits for that.
    pub(super) async fn until(&self, id: &str, so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let delivery = self.get(&format!("/v1/deliveries/{id}")).await;
            if so(&delivery) {
                return delivery;
            }
            let due = Timestamp::parse(delivery["runAt"].as_str().unwrap()).unwrap();
            let now = self.clock.now();
            if delivery["status"] == "pending" && due > now {
                self.clock.advance(due.since(now));
            }
            tokio::task::yield_now().await;
        }
    }

    /// The job's delivery of this event, once there is one.
    pub(super) async fn delivery_of(&self, job: &Value, event: &str) -> String {
        loop {
            let found = self.deliveries(job).await;
            let found = found.iter().find(|delivery| delivery["type"] == event);
            if let Some(found) = found {
                return found["deliveryId"].as_str().unwrap().to_owned();
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn tenant_secret(&self) -> String {
        self.secrets.of_tenant(&TenantId::default()).expose().to_string()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.ticks.abort();
    }
}

/// The desk's time goes on with the real one, besides the jumps that a test makes: what is put off for a
/// moment comes back.
const TICK: Duration = Duration::from_millis(10);

/// Near the real time: receivers refuse what was signed long ago.
fn clock() -> Clock {
    Clock::manual(Clock::system().now())
}

async fn echo(_: Ctx, input: Json) -> Result<Json, JobError> {
    Ok(input)
}

async fn phases(ctx: Ctx, _: Json) -> Result<String, JobError> {
    ctx.phase("loading").await?;
    ctx.phase("drawing").await?;
    Ok("x".repeat(20_000))
}

async fn fails(_: Ctx, _: Json) -> Result<(), JobError> {
    Err(JobError::fatal("the disk is made of cheese").with_code("cheese"))
}

macro_rules! on_both_stores {
    ($($case:ident $(with $wish:expr)?,)*) => {
        mod in_sqlite {
            #[allow(unused_imports, reason = "not every file needs a wish")]
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                #[allow(unused_mut, unused_assignments, reason = "a wish is rare")]
                let mut wish = crate::webhooks::desk::Wish::default();
                $(wish = $wish;)?
                super::$case(crate::webhooks::desk::Desk::sqlite(wish).await).await;
            })*
        }

        mod in_postgres {
            #[allow(unused_imports, reason = "not every file needs a wish")]
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                #[allow(unused_mut, unused_assignments, reason = "a wish is rare")]
                let mut wish = crate::webhooks::desk::Wish::default();
                $(wish = $wish;)?
                super::$case(crate::webhooks::desk::Desk::postgres(wish).await).await;
            })*
        }
    };
}
pub(super) use on_both_stores;
