//! Submitting chat jobs.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::Submission;
use longhaul::job::{EventFilter, Webhook, WebhookFormat};
use longhaul_kinds::chat::{CHAT, ChatApi, ChatCall, JsonObject};
use serde_json::json;

use super::response::MODEL_LABEL;
use crate::api::AppState;
use crate::api::compat::error_format::with_job_id;
use crate::api::http::body;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::idempotency;
use crate::api::http::load_shedding::BodyPermit;
use crate::jobs::submit as service;
use crate::problem::{Code, Problem, Result};

/// Extension of Ollama's format in `POST /jobs`.
const STATE_WEBHOOK_URL: &str = "state_webhook_url";

/// `POST /jobs`: submits a chat without waiting for it.
pub(crate) async fn submit(
    State(state): State<AppState>,
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let key = idempotency::key(&headers, state.settings.require_idempotency_key)?;
    let (mut call, _permit) = parse(&state, &caller, &headers, body, ChatApi::OllamaChat).await?;
    let webhook = webhook(&state, &mut call.body).await?;
    let submission = submission(&caller, &call, key);
    let submission = match webhook {
        Some(webhook) => submission.webhook(webhook),
        None => submission,
    };
    let handle = service::submit(&state, submission).await?;
    let response = (StatusCode::ACCEPTED, Json(json!({"job_id": handle.id().to_string()})));
    Ok(with_job_id(response.into_response(), handle.id()))
}

/// Parses a call in the format of an API. The permit is to be kept until the job is stored.
pub(crate) async fn parse(
    state: &AppState,
    caller: &Caller<Submit>,
    headers: &HeaderMap,
    body: Body,
    api: ChatApi,
) -> Result<(ChatCall, Option<BodyPermit>)> {
    let bytes_max = caller.engine.input_bytes_max(Some(state.chat()?.body_bytes_max()));
    let shedder = &state.load_shedder;
    let (text, permit) =
        body::large_json_text_of_any_type(shedder, headers, body, bytes_max).await?;
    body::reject_duplicate_keys(&text)?;
    let call = ChatCall::new(api, body::outer_object(&text)?);
    call.check().map_err(|reason| Problem::new(Code::BadRequest, reason))?;
    Ok((call, permit))
}

pub(crate) fn submission(
    caller: &Caller<Submit>,
    call: &ChatCall,
    key: Option<String>,
) -> Submission {
    let model = call.model().unwrap_or_default();
    let submission = caller.engine.submit_raw(CHAT, call).label(MODEL_LABEL, model);
    service::with_key(submission, key)
}

/// Takes the state webhook out of a body and checks its URL.
async fn webhook(state: &AppState, body: &mut JsonObject) -> Result<Option<Webhook>> {
    let Some(value) = body.remove(STATE_WEBHOOK_URL) else { return Ok(None) };
    let url: Option<String> = serde_json::from_str(value.get()).map_err(|_| {
        Problem::new(Code::Validation, format!("{STATE_WEBHOOK_URL} must be a URL"))
    })?;
    let Some(url) = url else { return Ok(None) };
    state.webhooks.check(&url).await?;
    let (events, format) = (EventFilter::default(), WebhookFormat::States);
    // Receivers want the whole result, however large.
    Ok(Some(Webhook { url, events, sealed_secret: None, full: true, format }))
}
