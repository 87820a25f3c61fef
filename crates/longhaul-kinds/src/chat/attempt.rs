//! One attempt of a chat job.

use std::time::Duration;

use longhaul::job::{Json, PHASE_LOADING, PHASE_WORKING, Tokens};
use longhaul::{Ctx, JobError, OutputWriter};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use super::Inner;
use super::accumulate::Accumulator;
use super::call::{ChatApi, ChatCall, ChatResult};
use super::client::reason;
use super::error::{ChatError, stream_error};
use super::json_fields::text;
use super::request::TargetRequest;
use super::stream_decoder::StreamDecoder;
use super::target::{ModelServer, TargetApi};
use super::target_slots::TargetSlot;
use super::translate::{StreamChunk, Translator};
use crate::unless_cancelled;

/// Time to the first chunk, because loading a large model takes minutes.
const FIRST_CHUNK_TIMEOUT: Duration = Duration::from_mins(30);
/// Time between chunks.
const NEXT_CHUNK_TIMEOUT: Duration = Duration::from_mins(5);
/// Bytes of a stream after which the size of its response is checked again.
const CHECK_BYTES: usize = 256 * 1024;

enum AttemptError {
    Target(ChatError),
    Job(JobError),
}

impl From<ChatError> for AttemptError {
    fn from(failure: ChatError) -> Self {
        Self::Target(failure)
    }
}

/// Runs one attempt until it has a response or the job is cancelled.
pub(super) async fn run(chat: &Inner, ctx: Ctx, call: ChatCall) -> Result<ChatResult, JobError> {
    let result = unless_cancelled(&ctx, call_target(chat, &ctx, &call)).await?;
    result.map_err(|error| match error {
        AttemptError::Target(failure) => job_error(chat, &ctx, &call, failure),
        AttemptError::Job(error) => error,
    })
}

fn job_error(chat: &Inner, ctx: &Ctx, call: &ChatCall, failure: ChatError) -> JobError {
    let random = rand::random();
    if let ChatError::Unreachable { target, .. } | ChatError::Unavailable { target, .. } = &failure
    {
        let outage = chat.outages.unreachable(target);
        let waited = chat.clock.now().since(ctx.job().created_at);
        let waits = call.wait_max.is_none_or(|max_s| waited < Duration::from_secs(max_s));
        if waits && matches!(failure, ChatError::Unreachable { .. }) {
            return failure.into_wait(chat.retry, outage, random);
        }
    }
    failure.into_error(chat.retry, ctx.attempt(), random)
}

async fn call_target(chat: &Inner, ctx: &Ctx, call: &ChatCall) -> Result<ChatResult, AttemptError> {
    call.check().map_err(ChatError::invalid)?;
    let model = call.model().unwrap_or_default();
    let serving = chat.catalog.serving(&model).await?;
    let slot = chat.slots.acquire(&serving).await.ok_or_else(|| ChatError::no_model(&model))?;
    let Some(target) = chat.catalog.server(slot.target()) else {
        return Err(ChatError::no_model(&model).into());
    };
    let outgoing = TargetRequest::build(call, target.api);
    let outgoing = outgoing.map_err(|error| ChatError::invalid(error.to_string()))?;
    let target_call = TargetCall { chat, ctx, call, target, slot: &slot };
    let result = target_call.run(outgoing, &model).await;
    if let Err(AttemptError::Target(
        ChatError::Unreachable { .. } | ChatError::Unavailable { .. } | ChatError::BrokeOff { .. },
    )) = &result
    {
        slot.failure();
    }
    result
}

struct TargetCall<'a> {
    chat: &'a Inner,
    ctx: &'a Ctx,
    call: &'a ChatCall,
    target: &'a ModelServer,
    slot: &'a TargetSlot,
}

