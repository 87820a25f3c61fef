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
    /// `POST /api/embed` of Ollama.
    OllamaEmbed,
    /// `POST /api/embeddings` of Ollama, the older form for one text.
    OllamaEmbeddings,
    /// `POST /v1/chat/completions` of `OpenAI`.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// `POST /v1/completions` of `OpenAI`.
    #[serde(rename = "openai-completions")]
    OpenAiCompletions,
    /// `POST /v1/embeddings` of `OpenAI`.
    #[serde(rename = "openai-embeddings")]
    OpenAiEmbeddings,
    /// `POST /v1/responses` of `OpenAI`.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
}

impl ChatApi {
    pub const ALL: [Self; 8] = [
        Self::OllamaChat,
        Self::OllamaGenerate,
        Self::OllamaEmbed,
        Self::OllamaEmbeddings,
        Self::OpenAiChat,
        Self::OpenAiCompletions,
        Self::OpenAiEmbeddings,
        Self::OpenAiResponses,
    ];

    /// Returns the API of the targets that understand it without translation.
    pub fn target_api(self) -> TargetApi {
        match self {
            Self::OllamaChat
            | Self::OllamaGenerate
            | Self::OllamaEmbed
            | Self::OllamaEmbeddings => TargetApi::Ollama,
            Self::OpenAiChat
            | Self::OpenAiCompletions
            | Self::OpenAiEmbeddings
            | Self::OpenAiResponses => TargetApi::OpenAi,
        }
    }

    /// Returns the path below the server's own URL, as clients know it.
    pub fn path(self) -> &'static str {
        match self {
            Self::OllamaChat => "/api/chat",
            Self::OllamaGenerate => "/api/generate",
            Self::OllamaEmbed => "/api/embed",
            Self::OllamaEmbeddings => "/api/embeddings",
            Self::OpenAiChat => "/v1/chat/completions",
            Self::OpenAiCompletions => "/v1/completions",
            Self::OpenAiEmbeddings => "/v1/embeddings",
            Self::OpenAiResponses => "/v1/responses",
        }
    }

    /// Returns true if a response can be streamed.
    pub(super) fn can_stream(self) -> bool {
        match self {
            Self::OllamaChat
            | Self::OllamaGenerate
            | Self::OpenAiChat
            | Self::OpenAiCompletions
            | Self::OpenAiResponses => true,
            Self::OllamaEmbed | Self::OllamaEmbeddings | Self::OpenAiEmbeddings => false,
        }
    }
}

/// Input of a chat job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatCall {
    pub api: ChatApi,
    /// Request body, verbatim.
    pub body: JsonObject,
    /// Seconds after the submission from which the job fails if its target is unreachable, for a caller that waits.
    /// Without it the job waits for the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_max: Option<u64>,
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
    pub fn new(api: ChatApi, body: JsonObject) -> Self {
        Self { api, body, wait_max: None }
    }

    pub fn model(&self) -> Option<String> {
        self.body.get::<String>("model").filter(|model| !model.is_empty())
    }

    /// Returns true if the caller requests a stream. Ollama streams by default.
    pub fn streams(&self) -> bool {
        let is_default = self.api.target_api() == TargetApi::Ollama;
        self.api.can_stream() && self.body.get("stream").unwrap_or(is_default)
    }

    pub fn check(&self) -> Result<(), &'static str> {
        if self.model().is_none() {
            return Err("model is required");
        }
        let messages: Option<Vec<serde_json::Map<String, serde_json::Value>>> =
            self.body.get("messages");
        match self.api {
            // Ollama loads the model if there is nothing to do.
            ChatApi::OllamaGenerate | ChatApi::OllamaEmbed | ChatApi::OllamaEmbeddings => Ok(()),
            ChatApi::OllamaChat if !self.body.has("messages") || messages.is_some() => Ok(()),
            ChatApi::OpenAiChat if messages.is_some() => Ok(()),
            ChatApi::OllamaChat | ChatApi::OpenAiChat => Err("messages must be a list of messages"),
            ChatApi::OpenAiEmbeddings if !self.body.has("input") => Err("input is required"),
            ChatApi::OpenAiResponses if self.body.get("background") == Some(true) => {
                Err("background is not supported: submit the call as a job instead")
            }
            ChatApi::OpenAiCompletions | ChatApi::OpenAiEmbeddings | ChatApi::OpenAiResponses => {
                Ok(())
            }
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
        for api in ["ollama-embed", "ollama-embeddings", "openai-embeddings"] {
            assert!(!streams(api, r#"{"stream":true}"#), "{api}");
        }
    }

    #[test]
    fn input_schema_lists_every_api() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("input.schema.json")).unwrap();
        let listed = schema.pointer("/properties/api/enum").unwrap();
        assert_eq!(listed, &serde_json::to_value(ChatApi::ALL).unwrap());
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
