//! Streaming an answer to a caller while it is made.
//!
//! What is promised is written down with the kind, in [`longhaul_kinds::chat`]; here it is kept. Nothing is read before
//! the connection has taken what came before, so that a slow caller costs no buffer.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use longhaul::job::Record;
use longhaul::store::StoreError;
use longhaul::{JobHandle, JobId, Timestamp};
use longhaul_kinds::chat::{Accumulator, ChatApi, ChatCall, StreamRead, StreamReader};
use serde_json::Value;

use super::passthrough::{Outcome, outcome, stopping};
use crate::api::AppState;
use crate::api::compat::error_format::{ErrorFormat, for_good};
use crate::api::http::caller::{Authorization, Submit};
use crate::api::http::load_shedding::without_permit;
use crate::api::jobs::X_ACCEL_BUFFERING;
use crate::problem::Problem;

/// How often it is asked whether the caller may still listen.
const JUDGED_EVERY: Duration = Duration::from_secs(2);
const KEEP_ALIVE: &str = ": keep-alive\n\n";
const DONE: &str = "data: [DONE]\n\n";

type Ending = Pin<Box<dyn Future<Output = Result<Record, StoreError>> + Send>>;

/// Somebody who is told an answer as it is made.
pub(crate) struct Listener {
    api: ChatApi,
    /// Whether a caller of `OpenAI`'s API wants to know what it used.
    usage: bool,
    job: JobId,
    reader: StreamReader,
    ending: Ending,
    state: AppState,
    authorization: Authorization<Submit>,
    /// What was sent, and of which attempt.
    sent: Accumulator,
    run: Option<u64>,
    /// Whether the rest is to be had from the result alone.
    waits: bool,
    /// What is to be sent next.
    next: VecDeque<String>,
    is_over: bool,
    judged_at: Timestamp,
    said_at: Timestamp,
}

/// What happens next.
enum Heard {
    Piece(StreamRead),
    Ended(Result<Box<Record>, StoreError>),
    Stopping,
    Nothing,
}

impl Listener {
    pub(crate) fn new(
        call: &ChatCall,
        reader: StreamReader,
        handle: JobHandle,
        state: AppState,
        authorization: Authorization<Submit>,
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
            sent: Accumulator::new(call.api),
            run: None,
            waits: false,
            next: VecDeque::new(),
            is_over: false,
            judged_at: now,
            said_at: now,
        }
    }

    /// Waits for what comes next: a piece before the end, since the end makes what is left of them one.
    async fn hear(&mut self) -> Heard {
        let wake_at = self.judged_at.after(JUDGED_EVERY);
        tokio::select! {
            biased;
            () = self.state.stop.cancelled() => Heard::Stopping,
            read = self.reader.next(), if !self.waits => Heard::Piece(read),
            ended = &mut self.ending => Heard::Ended(ended.map(Box::new)),
            () = self.state.clock.sleep_until(wake_at) => Heard::Nothing,
        }
    }

    /// Notes a piece to be sent, if it goes on where the last one ended.
    fn take(&mut self, read: StreamRead) {
        let (run, text) = match read {
            StreamRead::Chunk(run, text) => (run, text),
            StreamRead::Missed(_) => {
                self.waits = true;
                return;
            }
        };
        if *self.run.get_or_insert(run) != run {
            self.waits = true;
            return;
        }
        let Ok(piece) = serde_json::from_str::<Value>(&text) else { return };
        self.sent.add(&piece);
        self.next.push_back(framed(self.api, &text));
    }

    /// Notes the last of what is to be sent.
    fn end(&mut self, record: &Record) -> Result<(), Problem> {
        self.is_over = true;
        match outcome(record)? {
            Outcome::Failed { status, message, code } => {
                self.fail(status, &message, code.as_deref());
            }
            Outcome::Answered(answer) => {
                let body: Value = answer.body.to().map_err(Problem::internal)?;
                match self.sent.remaining(&body, self.usage) {
                    Ok(rest) => {
                        let rest = rest.iter().map(|piece| framed(self.api, &piece.to_string()));
                        self.next.extend(rest);
                        if self.api == ChatApi::OpenAiChat {
                            self.next.push_back(DONE.to_owned());
                        }
                    }
                    Err(diverged) => self.fail(502, &diverged.to_string(), Some("diverged")),
                }
            }
        }
        Ok(())
    }

    fn fail(&mut self, status: u16, message: &str, code: Option<&str>) {
        self.is_over = true;
        let error = ErrorFormat::of(self.api).error(status, message, code);
        self.next.push_back(framed(self.api, &error.to_string()));
    }

    fn refuse(&mut self, problem: &Problem) {
        let code = problem.code().as_str();
        self.fail(problem.status().as_u16(), problem.detail(), Some(code));
    }

    /// What is sent next. `None` ends the stream.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        loop {
            if let Some(text) = self.next.pop_front() {
                self.said_at = self.state.clock.now();
                return Some((Ok(text), self));
            }
            if self.is_over {
                return None;
            }
            match self.hear().await {
                Heard::Piece(read) => self.take(read),
                Heard::Ended(Ok(record)) => {
                    if let Err(problem) = self.end(&record) {
                        self.refuse(&problem);
                    }
                }
                Heard::Ended(Err(error)) => self.refuse(&Problem::from(error)),
                Heard::Stopping => self.refuse(&stopping(self.job)),
                Heard::Nothing => self.keep_alive(),
            }
            self.judge().await;
        }
    }

    /// Whoever may ask no more is told no more.
    async fn judge(&mut self) {
        let now = self.state.clock.now();
        if now >= self.judged_at.after(JUDGED_EVERY) {
            self.judged_at = now;
            if let Err(problem) = self.authorization.recheck().await {
                self.next.clear();
                self.refuse(&problem);
            }
        }
    }

    /// Lines of Ollama have no words for nothing.
    fn keep_alive(&mut self) {
        let due = self.said_at.after(self.state.settings.keep_alive);
        if self.api == ChatApi::OpenAiChat && self.state.clock.now() >= due {
            self.next.push_back(KEEP_ALIVE.to_owned());
        }
    }
}

fn framed(api: ChatApi, text: &str) -> String {
    match api {
        ChatApi::OllamaChat | ChatApi::OllamaGenerate => format!("{text}\n"),
        ChatApi::OpenAiChat => format!("data: {text}\n\n"),
    }
}

/// Answers once there is something to say: until then an error has a status of its own.
pub(crate) async fn respond(mut listener: Listener) -> Result<Response, Problem> {
    while listener.next.is_empty() {
        match without_permit(listener.hear()).await {
            Heard::Piece(read) => listener.take(read),
            Heard::Stopping => return Err(stopping(listener.job)),
            Heard::Nothing => {
                listener.judged_at = listener.state.clock.now();
                if let Err(problem) = listener.authorization.recheck().await {
                    return Err(problem);
                }
            }
            Heard::Ended(ended) => {
                let record = ended?;
                if let Outcome::Failed { status, message, code } = outcome(&record)? {
                    let tongue = ErrorFormat::of(listener.api);
                    return Ok(for_good(tongue.refuse(status, &message, code.as_deref())));
                }
                listener.end(&record)?;
            }
        }
    }
    let content_type = match listener.api {
        ChatApi::OllamaChat | ChatApi::OllamaGenerate => "application/x-ndjson",
        ChatApi::OpenAiChat => "text/event-stream",
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    let body = Body::from_stream(stream::unfold(listener, Listener::next));
    Ok((headers, body).into_response())
}
