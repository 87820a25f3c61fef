//! What a target is sent for a call: the caller's body as it came if both speak the same API, otherwise a
//! translation.
//!
//! Whatever has no counterpart in the other API is left out: how long a model stays loaded, the size of its context,
//! templates, and sampling options that only one of them knows. What would change the meaning of the answer if it
//! were left out is refused.

mod to_ollama;
mod to_openai;

use longhaul::job::JsonError;
use serde_json::{Value, json};

use super::call::{ChatApi, ChatCall};
use super::target::TargetApi;
pub(super) use to_ollama::arguments;

/// A request to a target.
#[derive(Debug)]
pub(super) struct TargetRequest {
    /// Behind the target's URL.
    pub(super) path: &'static str,
    /// In which API it will be answered.
    pub(super) api: ChatApi,
    /// As JSON.
    pub(super) body: String,
}

/// Why a call cannot be put to a target.
#[derive(Debug, thiserror::Error)]
pub(super) enum TranslateError {
    /// Its body is not what its API says.
    #[error("the body does not fit its API: {0}")]
    Body(#[from] JsonError),
    /// The target's API has no words for it.
    #[error("{0}")]
    Unsupported(&'static str),
}

impl From<serde_json::Error> for TranslateError {
    fn from(error: serde_json::Error) -> Self {
        Self::Body(error.into())
    }
}

impl TargetRequest {
    /// For a target of this API. The answer is always streamed, so that its words come as they are made.
    pub(super) fn of(call: &ChatCall, target: TargetApi) -> Result<Self, TranslateError> {
        match (call.api, target) {
            (ChatApi::OllamaChat, TargetApi::Ollama) => Self::as_it_came(call, "/api/chat"),
            (ChatApi::OllamaGenerate, TargetApi::Ollama) => Self::as_it_came(call, "/api/generate"),
            (ChatApi::OpenAiChat, TargetApi::OpenAi) => Self::as_it_came(call, "/chat/completions"),
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

    fn as_it_came(call: &ChatCall, path: &'static str) -> Result<Self, TranslateError> {
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

/// Names of sampling options that mean the same in both.
const SAME_OPTIONS: [&str; 5] =
    ["temperature", "top_p", "seed", "frequency_penalty", "presence_penalty"];

/// A field that is there and not null.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// An object of those fields that have a value.
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
