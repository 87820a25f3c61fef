//! Streaming a chat response while the model generates it.
//!
//! The guarantees are documented with the kind, in [`longhaul_kinds::chat`]. The stream is pulled: nothing is read before
//! the connection has taken the previous chunk, so that a slow client needs no buffer.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::stream;
use longhaul::job::Record;
use longhaul::store::StoreError;
use longhaul::{JobHandle, JobId, OutputRead, OutputReader, Timestamp};
use longhaul_kinds::chat::{Accumulator, ChatApi, ChatCall, TargetApi};
use serde::Deserialize;
use serde_json::Value;

use super::disconnect::DisconnectGuard;
use super::passthrough::{ChatOutcome, outcome, stopping};
use crate::api::AppState;
use crate::api::compat::error_format::{ErrorFormat, not_retryable};
use crate::api::http::caller::{Authorization, Submit};
use crate::api::http::load_shedding::without_permit;
use crate::api::http::respond;
use crate::problem::{Problem, Result};

/// Interval of authorization checks.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);
const KEEP_ALIVE: &str = ": keep-alive\n\n";
const DONE: &str = "data: [DONE]\n\n";

type Ending = Pin<Box<dyn Future<Output = Result<Record, StoreError>> + Send>>;

/// State of one response stream.
pub(crate) struct ChatResponseStream {
    api: ChatApi,
    /// `stream_options.include_usage` of the `OpenAI` API.
    usage: bool,
    job: JobId,
    reader: OutputReader,
    ending: Ending,
    state: AppState,
    authorization: Authorization<Submit>,
    guard: DisconnectGuard,
    /// Everything sent so far, and the epoch of the attempt that it came from.
    sent: Accumulator,
    epoch: Option<u64>,
    /// The live stream cannot continue; the rest comes from the job's result.
    waits: bool,
    /// Chunks to send.
    next: VecDeque<String>,
    is_finished: bool,
    checked_at: Timestamp,
    sent_at: Timestamp,
}

enum StreamEvent {
    Piece(OutputRead),
    Ended(Result<Box<Record>, StoreError>),
    Stopping,
    Nothing,
}

impl ChatResponseStream {
    pub(crate) fn new(
        call: &ChatCall,
        reader: OutputReader,
        handle: JobHandle,
        state: AppState,
        authorization: Authorization<Submit>,
        guard: DisconnectGuard,
    ) -> Self {
        let options: Option<Value> = call.body.get("stream_options");
        let usage =
            options.is_some_and(|options| options.get("include_usage") == Some(&true.into()));
        let (job, now) = (handle.id(), state.clock.now());
        Self {
            api: call.api,
            usage,
            job,
            reader,
            ending: Box::pin(async move { handle.wait().await }),
            state,
            authorization,
            guard,
            sent: Accumulator::new(call.api),
            epoch: None,
            waits: false,
            next: VecDeque::new(),
            is_finished: false,
            checked_at: now,
            sent_at: now,
        }
    }

    /// Waits for the next event. Chunks come before the end, because the end sends everything that is left at once.
    async fn next_event(&mut self) -> StreamEvent {
        let wake_at = self.checked_at.after(RECHECK_INTERVAL);
        tokio::select! {
            biased;
            () = self.state.stop.cancelled() => StreamEvent::Stopping,
            read = self.reader.next(), if !self.waits => StreamEvent::Piece(read),
            ended = &mut self.ending => StreamEvent::Ended(ended.map(Box::new)),
            () = self.state.clock.sleep_until(wake_at) => StreamEvent::Nothing,
        }
    }

    /// Queues a chunk if it continues the previous one.
    fn take(&mut self, read: OutputRead) {
        let (epoch, text) = match read {
            OutputRead::Chunk(epoch, text) => (epoch, text),
            OutputRead::Missed(_) => {
                self.waits = true;
                return;
            }
        };
        if *self.epoch.get_or_insert(epoch) != epoch {
            self.waits = true;
            return;
        }
        let Ok(piece) = serde_json::from_str::<Value>(&text) else { return };
        self.sent.add(&piece);
        self.next.push_back(framed(self.api, &text));
    }

