//! One attempt: from the call to its answer.

use std::time::Duration;

use longhaul::job::{Json, PHASE_LOADING, PHASE_WORKING, Tokens};
use longhaul::{Ctx, JobError};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use super::Inner;
use super::accumulate::{Accumulator, is_end};
use super::call::{ChatApi, ChatCall, ChatResult};
use super::client::reason;
use super::error::{ChatError, in_stream};
use super::request::TargetRequest;
use super::stream_decoder::StreamDecoder;
use super::stream_log::StreamWriter;
use super::target::{ModelServer, TargetApi};
use super::target_slots::TargetSlot;
use super::translate::{StreamChunk, Translator};

/// How long a target may take for its first word: a large model takes minutes to load.
const FIRST_WORD: Duration = Duration::from_mins(30);
/// How long it may be silent between two.
const NEXT_WORD: Duration = Duration::from_mins(5);
/// What is read of one answer: its words are a small part of it.
const STREAM_BYTES_MAX: usize = 512 * 1024 * 1024;

/// What ends an attempt early.
enum AttemptError {
    By(ChatError),
    /// The job's own affair, already said as it is to be.
    As(JobError),
}

impl From<ChatError> for AttemptError {
    fn from(failure: ChatError) -> Self {
        Self::By(failure)
    }
}

/// Runs one attempt, until it has an answer or somebody asks the job to stop.
pub(super) async fn run(chat: &Inner, ctx: Ctx, call: ChatCall) -> Result<ChatResult, JobError> {
    let answer = tokio::select! {
        biased;
        answer = answer(chat, &ctx, &call) => answer,
        () = ctx.cancelled() => {
            return Err(JobError::fatal("the job was asked to stop").with_code("cancelled"));
        }
    };
    answer.map_err(|ended| match ended {
        AttemptError::By(failure) => failure.into_error(chat.retry, ctx.attempt(), rand::random()),
        AttemptError::As(error) => error,
    })
}

async fn answer(chat: &Inner, ctx: &Ctx, call: &ChatCall) -> Result<ChatResult, AttemptError> {
    let refused = |message: String| ChatError::Refused { status: 400, message };
    call.check().map_err(|why| refused(why.to_owned()))?;
    let model = call.model().unwrap_or_default();
    let serving = chat.catalog.serving(&chat.client, &chat.targets, &model).await?;
    let place = chat.slots.acquire(&serving).await.ok_or_else(|| ChatError::no_model(&model))?;
    let Some(target) = chat.targets.get(place.target()) else {
        return Err(ChatError::no_model(&model).into());
    };
    let outgoing =
        TargetRequest::of(call, target.api).map_err(|unfit| refused(unfit.to_string()))?;
    let heard = TargetCall { chat, ctx, call, target, place: &place };
    let result = heard.converse(outgoing, &model).await;
    if let Err(AttemptError::By(ChatError::Unreachable { .. })) = &result {
        place.failure();
    }
    result
}

/// A conversation with one target.
struct TargetCall<'a> {
    chat: &'a Inner,
    ctx: &'a Ctx,
    call: &'a ChatCall,
    target: &'a ModelServer,
    place: &'a TargetSlot,
}

