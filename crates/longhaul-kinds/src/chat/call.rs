//! Input and result of a chat job.

use longhaul::job::Json;
use serde::{Deserialize, Serialize};

use super::json_object::JsonObject;
use super::target::TargetApi;

/// API of a request and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatApi {
    /// `POST /api/chat` of Ollama.
    OllamaChat,
    /// `POST /api/generate` of Ollama.
    OllamaGenerate,
    /// `POST /v1/chat/completions` of `OpenAI`.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
}

impl ChatApi {
    /// Returns the API of the targets that understand it without translation.
    pub(super) fn target_api(self) -> TargetApi {
        match self {
            Self::OllamaChat | Self::OllamaGenerate => TargetApi::Ollama,
            Self::OpenAiChat => TargetApi::OpenAi,
        }
    }

    /// Returns the path below a target's URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::OllamaChat => "/api/chat",
            Self::OllamaGenerate => "/api/generate",
            Self::OpenAiChat => "/chat/completions",
        }
    }
}

/// Input of a chat job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatCall {
    pub api: ChatApi,
    /// Request body, verbatim.
    pub body: JsonObject,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatResult {
    pub api: ChatApi,
    /// Body of a response that is not streamed.
    pub body: Json,
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
    #[serde(default)]
    pub completion_tokens: Option<u64>,
    pub target: String,
}

impl ChatCall {
    pub fn model(&self) -> Option<String> {
        self.body.get::<String>("model").filter(|model| !model.is_empty())
    }

    /// Returns true if the caller requests a stream. Ollama streams by default.
    pub fn streams(&self) -> bool {
        self.body.get("stream").unwrap_or(self.api.target_api() == TargetApi::Ollama)
    }

    pub fn check(&self) -> Result<(), &'static str> {
        if self.model().is_none() {
            return Err("model is required");
        }
        let messages: Option<Vec<serde_json::Map<String, serde_json::Value>>> =
            self.body.get("messages");
        match self.api {
            ChatApi::OllamaGenerate => Ok(()),
            // A chat without messages loads the model.
            ChatApi::OllamaChat if !self.body.has("messages") || messages.is_some() => Ok(()),
            ChatApi::OpenAiChat if messages.is_some() => Ok(()),
            ChatApi::OllamaChat | ChatApi::OpenAiChat => Err("messages must be a list of messages"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> ChatCall {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn ollama_streams_by_default_and_openai_does_not() {
        let streams =
            |api: &str, body: &str| call(&format!(r#"{{"api":"{api}","body":{body}}}"#)).streams();
        assert!(streams("ollama-chat", "{}") && streams("ollama-generate", "{}"));
        assert!(!streams("ollama-chat", r#"{"stream":false}"#));
        assert!(!streams("openai-chat", "{}"));
        assert!(streams("openai-chat", r#"{"stream":true}"#));
    }

    #[test]
    fn call_without_a_model_or_with_invalid_messages_is_rejected() {
        let checked =
            |body: &str| call(&format!(r#"{{"api":"ollama-chat","body":{body}}}"#)).check().is_ok();
        assert!(checked(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#));
        assert!(checked(r#"{"model":"m"}"#));
        assert!(!checked(r#"{"model":"m","messages":"hi"}"#));
        assert!(!checked(r#"{"model":"m","messages":["hi"]}"#));
        assert!(!checked(r#"{"model":7,"messages":[]}"#));
        assert!(!checked(r#"{"messages":[]}"#));
    }
}
