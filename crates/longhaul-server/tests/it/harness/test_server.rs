//! A server in process, with kinds that a test controls and requests to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode};
use futures_util::TryStreamExt;
use longhaul::job::Json;
use longhaul::{Clock, Ctx, Engine, JobError, Kind, Timestamp};
use longhaul_server::api::AppState;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::backend::Storage;
use super::{TestRequest, TestResponse, TestServerBuilder, kinds};

/// Interval of a ticking clock.
const TICK: Duration = Duration::from_millis(10);
/// A clock does not jump to the due time of a job at once, because a claim that is sent before the jump would have a lease
/// that ends before it begins.
const DUE_SOON: Duration = Duration::from_secs(1);

/// The server's router with its own store, engine, webhook dispatcher and accounts.
pub(crate) struct TestServer {
    pub(crate) state: AppState,
    /// The clock of jobs, keys and deliveries.
    pub(crate) clock: Clock,
    pub(super) router: Router,
    pub(super) gate: Arc<Semaphore>,
    pub(super) runs: Arc<AtomicUsize>,
    pub(super) _ticker: Option<ClockTicker>,
    /// Engine of a second replica that runs jobs.
    pub(super) _worker: Option<Engine>,
    pub(super) storage: Storage,
}

/// Moves a manual clock with the real time until it is dropped.
pub(super) struct ClockTicker(JoinHandle<()>);

impl ClockTicker {
    pub(super) fn start(clock: Clock) -> Self {
        Self(tokio::spawn(async move {
            let mut tick = tokio::time::interval(TICK);
            loop {
                tick.tick().await;
                clock.advance(TICK);
            }
        }))
    }
}

impl Drop for ClockTicker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TestServer {
    pub(crate) fn builder() -> TestServerBuilder {
        TestServerBuilder::new()
    }

    pub(crate) async fn start() -> Self {
        Self::builder().start().await
    }

    /// Starts a server after `change` has edited its state.
    pub(crate) async fn with_state(change: impl FnOnce(&mut AppState)) -> Self {
        Self::builder().start_with(change).await
    }

    /// Starts a server with the kind `copy`, which takes a payload, and `plain`, which takes none.
    pub(crate) async fn with_payload_kinds() -> Self {
        let plain = Kind::new("plain", kinds::fails).accepts_payload(false);
        Self::builder().kind(Kind::new("copy", copy)).kind(plain).start().await
    }

    /// Starts a server that requires API keys, and returns its first one.
    pub(crate) async fn with_keys() -> (Self, String) {
        Self::builder().require_keys().start_with_key().await
    }

    /// Starts a server that requires API keys, which expire by the clock of waiting requests.
    pub(crate) async fn with_expiring_keys() -> (Self, String) {
        Self::builder().require_keys().expire_keys_by_request_clock().start_with_key().await
    }

    /// Starts a server with further kinds.
    pub(crate) async fn with_kinds(kinds: impl IntoIterator<Item = Kind>) -> Self {
        kinds.into_iter().fold(Self::builder(), TestServerBuilder::kind).start().await
    }

    /// Lets one job of the kind `gated` finish.
    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1);
    }

    /// Returns the number of attempts of `echo` and `gated` that have started.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn get(&self, path: &str) -> TestRequest {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str) -> TestRequest {
        self.request(Method::POST, path)
    }

    pub(crate) fn delete(&self, path: &str) -> TestRequest {
        self.request(Method::DELETE, path)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> TestRequest {
        TestRequest::new(self.router.clone(), method, path)
    }

    /// Returns the JSON body of a resource that must exist.
    pub(crate) async fn get_json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).fetch().await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    /// Submits a job and returns it.
    pub(crate) async fn submit(&self, kind: &str, input: Value) -> Value {
        let request = self.post("/v1/jobs").json(json!({"kind": kind, "input": input}));
        let response = request.send().await;
        assert_eq!(response.status, StatusCode::ACCEPTED, "{response:?}");
        response.json()
    }

    /// Submits a pending job with labels, and then more without than one page of a list examines. Returns its id.
    pub(crate) async fn one_job_among_thousands(&self, labels: Value) -> String {
        let job = |labels| json!({"kind": "gated", "input": 1, "delay": "1h", "labels": labels});
        let labelled = self.post("/v1/jobs").json(job(labels)).send().await.json();
        let others = json!({"jobs": vec![job(json!({})); 1_000]});
        for _ in 0..3 {
            let response = self.post("/v1/jobs/batch").json(others.clone()).send().await;
            assert_eq!(response.status, StatusCode::OK, "{response:?}");
        }
        labelled["jobId"].as_str().expect("a job").to_owned()
    }

    /// Submits a job and returns it once it has finished.
    pub(crate) async fn run(&self, kind: &str, input: Value) -> Value {
        let job = self.submit(kind, input).await;
        self.until(&job, |job| job["completedAt"].is_string()).await
    }

    /// Returns the job once `accept` holds, learned by requests that wait for its next version.
    pub(crate) async fn until(&self, job: &Value, accept: impl Fn(&Value) -> bool) -> Value {
        let mut job = self.get(status_url(job)).send().await.json();
        while !accept(&job) {
            let waiting = self
                .get(&format!("{}?wait=60", status_url(&job)))
                .header("if-none-match", &format!("\"{}\"", job["version"]));
            job = waiting.send().await.json();
        }
        job
    }

    pub(crate) async fn until_running(&self, job: &Value) -> Value {
        self.until(job, |job| job["status"] == "running").await
    }

    /// Reads a job or a delivery until `accept` holds. Whenever it is pending with a later `runAt`,
    /// moves the clock to that time.
    pub(crate) async fn poll(&self, path: &str, accept: impl Fn(&Value) -> bool) -> Value {
        loop {
            let resource = self.get_json(path).await;
            if accept(&resource) {
                return resource;
            }
            let due = Timestamp::parse(resource["runAt"].as_str().unwrap()).unwrap();
            let now = self.clock.now();
            if resource["status"] == "pending" && due > now {
                let left = due.since(now);
                self.clock.advance(left.checked_sub(DUE_SOON).unwrap_or(left));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Polls the job with this id until `accept` holds.
    pub(crate) async fn poll_job(&self, id: &str, accept: impl Fn(&Value) -> bool) -> Value {
        self.poll(&format!("/v1/jobs/{id}"), accept).await
    }

    /// Polls the job with this id until it has finished.
    pub(crate) async fn finished(&self, id: &str) -> Value {
        self.poll_job(id, |job| job["completedAt"].is_string()).await
    }

    /// Advances the clock of waiting requests until this one gets its response.
    pub(crate) async fn pass_time(&self, waiting: TestRequest) -> TestResponse {
        let waiting = tokio::spawn(waiting.send());
        while !waiting.is_finished() {
            self.state.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        waiting.await.unwrap()
    }

    /// Returns every stored byte, in files and in Postgres.
    pub(crate) async fn stored_bytes(&self) -> Vec<u8> {
        self.storage.bytes().await
    }
}

/// Returns the path of a job.
pub(crate) fn status_url(job: &Value) -> &str {
    job["statusUrl"].as_str().unwrap()
}

/// Returns the payload's size, and stores the payload as an artifact.
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

/// Returns a body with ids and times replaced, for snapshots.
pub(crate) fn redacted(mut value: Value) -> Value {
    redact(&mut value);
    value
}

fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
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
                    (_, value) => redact(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
