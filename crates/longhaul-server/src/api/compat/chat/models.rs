//! Model lists in the formats of Ollama and `OpenAI`, and their errors for routes that do not exist here.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use longhaul_kinds::chat::{ChatError, JsonObject};
use serde_json::{Value, json};

use crate::api::AppState;
use crate::api::compat::error_format::ErrorFormat;
use crate::api::http::body;
use crate::api::http::caller::{Caller, Inspect, Read};
use crate::problem::Result;

/// `GET /api/tags`
pub(crate) async fn tags(
    State(state): State<AppState>,
    _caller: Caller<Inspect>,
) -> Result<Response> {
    Ok(respond(ErrorFormat::Ollama, state.chat()?.tags().await))
}

/// `GET /v1/models`
pub(crate) async fn models(
    State(state): State<AppState>,
    _caller: Caller<Inspect>,
) -> Result<Response> {
    Ok(respond(ErrorFormat::OpenAi, state.chat()?.models().await))
}

/// `GET /v1/models/{model}`; model names may contain slashes.
pub(crate) async fn model(
    State(state): State<AppState>,
    _caller: Caller<Inspect>,
    Path(model): Path<String>,
) -> Result<Response> {
    Ok(respond(ErrorFormat::OpenAi, state.chat()?.model(&model).await))
}

/// `POST /api/show`
pub(crate) async fn show(
    State(state): State<AppState>,
    _caller: Caller<Read>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let chat = state.chat()?;
    let text = body::json_text_of_any_type(&headers, body, body::SMALL_BYTES_MAX).await?;
    let asked: JsonObject = body::outer_object(&text)?;
    Ok(respond(ErrorFormat::Ollama, chat.show(&asked).await))
}

/// `GET /api/version`
pub(crate) async fn version(
    State(state): State<AppState>,
    _caller: Caller<Inspect>,
) -> Result<Response> {
    let version = state.chat()?.ollama_version().await;
    let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    Ok(Json(json!({"version": version})).into_response())
}

/// `GET /api/ps`
pub(crate) async fn running(
    State(state): State<AppState>,
    _caller: Caller<Inspect>,
) -> Result<Response> {
    Ok(Json(state.chat()?.running_models().await).into_response())
}

/// Resources of `OpenAI` that do not exist here. Listed one by one, because `/v1` has resources of Longhaul, too.
pub(super) const OPENAI_RESOURCES: [&str; 22] = [
    "assistants",
    "audio",
    "batches",
    "chat/completions",
    "chatkit",
    "completions",
    "containers",
    "conversations",
    "embeddings",
    "engines",
    "evals",
    "files",
    "fine_tuning",
    "images",
    "moderations",
    "organization",
    "realtime",
    "responses",
    "threads",
    "uploads",
    "vector_stores",
    "videos",
];

/// Other routes of `OpenAI`.
pub(crate) async fn unknown_openai(
    State(state): State<AppState>,
    _caller: Caller<Inspect>,
    request: Request,
) -> Result<Response> {
    state.chat()?;
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("Unknown request URL: {method} {path}. Chat targets have no such route.");
    Ok(ErrorFormat::OpenAi.respond(404, &message, Some("unknown_url")))
}

/// Other routes of Ollama. Clients see an error in its format, and learn that models are managed at the targets.
pub(crate) async fn unknown_ollama(
    State(state): State<AppState>,
    _caller: Caller<Inspect>,
    Path(path): Path<String>,
) -> Result<Response> {
    state.chat()?;
    let format = ErrorFormat::Ollama;
    Ok(match path.as_str() {
        "pull" | "push" | "create" | "copy" | "delete" => {
            let message = format!("{path} is not supported: manage models at the target itself");
            format.respond(501, &message, None)
        }
        _ => format.respond(404, "404 page not found", None),
    })
}

fn respond(format: ErrorFormat, result: Result<Value, ChatError>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(failure) => format.respond(failure.status(), &failure.to_string(), None),
    }
}
