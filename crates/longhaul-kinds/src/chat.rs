//! The kind `chat`: a call to a language model.
//!
//! The input is `{"api": "ollama-chat", "body": {…}}` with an API of [`ChatApi`] and the body of a request in it. Its
//! result is `{"api", "body", "promptTokens", "completionTokens", "target"}` with the body of a response that is
//! not streamed.
//!
//! # Targets
//!
//! A target is a model server with Ollama's API or that of `OpenAI`. A call goes to the least busy target that has its model
//! and did not fail recently; between different APIs, request and response are translated (`request`, `translate`). Each
//! process limits its own concurrent calls per target. A job without a free slot waits in order of arrival and
//! occupies a worker slot meanwhile.
//!
//! # Failures
//!
//! A job whose target is unreachable waits for it, for as long as that takes, and no attempt is charged. Busy and failing
//! targets are retried, up to the attempts of the kind, because the call itself may be the cause. A call that a target
//! rejects fails at once with the message of the target. See [`ChatError`].
//!
//! # Streaming
//!
//! Targets always stream. If the caller streams too, chunks in its API go to the output stream of the attempt, which is
//! readable on every replica. The contract for readers:
//!
//! - The chunks of one attempt arrive in order, each once, from the start. The final chunk is never among them, because it
//!   is sent only after the job has completed, from its result.
//! - An attempt may fail, or its process may die. Then another attempt starts over with different text and a new epoch. A
//!   reader that has forwarded nothing continues with the new chunks; otherwise it waits for the result.
//! - The result of the job is authoritative. [`Accumulator::remaining`] returns the chunks that are missing if the
//!   forwarded text is a prefix of the result, and an error otherwise, which must end the stream. So no caller receives a
//!   word twice, or the start of one response and the end of another.
//! - A reader that falls behind the stream forwards everything that is missing in one chunk at the end. In another process
//!   than the attempt, that may include the last few chunks.

mod accumulate;
mod attempt;
mod call;
mod catalog;
mod client;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod json_fields;
mod json_object;
mod outages;
mod request;
mod stream_decoder;
mod target;
mod target_slots;
mod translate;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul::job::Name;
use longhaul::{Clock, Ctx, Kind, Retry};
use serde_json::{Value, json};

pub use accumulate::{Accumulator, StreamDiverged};
pub use call::{ChatApi, ChatCall, ChatResult};
pub use error::{ChatError, http_status};
pub use json_object::JsonObject;
pub use target::{ModelServer, ModelServerError, TargetApi};

use catalog::Catalog;
use outages::Outages;
use target_slots::TargetSlots;

/// Name of the kind and of its queue.
pub const CHAT: &str = "chat";
/// Jobs of a process that wait for a target slot, besides those that have one, so that a popular model does not
/// keep jobs of other models from being claimed.
const WAITING_MAX: usize = 32;
/// Bytes of an input besides the request body.
const WRAPPER_BYTES: usize = 1024;
/// Timeout of an attempt, including the wait for a slot. Silence of a target has shorter limits.
const TIMEOUT: Duration = Duration::from_hours(24);

/// Calls to language models. Clones share everything.
#[derive(Clone)]
pub struct Chat(Arc<Inner>);

struct Inner {
    slots: TargetSlots,
    catalog: Catalog,
    outages: Outages,
    retry: Retry,
    body_bytes_max: usize,
    clock: Clock,
}

impl Chat {
    /// Creates the kind for calls with a request body of at most `body_bytes_max`.
    pub fn new(
        targets: Vec<ModelServer>,
        retry: Retry,
        body_bytes_max: usize,
        clock: Clock,
    ) -> Self {
        let slots = targets.iter().map(|target| target.concurrency);
        let slots = TargetSlots::new(slots, clock.clone());
        let catalog = Catalog::new(targets, clock.clone());
        let outages = Outages::new(clock.clone());
        let inner = Inner { slots, catalog, outages, retry, body_bytes_max, clock };
        Self(Arc::new(inner))
    }

