//! Translates `OpenAI` requests to Ollama.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{SAME_OPTIONS, TranslateError};
use crate::chat::json_fields::{field, items, non_empty, object, text, tool_call_to_ollama};

const ONE_CHOICE: &str = "this model's target returns one choice; n must be 1";
const DATA_URLS: &str =
    "this model's target accepts images as data URLs only: data:image/png;base64,…";
const PARTS: &str = "this model's target accepts text and images only";
const ONE_PROMPT: &str = "this model's target accepts one prompt, as a text";
const NO_ECHO: &str = "this model's target cannot echo the prompt";
const TEXT_INPUT: &str = "this model's target embeds a text or a list of texts";

/// From `/v1/chat/completions` to `/api/chat`.
pub(super) fn chat(body: &Value) -> Result<Value, TranslateError> {
    reject_choices(body)?;
    let mut tools = Tools::default();
    let messages: Result<Vec<Value>, TranslateError> =
        items(body, "messages").iter().map(|message| tools.message(message)).collect();
    let no_tools = field(body, "tool_choice").is_some_and(|choice| choice == "none");
    Ok(object([
        ("model", body.get("model").cloned()),
        ("messages", Some(messages?.into())),
        ("stream", Some(true.into())),
        ("tools", field(body, "tools").filter(|_| !no_tools).cloned()),
        ("format", field(body, "response_format").and_then(format)),
        ("think", field(body, "reasoning_effort").and_then(think)),
        ("logprobs", field(body, "logprobs").cloned()),
        ("top_logprobs", field(body, "top_logprobs").cloned()),
        ("options", options(body)),
    ]))
}

/// From `/v1/completions` to `/api/generate`.
pub(super) fn completion(body: &Value) -> Result<Value, TranslateError> {
    reject_choices(body)?;
    if field(body, "echo").is_some_and(|echo| *echo != false) {
        return Err(TranslateError::Unsupported(NO_ECHO));
    }
    let prompt = match field(body, "prompt") {
        None => "".into(),
        Some(Value::Array(prompts)) => match prompts.as_slice() {
            [prompt @ Value::String(_)] => prompt.clone(),
            _ => return Err(TranslateError::Unsupported(ONE_PROMPT)),
        },
        Some(prompt @ Value::String(_)) => prompt.clone(),
        Some(_) => return Err(TranslateError::Unsupported(ONE_PROMPT)),
    };
    // The number of alternatives also requests the probabilities themselves.
    let logprobs = field(body, "logprobs").filter(|count| count.is_number());
    Ok(object([
        ("model", body.get("model").cloned()),
        ("prompt", Some(prompt)),
        ("suffix", field(body, "suffix").cloned()),
        ("stream", Some(true.into())),
        ("logprobs", logprobs.map(|_| true.into())),
        ("top_logprobs", logprobs.cloned()),
        ("options", options(body)),
    ]))
}

/// From `/v1/embeddings` to `/api/embed`.
pub(super) fn embeddings(body: &Value) -> Result<Value, TranslateError> {
    let input = body.get("input").unwrap_or(&Value::Null);
    let is_text_list = input.as_array().is_some_and(|texts| texts.iter().all(Value::is_string));
    if !input.is_string() && !is_text_list {
        return Err(TranslateError::Unsupported(TEXT_INPUT));
    }
    Ok(object(["model", "input", "dimensions"].map(|name| (name, field(body, name).cloned()))))
}

fn reject_choices(body: &Value) -> Result<(), TranslateError> {
    let is_one = |name| field(body, name).is_none_or(|count| *count == 1);
    if is_one("n") && is_one("best_of") {
        return Ok(());
    }
    Err(TranslateError::Unsupported(ONE_CHOICE))
}

fn options(body: &Value) -> Option<Value> {
    // The newer name wins.
    let max = field(body, "max_completion_tokens").or_else(|| field(body, "max_tokens"));
    let stop = field(body, "stop");
    let stop = stop.map(|stop| if stop.is_array() { stop.clone() } else { json!([stop]) });
    let same = SAME_OPTIONS.map(|name| (name, field(body, name).cloned()));
    let options = object([("num_predict", max.cloned()), ("stop", stop)].into_iter().chain(same));
    options.as_object().is_some_and(|all| !all.is_empty()).then_some(options)
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