impl TargetCall<'_> {
    async fn converse(
        &self,
        outgoing: TargetRequest,
        model: &str,
    ) -> Result<ChatResult, AttemptError> {
        let loaded = self.is_loaded(model).await?;
        self.phase(if loaded { PHASE_WORKING } else { PHASE_LOADING }).await?;
        let job = self.ctx.job();
        let writer = self.chat.stream_logs.write(&job.tenant, job.id);
        let began = self.chat.clock.now();
        let api = outgoing.api;
        let response = self.within(FIRST_WORD, self.begin(outgoing)).await??;
        let created_s = began.as_millis() / 1_000;
        let id = job.id.to_string();
        let said = ResponseStream {
            api: self.call.api,
            translator: Translator::new(api, self.call.api, &id, created_s),
            accumulator: Accumulator::new(self.call.api),
            writer,
            is_first: true,
        };
        let said = self.listen(response, api, said, loaded).await?;
        if !said.accumulator.is_complete() {
            let why = "the answer has no end".to_owned();
            return Err(ChatError::BrokeOff { target: self.target.name.clone(), why }.into());
        }
        let body = Json::from_value(&said.accumulator.body());
        let body = body.map_err(|error| AttemptError::As(JobError::from(error)))?;
        let (prompt_tokens, completion_tokens) = said.accumulator.tokens();
        self.ctx.record_tokens(Tokens {
            prompt: prompt_tokens.unwrap_or_default(),
            completion: completion_tokens.unwrap_or_default(),
        });
        let target = self.target.name.clone();
        Ok(ChatResult { api: self.call.api, body, prompt_tokens, completion_tokens, target })
    }

    async fn begin(&self, outgoing: TargetRequest) -> Result<Response, ChatError> {
        self.chat.client.call(self.target, outgoing.path, outgoing.body).await
    }

    /// Whether the model is in memory; one that cannot tell counts as ready.
    async fn is_loaded(&self, model: &str) -> Result<bool, ChatError> {
        match self.target.api {
            TargetApi::OpenAi => Ok(true),
            TargetApi::Ollama => match self.chat.client.get(self.target, "/api/ps").await {
                Ok(answer) => {
                    let running = answer.get("models").and_then(Value::as_array);
                    let name = |one: &Value| Some(one.get("name")?.as_str()?.to_owned());
                    Ok(running.is_none_or(|running| {
                        running
                            .iter()
                            .filter_map(name)
                            .any(|one| self.target.is_called(&one, model))
                    }))
                }
                Err(failure @ ChatError::Unreachable { .. }) => Err(failure),
                Err(_) => Ok(true),
            },
        }
    }

    async fn phase(&self, phase: &str) -> Result<(), AttemptError> {
        self.ctx.phase(phase).await.map_err(AttemptError::As)
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

    /// Hears the target out.
    async fn listen(
        &self,
        mut response: Response,
        api: ChatApi,
        mut said: ResponseStream,
        loaded: bool,
    ) -> Result<ResponseStream, AttemptError> {
        let content_type =
            response.headers().get(CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
        let is_json = content_type.is_some_and(|value| value.starts_with(b"application/json"));
        let mut lines = StreamDecoder::new(api, is_json);
        let mut bytes_read = 0_usize;
        loop {
            let limit = if said.is_first { FIRST_WORD } else { NEXT_WORD };
            let read = self.within(limit, response.chunk()).await?;
            let bytes = read.map_err(|error| self.cut_off(&said, reason(&error)))?;
            let texts = match &bytes {
                Some(bytes) => {
                    bytes_read += bytes.len();
                    let most = bytes_read <= STREAM_BYTES_MAX;
                    let texts = lines.push(bytes).ok().filter(|_| most);
                    texts.ok_or_else(|| self.failed("its answer is too long"))?
                }
                None => lines.end(),
            };
            for text in texts {
                if said.is_first {
                    self.place.success();
                    if !loaded {
                        self.phase(PHASE_WORKING).await?;
                    }
                }
                said.hear(text).map_err(|message| self.failed(&message))?;
            }
            if bytes.is_none() {
                if said.is_first {
                    return Err(self.cut_off(&said, "it closed the connection".to_owned()).into());
                }
                said.end();
                return Ok(said);
            }
        }
    }

    fn failed(&self, message: &str) -> ChatError {
        ChatError::Failed { target: self.target.name.clone(), message: message.to_owned() }
    }

    fn cut_off(&self, said: &ResponseStream, why: String) -> ChatError {
        let target = self.target.name.clone();
        if said.is_first {
            ChatError::Unreachable { target, why }
        } else {
            ChatError::BrokeOff { target, why }
        }
    }
}

/// What a target has said so far, in the caller's API.
struct ResponseStream {
    api: ChatApi,
    translator: Translator,
    accumulator: Accumulator,
    writer: StreamWriter,
    is_first: bool,
}

impl ResponseStream {
    /// Takes what a target says, or returns what it says instead.
    fn hear(&mut self, text: String) -> Result<(), String> {
        self.is_first = false;
        let value: Value =
            serde_json::from_str(&text).map_err(|_| "what it says is no JSON".to_owned())?;
        if let Some(error) = in_stream(&value) {
            return Err(error);
        }
        let pieces = self.translator.take(StreamChunk { text, value });
        self.tell(pieces);
        Ok(())
    }

    fn end(&mut self) {
        let pieces = self.translator.end();
        self.tell(pieces);
    }

    /// The end is told by whoever sees the job end: until then it may be made again.
    fn tell(&mut self, pieces: Vec<StreamChunk>) {
        for piece in pieces {
            self.accumulator.add(&piece.value);
            if !is_end(self.api, &piece.value) {
                self.writer.add(&piece.text);
            }
        }
    }
}
