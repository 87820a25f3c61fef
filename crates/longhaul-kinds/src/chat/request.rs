//! Request to a target: the caller's body verbatim if the target has the same API, or else translated.
//!
//! Options without a counterpart in the other API are dropped: keep-alive, context size, templates and some sampling
//! options. A request is rejected if dropping an option would change the meaning of the response.

mod to_ollama;
mod to_openai;

use longhaul::job::JsonError;
use serde_json::{Value, json};

use super::call::{ChatApi, ChatCall};
use super::target::TargetApi;
pub(super) use to_ollama::arguments;

#[derive(Debug)]
pub(super) struct TargetRequest {
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

impl From<serde_json::Error> for TranslateError {
    fn from(error: serde_json::Error) -> Self {
        Self::Body(error.into())
    }
}

impl TargetRequest {
    /// Builds a request that always streams.
    pub(super) fn build(call: &ChatCall, target: TargetApi) -> Result<Self, TranslateError> {
        match (call.api, target) {
            (ChatApi::OllamaChat, TargetApi::Ollama) => Self::verbatim(call, "/api/chat"),
            (ChatApi::OllamaGenerate, TargetApi::Ollama) => Self::verbatim(call, "/api/generate"),
            (ChatApi::OpenAiChat, TargetApi::OpenAi) => Self::verbatim(call, "/chat/completions"),
            (ChatApi::OpenAiChat, TargetApi::Ollama) => {
                let body = to_ollama::chat(&value(call)?)?;
                Ok(Self { path: "/api/chat", api: ChatApi::OllamaChat, body: body.to_string() })
            }
            (ChatApi::OllamaChat | ChatApi::OllamaGenerate, TargetApi::OpenAi) => {
                let body = value(call)?;
                let body = if call.api == ChatApi::OllamaChat {
                    to_openai::chat(&body)
                } else {
                    to_openai::generate(&body)
                };
                let body = body.to_string();
                Ok(Self { path: "/chat/completions", api: ChatApi::OpenAiChat, body })
            }
        }
    }

    fn verbatim(call: &ChatCall, path: &'static str) -> Result<Self, TranslateError> {
        let mut body = call.body.clone();
        body.set("stream", &true)?;
        if call.api == ChatApi::OpenAiChat {
            let options: Option<serde_json::Map<String, Value>> = body.get("stream_options");
            let mut options = options.unwrap_or_default();
            options.insert("include_usage".to_owned(), Value::Bool(true));
            body.set("stream_options", &options)?;
        }
        Ok(Self { path, api: call.api, body: body.to_json()?.as_str().to_owned() })
    }
}

fn value(call: &ChatCall) -> Result<Value, TranslateError> {
    Ok(serde_json::from_str(call.body.to_json()?.as_str())?)
}

/// Sampling options with the same name and meaning in both APIs.
const SAME_OPTIONS: [&str; 5] =
    ["temperature", "top_p", "seed", "frequency_penalty", "presence_penalty"];

fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let mut object = json!({});
    for (name, value) in fields {
        put(&mut object, name, value);
    }
    object
}

fn put(object: &mut Value, name: &str, value: Option<Value>) {
    if let (Some(fields), Some(value)) = (object.as_object_mut(), value) {
        fields.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