impl TargetCall<'_> {
    async fn run(&self, outgoing: TargetRequest, model: &str) -> Result<ChatResult, AttemptError> {
        let loaded = self.is_loaded(model).await?;
        self.phase(if loaded { PHASE_WORKING } else { PHASE_LOADING }).await?;
        let job = self.ctx.job();
        let writer = self.call.streams().then(|| self.ctx.output_stream());
        let started_at = self.chat.clock.now();
        let api = outgoing.api;
        let sent = self.chat.catalog.client.call(self.target, outgoing.path, outgoing.body);
        let response = self.within(FIRST_CHUNK_TIMEOUT, sent).await??;
        let created_s = started_at.as_millis() / 1_000;
        let id = job.id.to_string();
        let stream = TargetStream {
            translator: Translator::new(api, self.call, &id, created_s),
            accumulator: Accumulator::new(self.call.api),
            writer,
            is_first: true,
        };
        let stream = self.read_stream(response, api, stream, loaded).await?;
        if !stream.accumulator.is_complete() {
            return Err(self.target.broke_off("the response has no final chunk".to_owned()).into());
        }
        let body = Json::from_value(&stream.accumulator.body());
        let body = body.map_err(|error| AttemptError::Job(JobError::from(error)))?;
        let (prompt_tokens, completion_tokens) = stream.accumulator.tokens();
        self.ctx.record_tokens(Tokens {
            prompt: prompt_tokens.unwrap_or_default(),
            completion: completion_tokens.unwrap_or_default(),
        });
        let target = self.target.name.clone();
        Ok(ChatResult { api: self.call.api, body, prompt_tokens, completion_tokens, target })
    }

    /// Returns true if the model is in memory, or if the target cannot report it. Fails if the target is unreachable.
    async fn is_loaded(&self, model: &str) -> Result<bool, ChatError> {
        let client = &self.chat.catalog.client;
        match self.target.api {
            // After a failure a query shows whether the target is back, so that the call is not charged for its outage.
            TargetApi::OpenAi if self.chat.outages.has(&self.target.name) => {
                match client.get(self.target, "/models").await {
                    Err(failure @ ChatError::Unreachable { .. }) => Err(failure),
                    Ok(_) | Err(_) => Ok(true),
                }
            }
            TargetApi::OpenAi => Ok(true),
            TargetApi::Ollama => match client.get(self.target, "/api/ps").await {
                Ok(reply) => {
                    let running = reply.get("models").and_then(Value::as_array);
                    let is_same = |one: &Value| self.target.is_same_model(text(one, "name"), model);
                    Ok(running.is_none_or(|running| running.iter().any(is_same)))
                }
                Err(failure @ ChatError::Unreachable { .. }) => Err(failure),
                Err(_) => Ok(true),
            },
        }
    }

    async fn phase(&self, phase: &str) -> Result<(), AttemptError> {
        self.ctx.phase(phase).await.map_err(AttemptError::Job)
    }

    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, ChatError> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.chat.clock.sleep(limit) => {
                Err(ChatError::Silent { target: self.target.name.clone(), for_s: limit.as_secs() })
            }
        }
    }

    async fn read_stream(
        &self,
        mut response: Response,
        api: ChatApi,
        mut stream: TargetStream,
        loaded: bool,
    ) -> Result<TargetStream, AttemptError> {
        let content_type =
            response.headers().get(CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
        let is_json = content_type.is_some_and(|value| value.starts_with(b"application/json"));
        let bytes_max = self.ctx.limits().result_bytes_max;
        let too_long = || ChatError::TooLong { target: self.target.name.clone(), bytes_max };
        let mut lines = StreamDecoder::new(api, is_json, bytes_max);
        let mut unchecked = 0;
        loop {
            let limit = if stream.is_first { FIRST_CHUNK_TIMEOUT } else { NEXT_CHUNK_TIMEOUT };
            let read = self.within(limit, response.chunk()).await?;
            let bytes = read.map_err(|error| self.target.broke_off(reason(&error)))?;
            let texts = match &bytes {
                Some(bytes) => {
                    unchecked += bytes.len();
                    lines.push(bytes).map_err(|_| too_long())?
                }
                None => lines.end(),
            };
            for text in texts {
                if stream.is_first {
                    self.slot.success();
                    self.chat.outages.reachable(&self.target.name);
                    if !loaded {
                        self.phase(PHASE_WORKING).await?;
                    }
                }
                stream.handle(text).map_err(|message| self.target.failed(&message))?;
            }
            if unchecked >= CHECK_BYTES || bytes.is_none() {
                unchecked = 0;
                if stream.accumulator.size() > bytes_max {
                    return Err(too_long().into());
                }
            }
            if bytes.is_none() {
                if stream.is_first {
                    let why = "the connection was closed without a response".to_owned();
                    return Err(self.target.broke_off(why).into());
                }
                stream.end();
                return Ok(stream);
            }
        }
    }
}

/// Stream of a target, translated to the caller's API.
struct TargetStream {
    translator: Translator,
    accumulator: Accumulator,
    /// Output stream for callers that stream.
    writer: Option<OutputWriter>,
    is_first: bool,
}

impl TargetStream {
    /// Handles one JSON text of the stream. Fails with the error that a target reports in the stream.
    fn handle(&mut self, text: String) -> Result<(), String> {
        self.is_first = false;
        let value: Value =
            serde_json::from_str(&text).map_err(|_| "the response is not JSON".to_owned())?;
        if let Some(error) = stream_error(&value) {
            return Err(error);
        }
        let chunks = self.translator.take(StreamChunk { text, value });
        self.log(chunks);
        Ok(())
    }

    fn end(&mut self) {
        let chunks = self.translator.end();
        self.log(chunks);
    }

    /// Adds chunks to the response, and all but the final one to the output stream, because the response may be
    /// generated again until the job has finished.
    fn log(&mut self, chunks: Vec<StreamChunk>) {
        for chunk in chunks {
            self.accumulator.add(&chunk.value);
            if let Some(writer) = &self.writer
                && !self.accumulator.is_end(&chunk.value)
            {
                writer.add(&chunk.text);
            }
        }
    }
}
