//! The kind `chat`: a call to a language model, as a job.
//!
//! Its input is `{"api": "ollama-chat" | "ollama-generate" | "openai-chat", "body": {…}}`, where the body is what a
//! caller of that API sends. Its result is `{"api", "body", "promptTokens", "completionTokens", "target"}`, where the
//! body is what a caller that does not stream is answered.
//!
//! # Targets
//!
//! A target is a server that has models and api Ollama's API or that of `OpenAI`. A call goes to the least busy of
//! those that have its model and do not fail; where the APIs differ, the call and its answer are translated (`request`,
//! `translate`). How many calls a target serves at once is counted by each process for itself; a job that finds
//! no place waits for its turn in the order in which jobs came, and holds a worker's place meanwhile.
//!
//! # Failing
//!
//! A target that cannot be reached, breaks off, is busy or fails is tried again later, as often as the kind's attempts
//! say; a call that it refuses fails at once, with the target's own words. See [`ChatError`].
//!
//! # Streaming
//!
//! Targets are always asked to stream. Pieces of the answer, in the caller's API, go to the [`StreamLogs`], where those who
//! wait in the same process find them. What somebody who streams to a caller can rely on, and has to do:
//!
//! - Pieces of one attempt come in order, each once, from the beginning. The end of an answer is never among
//!   them: it is known when the job has completed, and comes from its result.
//! - An attempt may fail in the middle, or its process die; then another one begins anew, and may say something else.
//!   Its pieces have another number. Whoever has sent nothing yet goes on with them; whoever has, waits for the
//!   result.
//! - The result of the job is the truth. What is missing to it, [`Accumulator::remaining`] tells: the remaining if what was sent is
//!   its beginning, else that it is not, and then the stream has to end with an error. So no caller ever
//!   gets a word twice, or the beginning of one answer and the end of another.
//! - The same holds for who falls behind further than the stream_logs's log reaches, or is in another process than the attempt:
//!   it gets all that is missing in one piece, at the end.

mod accumulate;
mod attempt;
mod call;
mod catalog;
mod client;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod json_object;
mod request;
mod stream_decoder;
mod stream_log;
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
pub use stream_log::{StreamLogs, StreamRead, StreamReader};
pub use target::{ModelServer, ModelServerError, TargetApi};

use catalog::Catalog;
use client::Client;
use target_slots::TargetSlots;

/// The name of the kind, and of the queue of its jobs.
pub const CHAT: &str = "chat";
/// Jobs that wait in a process for a place at a target, besides those that have one: with several models, one
/// that is much asked for must not keep jobs of the others from being claimed.
const WAITING_MAX: usize = 32;
/// For all of an attempt, waiting for a place included; each silence of a target has its own, shorter limit.
const TIMEOUT: Duration = Duration::from_hours(24);

/// Calls to language models. Clones share everything.
#[derive(Clone)]
pub struct Chat(Arc<Inner>);

struct Inner {
    targets: Vec<ModelServer>,
    slots: TargetSlots,
    catalog: Catalog,
    client: Client,
    stream_logs: StreamLogs,
    retry: Retry,
    clock: Clock,
}

impl Chat {
    /// Calls to these targets.
    pub fn new(targets: Vec<ModelServer>, retry: Retry, clock: Clock) -> Self {
        let slots = targets.iter().map(|target| target.concurrency);
        let slots = TargetSlots::new(slots, clock.clone());
        let catalog = Catalog::new(targets.len(), clock.clone());
        let (client, stream_logs) = (Client::default(), StreamLogs::default());
        Self(Arc::new(Inner { targets, slots, catalog, client, stream_logs, retry, clock }))
    }

    /// What an engine runs chats by.
    pub fn kind(&self) -> Kind {
        let chat = Arc::clone(&self.0);
        let run = move |ctx: Ctx, call: ChatCall| {
            let chat = Arc::clone(&chat);
            async move { attempt::run(&chat, ctx, call).await }
        };
        self.described(Kind::new(CHAT, run)).concurrency(self.concurrency()).timeout(TIMEOUT)
    }

    /// The kind for a process that runs no jobs.
    pub fn remote(&self) -> Kind {
        self.described(Kind::remote(CHAT))
    }

    fn described(&self, kind: Kind) -> Kind {
        let names: Vec<&str> = self.0.targets.iter().map(ModelServer::name).collect();
        let description = format!("calls a language model at {}", names.join(", "));
        let kind = kind.retry(self.0.retry).accepts_payload(false).description(description);
        let kind = kind.input_schema(include_str!("chat/input.schema.json"));
        match Name::new(CHAT) {
            // Of its own, so that the operator can limit chats over all replicas.
            Ok(queue) => kind.queue(queue),
            Err(_) => kind,
        }
    }

    /// Jobs at once in this process: those that targets serve, and some that wait for their turn.
    pub fn concurrency(&self) -> usize {
        let served: usize = self.0.targets.iter().map(|target| target.concurrency).sum();
        served.saturating_add(WAITING_MAX)
    }

    /// Where the words of running answers are.
    pub fn stream_logs(&self) -> &StreamLogs {
        &self.0.stream_logs
    }

    /// All models, as `GET /api/tags` has them.
    pub async fn tags(&self) -> Result<Value, ChatError> {
        let models = self.0.catalog.all(&self.0.client, &self.0.targets).await?;
        Ok(json!({"models": models.iter().map(catalog::Model::to_ollama).collect::<Vec<_>>()}))
    }

    /// All models, as `GET /v1/models` has them.
    pub async fn models(&self) -> Result<Value, ChatError> {
        let models = self.0.catalog.all(&self.0.client, &self.0.targets).await?;
        let data: Vec<Value> = models.iter().map(catalog::Model::to_openai).collect();
        Ok(json!({"object": "list", "data": data}))
    }

    /// One model, as `GET /v1/models/{model}` has it.
    pub async fn model(&self, name: &str) -> Result<Value, ChatError> {
        let models = self.0.catalog.all(&self.0.client, &self.0.targets).await?;
        let found = models.iter().find(|model| model.name() == name);
        found.map(catalog::Model::to_openai).ok_or_else(|| ChatError::no_model(name))
    }

    /// What a target says of a model that it has, as `POST /api/show` has it.
    pub async fn show(&self, body: &JsonObject) -> Result<Value, ChatError> {
        let inner = &*self.0;
        let name: Option<String> = body.get("model").or_else(|| body.get("name"));
        let refused = |message: String| ChatError::Refused { status: 400, message };
        let name = name.ok_or_else(|| refused("model is required".to_owned()))?;
        let serving = inner.catalog.serving(&inner.client, &inner.targets, &name).await?;
        let targets = serving.into_iter().filter_map(|place| inner.targets.get(place));
        let mut ollama = targets.filter(|target| target.api == TargetApi::Ollama);
        let target = ollama.next().ok_or_else(|| ChatError::no_model(&name))?;
        let body = body.to_json().map_err(|error| refused(error.to_string()))?;
        inner.client.ask(target, "/api/show", body.as_str().to_owned()).await
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat").field("targets", &self.0.targets).finish_non_exhaustive()
    }
}
