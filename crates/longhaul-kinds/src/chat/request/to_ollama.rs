//! Translates `OpenAI` requests to Ollama.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{SAME_OPTIONS, TranslateError};
use crate::chat::json_fields::{field, items, non_empty, object, text, tool_call_to_ollama};

const ONE_CHOICE: &str = "this model's target returns one choice; n must be 1";
const DATA_URLS: &str =
    "this model's target accepts images as data URLs only: data:image/png;base64,…";
const PARTS: &str = "this model's target accepts text and images only";

/// From `/v1/chat/completions` to `/api/chat`.
pub(super) fn chat(body: &Value) -> Result<Value, TranslateError> {
    if field(body, "n").is_some_and(|n| *n != 1) {
        return Err(TranslateError::Unsupported(ONE_CHOICE));
    }
    let mut tools = Tools::default();
    let messages: Result<Vec<Value>, TranslateError> =
        items(body, "messages").iter().map(|message| tools.message(message)).collect();
    let no_tools = field(body, "tool_choice").is_some_and(|choice| choice == "none");
    let options = options(body);
    Ok(object([
        ("model", body.get("model").cloned()),
        ("messages", Some(messages?.into())),
        ("stream", Some(true.into())),
        ("tools", field(body, "tools").filter(|_| !no_tools).cloned()),
        ("format", field(body, "response_format").and_then(format)),
        ("think", field(body, "reasoning_effort").and_then(think)),
        ("options", options.as_object().is_some_and(|all| !all.is_empty()).then_some(options)),
    ]))
}

fn options(body: &Value) -> Value {
    // The newer name wins.
    let max = field(body, "max_completion_tokens").or_else(|| field(body, "max_tokens"));
    let stop = field(body, "stop");
    let stop = stop.map(|stop| if stop.is_array() { stop.clone() } else { json!([stop]) });
    let same = SAME_OPTIONS.map(|name| (name, field(body, name).cloned()));
    object([("num_predict", max.cloned()), ("stop", stop)].into_iter().chain(same))
}

fn format(format: &Value) -> Option<Value> {
    match text(format, "type") {
        "json_object" => Some("json".into()),
        "json_schema" => format.pointer("/json_schema/schema").cloned(),
        _ => None,
    }
}

fn think(effort: &Value) -> Option<Value> {
    match effort.as_str()? {
        "none" | "minimal" => Some(false.into()),
        effort @ ("low" | "medium" | "high") => Some(effort.into()),
        _ => None,
    }
}

/// Tool names by call id.
#[derive(Default)]
struct Tools(HashMap<String, Value>);

impl Tools {
    fn message(&mut self, message: &Value) -> Result<Value, TranslateError> {
        // The newer name of the system role.
        let role = match text(message, "role") {
            "developer" => "system",
            role => role,
        };
        let (text_parts, images) = content(message.get("content").unwrap_or(&Value::Null))?;
        let calls = items(message, "tool_calls").iter().map(|call| self.call(call)).collect();
        let tool_name = self.0.get(text(message, "tool_call_id")).filter(|_| role == "tool");
        Ok(object([
            ("role", Some(role.into())),
            ("content", Some(text_parts.into())),
            ("images", non_empty(images)),
            ("tool_calls", non_empty(calls)),
            ("tool_name", tool_name.cloned()),
        ]))
    }

    fn call(&mut self, call: &Value) -> Value {
        let translated = tool_call_to_ollama(call);
        let name = translated.pointer("/function/name").cloned().unwrap_or_default();
        self.0.insert(text(call, "id").to_owned(), name);
        translated
    }
}

fn content(content: &Value) -> Result<(String, Vec<Value>), TranslateError> {
    let (mut text_parts, mut images) = (String::new(), Vec::new());
    let parts = match content {
        Value::Null => return Ok((text_parts, images)),
        Value::String(text) => return Ok((text.clone(), images)),
        Value::Array(parts) => parts,
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(TranslateError::Unsupported(PARTS));
        }
    };
    for part in parts {
        match text(part, "type") {
            "text" => text_parts.push_str(text(part, "text")),
            "refusal" => text_parts.push_str(text(part, "refusal")),
            "image_url" => {
                let url = part.pointer("/image_url/url").and_then(Value::as_str);
                let data = url.and_then(|url| url.strip_prefix("data:")?.split_once(";base64,"));
                let (_, data) = data.ok_or(TranslateError::Unsupported(DATA_URLS))?;
                images.push(data.into());
            }
            _ => return Err(TranslateError::Unsupported(PARTS)),
        }
    }
    Ok((text_parts, images))
}
