//! Translates Ollama requests to `OpenAI`.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::SAME_OPTIONS;
use crate::chat::json_fields::{field, items, non_empty, object, text, tool_call_to_openai};

/// Ollama schemas have no name.
const SCHEMA_NAME: &str = "answer";
/// Base64 prefixes of image types.
const IMAGE_PREFIXES: [(&str, &str); 4] =
    [("/9j/", "image/jpeg"), ("iVBOR", "image/png"), ("R0lG", "image/gif"), ("UklG", "image/webp")];

/// From `/api/chat`.
pub(super) fn chat(body: &Value) -> Value {
    let mut calls = Calls::default();
    let messages = items(body, "messages").iter().map(|message| calls.message(message)).collect();
    request(body, messages)
}

/// From `/api/generate`, as a chat of a system and a user message.
pub(super) fn generate(body: &Value) -> Value {
    let system = field(body, "system").map(|text| json!({"role": "system", "content": text}));
    let prompt = json!({
        "role": "user",
        "content": content(text(body, "prompt"), items(body, "images")),
    });
    request(body, system.into_iter().chain([prompt]).collect())
}

/// From `/api/embed`.
pub(super) fn embed(body: &Value) -> Value {
    object(["model", "input", "dimensions"].map(|name| (name, field(body, name).cloned())))
}

/// From `/api/embeddings`, the older form of `/api/embed`.
pub(super) fn embeddings(body: &Value) -> Value {
    object([("model", body.get("model").cloned()), ("input", body.get("prompt").cloned())])
}

fn request(body: &Value, messages: Vec<Value>) -> Value {
    let options = body.get("options").unwrap_or(&Value::Null);
    let fields = [
        ("model", body.get("model").cloned()),
        ("messages", Some(messages.into())),
        ("stream", Some(true.into())),
        ("stream_options", Some(json!({"include_usage": true}))),
        ("tools", field(body, "tools").cloned()),
        ("response_format", field(body, "format").and_then(format)),
        ("reasoning_effort", field(body, "think").and_then(effort)),
        ("logprobs", field(body, "logprobs").cloned()),
        ("top_logprobs", top_logprobs(body)),
        ("stop", field(options, "stop").cloned()),
        // Negative means no limit in Ollama.
        ("max_tokens", field(options, "num_predict").filter(|max| max.as_u64().is_some()).cloned()),
    ];
    let same = SAME_OPTIONS.map(|name| (name, field(options, name).cloned()));
    object(fields.into_iter().chain(same))
}

/// Ollama accepts zero alternatives without `logprobs`, which `OpenAI` rejects.
fn top_logprobs(body: &Value) -> Option<Value> {
    let wants = field(body, "logprobs") == Some(&Value::Bool(true));
    field(body, "top_logprobs").filter(|count| wants && **count != 0).cloned()
}

fn format(format: &Value) -> Option<Value> {
    if format == "json" {
        return Some(json!({"type": "json_object"}));
    }
    let schema = json!({"name": SCHEMA_NAME, "schema": format});
    format.is_object().then(|| json!({"type": "json_schema", "json_schema": schema}))
}

/// `think` is a boolean, which `OpenAI` lacks, or an effort.
fn effort(think: &Value) -> Option<Value> {
    if *think == Value::Bool(false) { Some("none".into()) } else { think.as_str().map(Into::into) }
}

fn content(text: &str, images: &[Value]) -> Value {
    if images.is_empty() {
        return text.into();
    }
    let text_part = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    let image_parts = images.iter().filter_map(Value::as_str).map(|image| {
        let known = IMAGE_PREFIXES.iter().find(|(begin, _)| image.starts_with(begin));
        let media_type = known.map_or("image/png", |(_, media_type)| media_type);
        let url = format!("data:{media_type};base64,{image}");
        json!({"type": "image_url", "image_url": {"url": url}})
    });
    text_part.into_iter().chain(image_parts).collect()
}

/// `OpenAI` links a tool result to its call by id, Ollama by tool name or order.
#[derive(Default)]
struct Calls {
    made: usize,
    /// Ids and names of calls without a result.
    open: VecDeque<(String, String)>,
}

impl Calls {
    fn message(&mut self, message: &Value) -> Value {
        let content = content(text(message, "content"), items(message, "images"));
        let calls = items(message, "tool_calls").iter().map(|call| self.call(call)).collect();
        object([
            ("role", message.get("role").cloned()),
            ("tool_call_id", (text(message, "role") == "tool").then(|| self.call_id(message))),
            ("content", Some(content)),
            ("tool_calls", non_empty(calls)),
        ])
    }

    fn call(&mut self, call: &Value) -> Value {
        let translated = tool_call_to_openai(call, format!("call_{}", self.made));
        self.made += 1;
        let name = translated.get("function").map_or("", |function| text(function, "name"));
        self.open.push_back((text(&translated, "id").to_owned(), name.to_owned()));
        translated.into()
    }

    /// Returns the id of the call that a tool message belongs to.
    fn call_id(&mut self, message: &Value) -> Value {
        let id = text(message, "tool_call_id");
        let name = field(message, "tool_name").or_else(|| field(message, "name"));
        let by_id = || self.open.iter().position(|(open, _)| open == id);
        let by_name = || self.open.iter().position(|(_, open)| name.is_some_and(|n| n == open));
        let position = by_id().or_else(by_name).unwrap_or_default();
        self.open.remove(position).map_or_else(|| id.into(), |(id, _)| id.into())
    }
}
