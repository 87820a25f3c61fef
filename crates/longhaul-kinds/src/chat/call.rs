//! What a chat job is about and what comes of it.

use longhaul::job::Json;
use serde::{Deserialize, Serialize};

use super::json_object::JsonObject;

/// In which API somebody api.
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

/// The input of a chat job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatCall {
    /// In which API the body is, and the answer will be.
    pub api: ChatApi,
    /// What the caller sent, as it came.
    pub body: JsonObject,
}

/// The result of a chat job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatResult {
    /// In which API the body is.
    pub api: ChatApi,
    /// What a caller that does not stream is answered.
    pub body: Json,
    /// Tokens that were read, if the target told.
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
    /// Tokens that were written, if the target told.
    #[serde(default)]
    pub completion_tokens: Option<u64>,
    /// The name of the target that answered.
    pub target: String,
}

impl ChatCall {
    /// The model that is asked for.
    pub fn model(&self) -> Option<String> {
        self.body.get::<String>("model").filter(|model| !model.is_empty())
    }

    /// Whether the caller wants the answer as it comes. Ollama streams unless told not to.
    pub fn streams(&self) -> bool {
        let asked = self.body.get("stream");
        match self.api {
            ChatApi::OllamaChat | ChatApi::OllamaGenerate => asked.unwrap_or(true),
            ChatApi::OpenAiChat => asked.unwrap_or(false),
        }
    }

    /// What is missing for it to be a call at all.
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
    fn ollama_streams_unless_told_not_to_and_openai_the_other_way_round() {
        let streams =
            |api: &str, body: &str| call(&format!(r#"{{"api":"{api}","body":{body}}}"#)).streams();
        assert!(streams("ollama-chat", "{}") && streams("ollama-generate", "{}"));
        assert!(!streams("ollama-chat", r#"{"stream":false}"#));
        assert!(!streams("openai-chat", "{}"));
        assert!(streams("openai-chat", r#"{"stream":true}"#));
    }

    #[test]
    fn call_without_a_model_or_with_odd_messages_is_none() {
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
