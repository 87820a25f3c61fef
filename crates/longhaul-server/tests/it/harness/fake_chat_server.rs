//! A fake language model server on a real socket, with replies derived from the request.

mod script;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use longhaul_kinds::chat::TargetApi;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use script::Script;

/// Behaviour that replaces the normal reply to one call.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    /// Returns this status, headers and body.
    Refuses(u16, Vec<(&'static str, &'static str)>, String),
    /// Sends this many words and closes the connection.
    Breaks(usize),
    /// Sends a different reply.
    Differs,
    /// Sends this many words and then an error.
    Fails(usize),
    /// Sends these chunks, by number, and never ends.
    Endless(fn(usize) -> Value),
    /// Sends the complete reply, although the request asks for a stream.
    Whole,
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedCall {
    pub(crate) path: String,
    pub(crate) bearer: Option<String>,
    pub(crate) body: Value,
}

struct Inner {
    api: TargetApi,
    received: Mutex<Vec<ReceivedCall>>,
    behaviours: Mutex<VecDeque<Behaviour>>,
    /// Number of received calls and of calls in flight.
    counts: watch::Sender<(usize, usize)>,
    most_at_once: Mutex<usize>,
    /// One permit per word, used only if `held`.
    words: Semaphore,
    held: bool,
    /// The model is in memory. Otherwise a permit is needed to load it.
    loaded: Mutex<bool>,
    loads: Semaphore,
    /// A gateway responds in place of the server.
    is_away: AtomicBool,
}

/// A fake model server, stopped when dropped.
pub(crate) struct FakeChatServer {
    inner: Arc<Inner>,
    address: SocketAddr,
    serving: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) const MODEL: &str = "parrot";

impl FakeChatServer {
    pub(crate) async fn ollama() -> Self {
        Self::start(TargetApi::Ollama, false, true).await
    }

    pub(crate) async fn openai() -> Self {
        Self::start(TargetApi::OpenAi, false, true).await
    }

    /// Starts a server that sends a word per permit.
    pub(crate) async fn held(api: TargetApi) -> Self {
        Self::start(api, true, true).await
    }

    /// Starts a server whose model is not in memory yet.
    pub(crate) async fn cold() -> Self {
        Self::start(TargetApi::Ollama, false, false).await
    }

