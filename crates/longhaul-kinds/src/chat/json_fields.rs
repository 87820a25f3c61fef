//! Lenient readers and builders of JSON objects.

use serde_json::{Map, Value, json};

/// JSON object, or a value that may be one.
pub(super) trait JsonFields {
    fn value(&self, name: &str) -> Option<&Value>;
}

impl JsonFields for Value {
    fn value(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

impl JsonFields for Map<String, Value> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

/// Returns a field that is not null.
pub(super) fn field<'a>(object: &'a impl JsonFields, name: &str) -> Option<&'a Value> {
    object.value(name).filter(|value| !value.is_null())
}

/// Returns a text, or an empty one.
pub(super) fn text<'a>(object: &'a impl JsonFields, name: &str) -> &'a str {
    object.value(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of a list, or none.
pub(super) fn items<'a>(object: &'a impl JsonFields, name: &str) -> &'a [Value] {
    object.value(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Creates an object of the fields that have a value.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Option<Value>)>) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect())
}

pub(super) fn map<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a list, or `None` if it is empty.
pub(super) fn non_empty(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(items.into())
}

/// Returns the approximate size of an object, as JSON and in memory.
pub(super) fn size_of_map(map: &Map<String, Value>) -> usize {
    map.iter().map(|(name, value)| name.len() + size(value)).sum()
}

/// Returns the approximate size of a value. Each value counts at least 16 bytes, because a list of empty lists takes
/// ten times as much memory as its text.
pub(super) fn size(value: &Value) -> usize {
    let content = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => size_of_map(fields),
    };
    content + 16
}

/// Translates a tool call from `OpenAI` to Ollama. A model may have written invalid arguments.
pub(super) fn tool_call_to_ollama(call: &Value) -> Value {
    let function = call.get("function").unwrap_or(&Value::Null);
    let arguments: Option<Value> = serde_json::from_str(text(function, "arguments")).ok();
    let arguments = arguments.filter(Value::is_object).unwrap_or_else(|| json!({}));
    json!({"function": {"name": text(function, "name"), "arguments": arguments}})
}

/// Translates a tool call from Ollama to the fields `id`, `type` and `function` of `OpenAI`.
pub(super) fn tool_call_to_openai(call: &Value, default_id: String) -> Map<String, Value> {
    let function = call.get("function").unwrap_or(&Value::Null);
    let arguments = field(function, "arguments").map_or("{}".to_owned(), Value::to_string);
    let function = json!({"name": text(function, "name"), "arguments": arguments});
    let id = match text(call, "id") {
        "" => default_id,
        given => given.to_owned(),
    };
    map([("id", id.into()), ("type", "function".into()), ("function", function)])
}
