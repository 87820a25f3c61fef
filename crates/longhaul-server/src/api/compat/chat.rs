//! The chat door: `POST /jobs`, and the routes of Ollama and `OpenAI` that their own clients call.
//!
//! Every call is a job of the kind `chat`, whichever way it comes in. Ollama's and `OpenAI`'s routes wait for it and
//! answer as a model's own server would; a caller that goes away leaves a job that goes on.

mod models;
mod passthrough;
mod response;
mod stream;
mod submit;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use longhaul_kinds::chat::Chat;

use crate::api::AppState;
use crate::auth::{self, Auth};
use crate::problem::{Code, Problem};

use super::error_format::{ErrorFormat, speak};
pub(crate) use response::show;
pub(crate) use response::{ShownArtifact, answered, artifacts, model};

/// What is answered in Ollama's and in `OpenAI`'s way.
pub(crate) fn router(auth: &Auth) -> Router<AppState> {
    let ollama = Router::new()
        .route("/jobs", post(submit::submit))
        .route("/api/chat", post(passthrough::ollama_chat))
        .route("/api/generate", post(passthrough::ollama_generate))
        .route("/api/tags", get(models::tags))
        .route("/api/show", post(models::show))
        .route("/api/version", get(models::version));
    let openai = Router::new()
        .route("/v1/chat/completions", post(passthrough::openai_chat))
        .route("/v1/models", get(models::models))
        .route("/v1/models/{*model}", get(models::model));
    said_in(ollama, ErrorFormat::Ollama, auth).merge(said_in(openai, ErrorFormat::OpenAi, auth))
}

/// Lets whoever may in, and answers in a tongue, refusals included.
pub(crate) fn said_in(
    routes: Router<AppState>,
    tongue: ErrorFormat,
    auth: &Auth,
) -> Router<AppState> {
    routes
        .route_layer(middleware::from_fn_with_state(auth.clone(), auth::authenticate_compat))
        .route_layer(middleware::from_fn_with_state(tongue, speak))
}

impl AppState {
    /// The targets, or what has to be configured for there to be some.
    pub(crate) fn chat(&self) -> Result<&Chat, Problem> {
        self.chat.as_ref().ok_or_else(|| {
            let detail = "this server knows no language model: name one in its configuration, \
                          [chat] targets = [{ name = \"laptop\", url = \"http://127.0.0.1:11434\", api = \"ollama\" }]";
            Problem::new(Code::ChatOff, detail)
        })
    }
}
