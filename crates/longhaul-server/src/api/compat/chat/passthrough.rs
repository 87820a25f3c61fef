//! Routes of model servers: the caller waits for the job.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use longhaul::job::Record;
use longhaul::{JobId, Status};
use longhaul_kinds::chat::{ChatApi, ChatCall, ChatResult, http_status};

use super::disconnect::DisconnectGuard;
use super::stream::{self, ChatResponseStream};
use super::submit::{parse, submission};
use crate::api::AppState;
use crate::api::compat::error_format::{ErrorFormat, NOT_RETRYABLE, not_retryable, with_job_id};
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::idempotency;
use crate::api::http::respond;
use crate::jobs::{submit as service, wait};
use crate::problem::{Code, Problem, Result};

/// Returns the route of a model server's API.
pub(super) fn route(api: ChatApi) -> MethodRouter<AppState> {
    post(move |state: State<AppState>, caller: Caller<Submit>, headers: HeaderMap, body: Body| {
        respond(state, caller, headers, body, api)
    })
}

async fn respond(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
    api: ChatApi,
) -> Result<Response> {
    state.chat()?;
    // Never required here, because other systems' clients do not send one.
    let key = idempotency::key(&headers, false)?;
    let (mut call, permit) = parse(&state, &caller, &headers, body, api).await?;
    // Otherwise the job is meant to continue without its caller.
    let ends_with_caller = key.is_none() && state.settings.cancel_disconnected_chats;
    if ends_with_caller {
        call.wait_max = Some(state.settings.chat_unreachable_wait.as_secs());
    }
    let handle = service::submit(&state, submission(&caller, &call, key)).await?;
    drop(permit);
    let id = handle.id();
    let mut guard = if ends_with_caller {
        DisconnectGuard::new(&caller.engine, id)
    } else {
        DisconnectGuard::disarmed()
    };
    if call.streams() {
        let reader = caller.engine.read_output(id);
        let authorization = caller.authorization(&headers);
        let response_stream =
            ChatResponseStream::new(&call, reader, handle, state, authorization, guard);
        return Ok(with_job_id(stream::respond(response_stream).await?, id));
    }
    let authorization = caller.authorization(&headers);
    let waited = wait::for_result(&state, &handle, &authorization).await;
    guard.disarm();
    let record = waited?;
    let record = record.ok_or_else(|| stopping(id))?;
    Ok(with_job_id(complete_response(&call, &record)?, id))
}

/// Response to waiting callers when the server stops. Not retryable, because a retry would submit another job.
pub(crate) fn stopping(job: JobId) -> Problem {
    let detail = format!("the server is stopping; job {job} continues: poll /jobs/{job}");
    let (name, value) = NOT_RETRYABLE;
    Problem::new(Code::Unavailable, detail).header(name, value)
}

/// Response to a caller that does not stream.
fn complete_response(call: &ChatCall, record: &Record) -> Result<Response> {
    match outcome(record)? {
        ChatOutcome::Completed(answer) => Ok(respond::raw_json(&answer.body)),
        ChatOutcome::Failed { status, message, code } => {
            let format = ErrorFormat::of(call.api);
            Ok(not_retryable(format.respond(status, &message, code.as_deref())))
        }
    }
}

pub(crate) enum ChatOutcome {
    Completed(ChatResult),
    Failed {
        /// HTTP status for the caller.
        status: u16,
        message: String,
        code: Option<String>,
    },
}

/// Returns the outcome of a finished chat job.
pub(crate) fn outcome(record: &Record) -> Result<ChatOutcome> {
    if let Some(result) = &record.result {
        return Ok(ChatOutcome::Completed(result.to().map_err(Problem::internal)?));
    }
    Ok(match (&record.job.error, record.job.status) {
        (Some(error), Status::Failed) => ChatOutcome::Failed {
            status: http_status(&error.code),
            message: error.message.clone(),
            code: Some(error.code.clone()),
        },
        (_, status) => {
            let message = format!("the job is {status} and has no result");
            ChatOutcome::Failed { status: 409, message, code: Some(status.as_str().to_owned()) }
        }
    })
}
