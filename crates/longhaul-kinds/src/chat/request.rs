//! Request to a target: the caller's body verbatim if the target has the same API, or else translated.
//!
//! Options without a counterpart in the other API are dropped: keep-alive, context size, templates and some sampling
//! options. A request is rejected if dropping an option would change the meaning of the response.

mod to_ollama;
mod to_openai;

use longhaul::job::JsonError;
use serde_json::Value;

use super::call::{ChatApi, ChatCall};
use super::target::TargetApi;

#[derive(Debug)]
pub(super) struct TargetRequest {
    /// Path below the target's URL.
    pub(super) path: &'static str,
    /// API of the response.
    pub(super) api: ChatApi,
    pub(super) body: String,
}

/// Reason why a call cannot be translated.
#[derive(Debug, thiserror::Error)]
pub(super) enum TranslateError {
    #[error("the body is invalid for its API: {0}")]
    Body(#[from] JsonError),
    /// No counterpart in the target's API.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl TargetRequest {
    /// Builds a request that always streams, if its API can.
    pub(super) fn build(call: &ChatCall, target: TargetApi) -> Result<Self, TranslateError> {
        if call.api.target_api() == target {
            return Self::verbatim(call, target);
        }
        let body: Value = call.body.to_json()?.to()?;
        let (api, body) = match call.api {
            ChatApi::OllamaChat => (ChatApi::OpenAiChat, to_openai::chat(&body)),
            ChatApi::OllamaGenerate => (ChatApi::OpenAiChat, to_openai::generate(&body)),
            ChatApi::OllamaEmbed => (ChatApi::OpenAiEmbeddings, to_openai::embed(&body)),
            ChatApi::OllamaEmbeddings => (ChatApi::OpenAiEmbeddings, to_openai::embeddings(&body)),
            ChatApi::OpenAiChat => (ChatApi::OllamaChat, to_ollama::chat(&body)?),
            ChatApi::OpenAiCompletions => (ChatApi::OllamaGenerate, to_ollama::completion(&body)?),
            ChatApi::OpenAiEmbeddings => (ChatApi::OllamaEmbed, to_ollama::embeddings(&body)?),
            // Newer versions of Ollama have this API, too; a translation would lose most of it.
            ChatApi::OpenAiResponses => return Self::verbatim(call, target),
        };
        Ok(Self { path: path(api, target), api, body: body.to_string() })
    }

    fn verbatim(call: &ChatCall, target: TargetApi) -> Result<Self, TranslateError> {
        let mut body = call.body.clone();
        if call.api.can_stream() {
            body.set("stream", &true)?;
        }
        if matches!(call.api, ChatApi::OpenAiChat | ChatApi::OpenAiCompletions) {
            let options: Option<serde_json::Map<String, Value>> = body.get("stream_options");
            let mut options = options.unwrap_or_default();
            options.insert("include_usage".to_owned(), Value::Bool(true));
            body.set("stream_options", &options)?;
        }
        let body = body.to_json()?.as_str().to_owned();
        Ok(Self { path: path(call.api, target), api: call.api, body })
    }
}

/// Returns the path below a target's URL. URLs of `OpenAI` targets end with the version.
fn path(api: ChatApi, target: TargetApi) -> &'static str {
    match target {
        TargetApi::Ollama => api.path(),
        TargetApi::OpenAi => api.path().strip_prefix("/v1").unwrap_or(api.path()),
    }
}

/// Sampling options with the same name and meaning in both APIs.
const SAME_OPTIONS: [&str; 5] =
    ["temperature", "top_p", "seed", "frequency_penalty", "presence_penalty"];

#[cfg(test)]
mod tests;
