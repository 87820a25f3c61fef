//! Model lists in the formats of Ollama and `OpenAI`.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
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
    state.chat()?;
    Ok(Json(json!({"version": env!("CARGO_PKG_VERSION")})).into_response())
}

/// Other routes of Ollama. Clients see an error in its format, and learn that models are managed at the targets.
pub(crate) async fn unknown(
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