    pub fn kind(&self) -> Kind {
        let chat = Arc::clone(&self.0);
        let run = move |ctx: Ctx, call: ChatCall| {
            let chat = Arc::clone(&chat);
            async move { attempt::run(&chat, ctx, call).await }
        };
        self.described(Kind::new(CHAT, run)).concurrency(self.concurrency()).timeout(TIMEOUT)
    }

    /// Creates the kind for a process that runs no jobs.
    pub fn remote(&self) -> Kind {
        self.described(Kind::remote(CHAT))
    }

    fn described(&self, kind: Kind) -> Kind {
        let names: Vec<&str> = self.0.catalog.servers().map(ModelServer::name).collect();
        let description = format!("calls a language model at {}", names.join(", "));
        let kind = kind.retry(self.0.retry).accepts_payload(false).description(description);
        let kind = kind.input_schema(include_str!("chat/input.schema.json"));
        let kind = kind.input_bytes_max(self.0.body_bytes_max.saturating_add(WRAPPER_BYTES));
        match Name::new(CHAT) {
            // Separate, so that the operator can limit calls over all replicas.
            Ok(queue) => kind.queue(queue),
            Err(_) => kind,
        }
    }

    /// Concurrent jobs of this process: those with a slot, and some that wait for one.
    pub fn concurrency(&self) -> usize {
        let served: usize = self.0.catalog.servers().map(|target| target.concurrency).sum();
        served.saturating_add(WAITING_MAX)
    }

    /// Returns the maximum size of a request body.
    pub fn body_bytes_max(&self) -> usize {
        self.0.body_bytes_max
    }

    /// Lists all models in the format of `GET /api/tags`.
    pub async fn tags(&self) -> Result<Value, ChatError> {
        let models = self.0.catalog.all().await?;
        Ok(json!({"models": models.iter().map(catalog::Model::to_ollama).collect::<Vec<_>>()}))
    }

    /// Lists all models in the format of `GET /v1/models`.
    pub async fn models(&self) -> Result<Value, ChatError> {
        let models = self.0.catalog.all().await?;
        let data: Vec<Value> = models.iter().map(catalog::Model::to_openai).collect();
        Ok(json!({"object": "list", "data": data}))
    }

    /// Returns one model in the format of `GET /v1/models/{model}`.
    pub async fn model(&self, name: &str) -> Result<Value, ChatError> {
        Ok(self.0.catalog.find(name).await?.to_openai())
    }

    /// Lists the models in memory in the format of `GET /api/ps`. Only targets with Ollama's API report them.
    pub async fn running_models(&self) -> Value {
        let replies = self.0.catalog.query_ollama("/api/ps").await;
        let models = replies.iter().flat_map(|reply| json_fields::items(reply, "models").iter());
        json!({"models": models.collect::<Vec<_>>()})
    }

    /// Returns the oldest version of the targets with Ollama's API, because clients infer features from it.
    pub async fn ollama_version(&self) -> Option<String> {
        let replies = self.0.catalog.query_ollama("/api/version").await;
        let versions = replies.iter().map(|reply| json_fields::text(reply, "version"));
        let numbers = |version: &&str| -> Vec<u64> {
            let parts = version.split(|c: char| !c.is_ascii_digit());
            parts.filter_map(|part| part.parse().ok()).collect()
        };
        versions.filter(|version| !version.is_empty()).min_by_key(numbers).map(str::to_owned)
    }

    /// Returns the details of a model in the format of `POST /api/show`.
    pub async fn show(&self, body: &JsonObject) -> Result<Value, ChatError> {
        let catalog = &self.0.catalog;
        let name: Option<String> = body.get("model").or_else(|| body.get("name"));
        let name = name.ok_or_else(|| ChatError::invalid("model is required"))?;
        let serving = catalog.serving(&name).await?;
        let targets = serving.into_iter().filter_map(|index| catalog.server(index));
        let mut ollama = targets.filter(|target| target.api == TargetApi::Ollama);
        let target = ollama.next().ok_or_else(|| ChatError::no_model(&name))?;
        let body = body.to_json().map_err(|error| ChatError::invalid(error.to_string()))?;
        catalog.client.post(target, "/api/show", body.as_str().to_owned()).await
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<_> = self.0.catalog.servers().collect();
        f.debug_struct("Chat").field("targets", &targets).finish_non_exhaustive()
    }
}