    /// Queues the rest of the response.
    fn end(&mut self, record: &Record) -> Result<()> {
        self.finish();
        match outcome(record)? {
            ChatOutcome::Failed { status, message, code } => {
                self.fail(status, &message, code.as_deref());
            }
            ChatOutcome::Completed(answer) => {
                let body: Value = answer.body.to().map_err(Problem::internal)?;
                match self.sent.remaining(&body, self.usage) {
                    Ok(rest) => {
                        let rest = rest.iter().map(|piece| framed(self.api, &piece.to_string()));
                        self.next.extend(rest);
                        if let StreamFraming::Events = StreamFraming::of(self.api) {
                            self.next.push_back(DONE.to_owned());
                        }
                    }
                    Err(diverged) => self.fail(502, &diverged.to_string(), Some("diverged")),
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        self.is_finished = true;
        self.guard.disarm();
    }

    fn fail(&mut self, status: u16, message: &str, code: Option<&str>) {
        self.finish();
        let mut error = ErrorFormat::of(self.api).error(status, message, code);
        if let (StreamFraming::TypedEvents, Some(event)) =
            (StreamFraming::of(self.api), error.as_object_mut())
        {
            event.insert("type".to_owned(), "error".into());
        }
        self.next.push_back(framed(self.api, &error.to_string()));
    }

    fn fail_with(&mut self, problem: &Problem) {
        let code = problem.code().as_str();
        self.fail(problem.status().as_u16(), problem.detail(), Some(code));
    }

    /// Returns the next chunk. `None` ends the stream.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        loop {
            if let Some(text) = self.next.pop_front() {
                self.sent_at = self.state.clock.now();
                return Some((Ok(text), self));
            }
            if self.is_finished {
                return None;
            }
            match self.next_event().await {
                StreamEvent::Piece(read) => self.take(read),
                StreamEvent::Ended(Ok(record)) => {
                    if let Err(problem) = self.end(&record) {
                        self.fail_with(&problem);
                    }
                }
                StreamEvent::Ended(Err(error)) => self.fail_with(&Problem::from(error)),
                StreamEvent::Stopping => self.fail_with(&stopping(self.job)),
                StreamEvent::Nothing => self.keep_alive(),
            }
            self.recheck().await;
        }
    }

    /// Ends the stream if the caller lost its authorization.
    async fn recheck(&mut self) {
        let now = self.state.clock.now();
        if now >= self.checked_at.after(RECHECK_INTERVAL) {
            self.checked_at = now;
            if let Err(problem) = self.authorization.recheck().await {
                self.next.clear();
                self.fail_with(&problem);
            }
        }
    }

    /// Sends a keep-alive comment. Ollama's format has none.
    fn keep_alive(&mut self) {
        let due = self.sent_at.after(self.state.settings.keep_alive);
        let has_comments = StreamFraming::of(self.api) != StreamFraming::Lines;
        if has_comments && self.state.clock.now() >= due {
            self.next.push_back(KEEP_ALIVE.to_owned());
        }
    }
}

/// Framing of chunks in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamFraming {
    /// JSON lines, of Ollama.
    Lines,
    /// Server-sent events that end with `[DONE]`.
    Events,
    /// Server-sent events, named by their type.
    TypedEvents,
}

impl StreamFraming {
    fn of(api: ChatApi) -> Self {
        match (api.target_api(), api) {
            (TargetApi::Ollama, _) => Self::Lines,
            (TargetApi::OpenAi, ChatApi::OpenAiResponses) => Self::TypedEvents,
            (TargetApi::OpenAi, _) => Self::Events,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::Events | Self::TypedEvents => "text/event-stream",
        }
    }
}

fn framed(api: ChatApi, text: &str) -> String {
    #[derive(Deserialize)]
    struct EventType<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    match StreamFraming::of(api) {
        StreamFraming::Lines => format!("{text}\n"),
        StreamFraming::Events => format!("data: {text}\n\n"),
        StreamFraming::TypedEvents => match serde_json::from_str::<EventType<'_>>(text) {
            // A line break in the name would start another field.
            Ok(event) if !event.kind.contains(['\r', '\n']) => {
                format!("event: {}\ndata: {text}\n\n", event.kind)
            }
            Ok(_) | Err(_) => format!("data: {text}\n\n"),
        },
    }
}

/// Responds once the first chunk is available, because until then an error can still set the HTTP status.
pub(crate) async fn respond(mut stream_state: ChatResponseStream) -> Result<Response> {
    let first = wait_for_first_chunk(&mut stream_state).await;
    if !matches!(first, Ok(None)) {
        stream_state.guard.disarm();
    }
    if let Some(failure) = first? {
        return Ok(failure);
    }
    let content_type = StreamFraming::of(stream_state.api).content_type();
    let body = Body::from_stream(stream::unfold(stream_state, ChatResponseStream::next));
    Ok(respond::stream(content_type, body))
}

/// Waits for the first chunk. Returns the response of a job that failed before it.
async fn wait_for_first_chunk(stream_state: &mut ChatResponseStream) -> Result<Option<Response>> {
    while stream_state.next.is_empty() {
        match without_permit(stream_state.next_event()).await {
            StreamEvent::Piece(read) => stream_state.take(read),
            StreamEvent::Stopping => return Err(stopping(stream_state.job)),
            StreamEvent::Nothing => {
                stream_state.checked_at = stream_state.state.clock.now();
                stream_state.authorization.recheck().await?;
            }
            StreamEvent::Ended(ended) => {
                let record = ended?;
                if let ChatOutcome::Failed { status, message, code } = outcome(&record)? {
                    let format = ErrorFormat::of(stream_state.api);
                    let failure = format.respond(status, &message, code.as_deref());
                    return Ok(Some(not_retryable(failure)));
                }
                stream_state.end(&record)?;
            }
        }
    }
    Ok(None)
}
