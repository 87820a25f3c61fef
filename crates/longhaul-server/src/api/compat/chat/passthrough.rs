//! The routes of models' own servers: a job whose caller waits for it.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use longhaul::job::Record;
use longhaul::{JobId, Status};
use longhaul_kinds::chat::{ChatApi, ChatCall, ChatResult, http_status};

use super::stream::{self, Listener};
use super::submit::{read, submission};
use crate::api::AppState;
use crate::api::compat::error_format::{ErrorFormat, FOR_GOOD, for_good, named};
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::idempotency;
use crate::api::http::respond;
use crate::jobs::{submit as service, wait};
use crate::problem::{Code, Problem};

/// `POST /api/chat`
pub(crate) async fn ollama_chat(
    state: State<AppState>,
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    answer(state, caller, headers, body, ChatApi::OllamaChat).await
}

/// `POST /api/generate`
pub(crate) async fn ollama_generate(
    state: State<AppState>,
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    answer(state, caller, headers, body, ChatApi::OllamaGenerate).await
}

/// `POST /v1/chat/completions`
pub(crate) async fn openai_chat(
    state: State<AppState>,
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    answer(state, caller, headers, body, ChatApi::OpenAiChat).await
}

async fn answer(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
    api: ChatApi,
) -> Result<Response, Problem> {
    let chat = state.chat()?.clone();
    // A server that takes submissions only with a key cannot ask that of others' clients.
    let key = idempotency::key(&headers, false)?;
    let call = read(&caller, &headers, body, api).await?;
    let handle = service::submit(&state, submission(&caller, &call, key)).await?;
    let (id, tenant) = (handle.id(), caller.engine.tenant().clone());
    if call.streams() {
        let reader = chat.stream_logs().read(&tenant, id);
        let authorization = caller.authorization(&headers);
        let listener = Listener::new(&call, reader, handle, state, authorization);
        return Ok(named(stream::respond(listener).await?, id));
    }
    let authorization = caller.authorization(&headers);
    let record = wait::for_result(&state, &handle, &authorization).await?;
    let record = record.ok_or_else(|| stopping(id))?;
    Ok(named(whole(&call, &record)?, id))
}

/// What whoever waits is told when the server stops. Asking again would make another job.
pub(crate) fn stopping(job: JobId) -> Problem {
    let detail =
        format!("the server is stopping; the job {job} goes on: ask for it at /jobs/{job}");
    let (name, value) = FOR_GOOD;
    Problem::new(Code::Unavailable, detail).header(name, value)
}

/// What a caller that does not stream is answered.
fn whole(call: &ChatCall, record: &Record) -> Result<Response, Problem> {
    match outcome(record)? {
        Outcome::Answered(found) => Ok(respond::raw_json(&found.body)),
        Outcome::Failed { status, message, code } => {
            let tongue = ErrorFormat::of(call.api);
            Ok(for_good(tongue.refuse(status, &message, code.as_deref())))
        }
    }
}

/// How a chat ended.
pub(crate) enum Outcome {
    /// With this.
    Answered(ChatResult),
    /// Without an answer.
    Failed {
        /// What its caller is answered with.
        status: u16,
        /// For people.
        message: String,
        /// For programs.
        code: Option<String>,
    },
}

/// How the chat of a job that has ended did.
pub(crate) fn outcome(record: &Record) -> Result<Outcome, Problem> {
    if let Some(result) = &record.result {
        return Ok(Outcome::Answered(result.to().map_err(Problem::internal)?));
    }
    Ok(match (&record.job.error, record.job.status) {
        (Some(error), Status::Failed) => Outcome::Failed {
            status: http_status(&error.code),
            message: error.message.clone(),
            code: Some(error.code.clone()),
        },
        (_, status) => {
            let message = format!("the job is {status}: it has no answer");
            Outcome::Failed { status: 409, message, code: Some(status.as_str().to_owned()) }
        }
    })
}