    async fn start(api: TargetApi, held: bool, loaded: bool) -> Self {
        let inner = Arc::new(Inner {
            api,
            received: Mutex::default(),
            behaviours: Mutex::default(),
            counts: watch::Sender::default(),
            most_at_once: Mutex::default(),
            words: Semaphore::new(0),
            held,
            loaded: Mutex::new(loaded),
            loads: Semaphore::new(0),
            is_away: AtomicBool::new(false),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = Mutex::new(Some(serve(listener, Arc::clone(&inner))));
        Self { inner, address, serving }
    }

    pub(crate) fn api(&self) -> TargetApi {
        self.inner.api
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes all connections and stops listening.
    pub(crate) async fn down(&self) {
        let serving = self.serving.lock().unwrap().take();
        if let Some(serving) = serving {
            serving.abort();
            drop(serving.await);
        }
    }

    /// Listens again on the same address.
    pub(crate) async fn up(&self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        *self.serving.lock().unwrap() = Some(serve(listener, Arc::clone(&self.inner)));
    }

    /// Makes a gateway respond with 502, as if the server behind it was stopped.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.inner.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Sets the behaviour for the next calls, one after the other.
    pub(crate) fn behave(&self, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.inner.behaviours.lock().unwrap().extend(behaviours);
    }

    /// Permits this many words.
    pub(crate) fn allow_words(&self, words: usize) {
        self.inner.words.add_permits(words);
    }

    /// Permits loading the model.
    pub(crate) fn allow_load(&self) {
        self.inner.loads.add_permits(1);
    }

    pub(crate) fn received(&self) -> Vec<ReceivedCall> {
        self.inner.received.lock().unwrap().clone()
    }

    /// Returns the received calls once there are at least `count`.
    pub(crate) async fn calls(&self, count: usize) -> Vec<ReceivedCall> {
        let mut counts = self.inner.counts.subscribe();
        counts.wait_for(|(came, _)| *came >= count).await.unwrap();
        self.received()
    }

    /// Waits until no call is in flight.
    pub(crate) async fn until_idle(&self) {
        let mut counts = self.inner.counts.subscribe();
        counts.wait_for(|(_, now)| *now == 0).await.unwrap();
    }

    pub(crate) fn most_at_once(&self) -> usize {
        *self.inner.most_at_once.lock().unwrap()
    }
}

impl Drop for FakeChatServer {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.lock().unwrap().take() {
            serving.abort();
        }
    }
}

fn serve(listener: TcpListener, inner: Arc<Inner>) -> JoinHandle<()> {
    let router = Router::new().fallback(handle).with_state(inner);
    tokio::spawn(async move {
        // Dropped with this task, which closes every connection.
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(router.clone());
            let serving = hyper::server::conn::http1::Builder::new();
            connections.spawn(async move {
                serving.serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    })
}

/// Returns the reply of the model to a message.
pub(crate) fn reply_to(said: &str) -> String {
    format!("you said {said} and I heard it")
}

async fn handle(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    if inner.is_away.load(Ordering::Relaxed) {
        return (StatusCode::BAD_GATEWAY, "502 Bad Gateway").into_response();
    }
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    match (inner.api, parts.uri.path()) {
        (TargetApi::Ollama, "/api/tags") => {
            let name = format!("{MODEL}:latest");
            let model = json!({"name": name, "model": name, "modified_at": "2026-01-01T00:00:00Z", "size": 7,
                               "digest": "abc", "details": {"family": "birds"}});
            return axum::Json(json!({"models": [model]})).into_response();
        }
        (TargetApi::OpenAi, "/v1/models") => {
            let model = json!({"id": MODEL, "object": "model", "created": 7, "owned_by": "me"});
            return axum::Json(json!({"object": "list", "data": [model]})).into_response();
        }
        (TargetApi::Ollama, "/api/ps") => {
            let running =
                inner.loaded.lock().unwrap().then(|| json!({"name": format!("{MODEL}:latest")}));
            let models: Vec<Value> = running.into_iter().collect();
            return axum::Json(json!({"models": models})).into_response();
        }
        (TargetApi::Ollama, "/api/version") => {
            return axum::Json(json!({"version": "0.13.5"})).into_response();
        }
        (TargetApi::Ollama, "/api/show") => {
            return axum::Json(
                json!({"capabilities": ["completion"], "details": {"family": "birds"}}),
            )
            .into_response();
        }
        (_, _) => {}
    }
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let bearer = parts.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let path = parts.uri.path().to_owned();
    inner.received.lock().unwrap().push(ReceivedCall {
        path: path.clone(),
        bearer,
        body: body.clone(),
    });
    let busy = Busy::begin(&inner);
    let behaviour = inner.behaviours.lock().unwrap().pop_front();
    if let Some(Behaviour::Refuses(status, fields, body)) = behaviour {
        let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
        for (name, value) in fields {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        return response;
    }
    if !*inner.loaded.lock().unwrap() {
        inner.loads.acquire().await.unwrap().forget();
        *inner.loaded.lock().unwrap() = true;
    }
    if let Some(Behaviour::Endless(chunk)) = behaviour {
        let chunks = futures_util::stream::iter(0..).map(move |number| {
            let _busy = &busy;
            Ok::<_, std::convert::Infallible>(format!("{}\n", chunk(number)))
        });
        return ([("content-type", "application/x-ndjson")], Body::from_stream(chunks))
            .into_response();
    }
    if let Some(embeddings) = script::embeddings(&path, &body) {
        return axum::Json(embeddings).into_response();
    }
    let script = Script::of(&path, &body, behaviour.as_ref());
    if script.is_whole {
        return axum::Json(script.whole()).into_response();
    }
    let content_type =
        if path.starts_with("/api/") { "application/x-ndjson" } else { "text/event-stream" };
    let words = futures_util::stream::unfold((inner, busy, script), next);
    ([("content-type", content_type)], Body::from_stream(words)).into_response()
}

type Saying = (Arc<Inner>, Busy, Script);

async fn next((inner, busy, mut script): Saying) -> Option<(Result<Bytes, String>, Saying)> {
    let piece = script.pieces.pop_front()?;
    if inner.held && (piece.is_err() || !script.is_over()) {
        inner.words.acquire().await.unwrap().forget();
    }
    if piece.is_err() {
        // Lets hyper send the earlier words before the connection closes.
        tokio::task::yield_now().await;
    }
    let piece = piece.map(Bytes::from);
    Some((piece, (inner, busy, script)))
}

/// A call in flight.
struct Busy(Arc<Inner>);

impl Busy {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.counts.send_modify(|(came, now)| {
            *came += 1;
            *now += 1;
            let mut most = inner.most_at_once.lock().unwrap();
            *most = (*most).max(*now);
        });
        Self(Arc::clone(inner))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.counts.send_modify(|(_, now)| *now -= 1);
    }
}
