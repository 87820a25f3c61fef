//! Chat API: `POST /jobs`, and the routes of Ollama and `OpenAI` for their own clients.
//!
//! Every call is a job of the kind `chat`. The routes of Ollama and `OpenAI` wait for it and respond like a model
//! server; when a client without an idempotency key disconnects, its job is cancelled.

mod disconnect;
mod models;
mod passthrough;
mod response;
mod stream;
mod submit;

use axum::Router;
use axum::routing::{any, get, post};
use longhaul_kinds::chat::{Chat, ChatApi, TargetApi};

use super::error_format::{ErrorFormat, with_error_format};
use crate::api::AppState;
use crate::api::http::caller::{Inspect, Read, Submit};
use crate::api::http::load_shedding::Class;
use crate::api::http::routes::Routes;
use crate::problem::{Code, Problem, Result};

pub(crate) use response::show;
pub(crate) use response::{ChatArtifact, artifacts, chat_result, model};

/// Routes in the formats of Ollama and `OpenAI`.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let (submission, normal) = (Class::Submission, Class::Normal);
    let calls = |target| {
        let apis = ChatApi::ALL.into_iter().filter(move |api| api.target_api() == target);
        apis.fold(Routes::new(), |routes, api| {
            routes.undocumented::<Submit>(submission, api.path(), passthrough::route(api))
        })
    };
    let ollama = calls(TargetApi::Ollama)
        .undocumented::<Submit>(submission, "/jobs", post(submit::submit))
        .undocumented::<Inspect>(normal, "/api/tags", get(models::tags))
        .undocumented::<Inspect>(normal, "/api/ps", get(models::running))
        .undocumented::<Read>(normal, "/api/show", post(models::show))
        .undocumented::<Inspect>(normal, "/api/version", get(models::version))
        .any_method::<Inspect>(normal, "/api/{*path}", any(models::unknown_ollama));
    let openai = calls(TargetApi::OpenAi)
        .undocumented::<Inspect>(normal, "/v1/models", get(models::models))
        .undocumented::<Inspect>(normal, "/v1/models/{*model}", get(models::model));
    let openai = models::OPENAI_RESOURCES.iter().fold(openai, |routes, resource| {
        let below = format!("/v1/{resource}/{{*path}}");
        let routes = routes.any_method::<Inspect>(normal, &below, any(models::unknown_openai));
        if ChatApi::ALL.iter().any(|api| api.path() == format!("/v1/{resource}")) {
            return routes;
        }
        let path = format!("/v1/{resource}");
        routes.any_method::<Inspect>(normal, &path, any(models::unknown_openai))
    });
    let ollama = with_error_format(ollama, ErrorFormat::Ollama, state);
    ollama.merge(with_error_format(openai, ErrorFormat::OpenAi, state))
}

impl AppState {
    /// Returns the chat targets, or the problem that none are configured.
    pub(crate) fn chat(&self) -> Result<&Chat> {
        self.chat.as_ref().ok_or_else(|| {
            let detail = "no chat targets are configured: add one to the server's configuration, \
                          [chat] targets = [{ name = \"laptop\", url = \"http://127.0.0.1:11434\", api = \"ollama\" }]";
            Problem::new(Code::ChatOff, detail)
        })
    }
}
