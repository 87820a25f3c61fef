//! A test server whose chats go to fake model servers.

use std::ops::Deref;
use std::time::Duration;

use longhaul::Retry;
use longhaul_kinds::chat::{Chat, ModelServer, TargetApi};
use longhaul_server::secret::Secret;
use longhaul_server::webhooks::WebhookSettings;
use serde_json::{Value, json};

use crate::harness::{Backend, FakeChatServer, MODEL, TestServer};

/// Signs deliveries of chat states.
pub(super) const SECRET: &str = "the foreman's secret";

/// The default of `[chat] retry`.
const RETRY: Retry =
    Retry { max_attempts: 10, first: Duration::from_secs(1), max: Duration::from_mins(1) };

/// The default of `[chat] body_bytes_max`.
pub(super) const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The two APIs of targets.
pub(super) const APIS: [TargetApi; 2] = [TargetApi::Ollama, TargetApi::OpenAi];

/// Values of `[chat] on_disconnect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDisconnect {
    Cancel,
    Finish,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ChatOptions {
    pub(super) retry: Retry,
    /// The default of `[chat] unreachable_wait` is two minutes.
    pub(super) unreachable_wait: Duration,
    pub(super) on_disconnect: OnDisconnect,
    pub(super) require_keys: bool,
    pub(super) sign_states: bool,
    /// Serves the API on a replica that runs no jobs, as `--role api` beside `--role worker`. Needs Postgres.
    pub(super) separate_api: bool,
}

impl Default for ChatOptions {
    fn default() -> Self {
        let unreachable_wait = Duration::from_mins(2);
        Self {
            retry: RETRY,
            unreachable_wait,
            on_disconnect: OnDisconnect::Cancel,
            require_keys: false,
            sign_states: true,
            separate_api: false,
        }
    }
}

pub(super) struct ChatServer(TestServer);

impl Deref for ChatServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}

impl ChatServer {
    pub(super) async fn start(backend: Backend, targets: &[&FakeChatServer]) -> Self {
        Self::start_with(backend, targets, ChatOptions::default()).await
    }

    pub(super) async fn start_with(
        backend: Backend,
        targets: &[&FakeChatServer],
        options: ChatOptions,
    ) -> Self {
        let builder = TestServer::builder().backend(backend).ticking_clock();
        let clock = builder.clock();
        let targets = || {
            let numbered = targets.iter().enumerate();
            numbered.map(|(number, target)| describe(number, target)).collect::<Vec<_>>()
        };
        let chat = || Chat::new(targets(), options.retry, BODY_BYTES_MAX, clock.clone());
        let (worker, api) = (chat(), chat());
        let concurrency = worker.concurrency();
        let builder = if options.require_keys { builder.require_keys() } else { builder };
        let builder = if options.separate_api {
            builder.concurrency(0).kind(api.remote()).worker(worker.kind(), concurrency)
        } else {
            builder.concurrency(concurrency).kind(worker.kind())
        };
        let server = builder
            .webhooks(WebhookSettings {
                timeout: Duration::from_mins(5),
                ..WebhookSettings::default()
            })
            .state_webhook_secret(Secret::new(SECRET).filter(|_| options.sign_states))
            .start_with(|state| {
                state.chat = Some(if options.separate_api { api } else { worker });
                state.settings.chat_unreachable_wait = options.unreachable_wait;
                state.settings.cancel_disconnected_chats =
                    options.on_disconnect == OnDisconnect::Cancel;
            });
        Self(server.await)
    }

    /// Submits a chat with this message and returns its id.
    pub(super) async fn submit(&self, message: &str) -> String {
        self.submit_with(message, json!({})).await
    }

    /// Submits a chat with further fields in its body.
    pub(super) async fn submit_with(&self, message: &str, fields: Value) -> String {
        let mut body = chat(message);
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let response = self.post("/jobs").json(body).send().await;
        assert_eq!(response.status, 202, "{response:?}");
        response.json()["job_id"].as_str().unwrap().to_owned()
    }
}

fn describe(number: usize, target: &FakeChatServer) -> ModelServer {
    let target = ModelServer::new(format!("t{number}"), &target.url(), target.api()).unwrap();
    target.concurrency(1).key("sk-target").unwrap()
}

/// Returns a chat request in Ollama's API.
pub(super) fn chat(message: &str) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": message}]})
}

/// Returns a chat request that sets `stream`, which is the same field in all APIs.
pub(super) fn chat_streaming(message: &str, stream: bool) -> Value {
    let mut body = chat(message);
    body["stream"] = stream.into();
    body
}

/// Returns the text in one chunk of a stream, in any API.
pub(super) fn content_of(chunk: &str) -> String {
    let text = chunk.strip_prefix("data: ").unwrap_or(chunk);
    let Ok(value) = serde_json::from_str::<Value>(text) else { return String::new() };
    let pointers = ["/message/content", "/response", "/choices/0/delta/content", "/choices/0/text"];
    let text = pointers.iter().find_map(|pointer| value.pointer(pointer)?.as_str());
    text.unwrap_or_default().to_owned()
}

/// Returns the text of all chunks.
pub(super) fn joined_content(chunks: &[String]) -> String {
    chunks.iter().map(|chunk| content_of(chunk)).collect()
}
