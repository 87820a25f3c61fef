//! Ollama streams: lines with text fragments, and a final line with statistics.

use serde_json::{Map, Value, json};

use super::{Accumulate, StreamDiverged, suffix};
use crate::chat::json_fields::{items, map, non_empty, size_of_map, text};

/// Fields whose text fragments are concatenated.
const TEXTS: [&str; 3] = ["content", "response", "thinking"];
/// Fields whose items are appended.
const LISTS: [&str; 2] = ["tool_calls", "logprobs"];

#[derive(Debug, Clone)]
pub(super) struct Ollama {
    /// `/api/generate`: the text is in the line itself, not in a message.
    plain: bool,
    outer: Map<String, Value>,
    message: Map<String, Value>,
}

/// Returns a line that is not the last one. In `plain` lines the text is in the line itself.
pub(in crate::chat) fn line(
    plain: bool,
    model: Value,
    created_at: Value,
    mut message: Map<String, Value>,
) -> Map<String, Value> {
    let mut line = map([("model", model), ("created_at", created_at), ("done", false.into())]);
    if plain {
        message.entry("response").or_insert_with(|| "".into());
        line.append(&mut message);
    } else {
        line.insert("message".to_owned(), with_role(message));
    }
    line
}

fn with_role(mut message: Map<String, Value>) -> Value {
    message.entry("role").or_insert_with(|| "assistant".into());
    message.entry("content").or_insert_with(|| "".into());
    message.into()
}

fn join(whole: &mut Map<String, Value>, next: &Map<String, Value>) {
    for (name, value) in next {
        match (whole.get_mut(name), value) {
            (Some(Value::String(old)), Value::String(new)) if TEXTS.contains(&name.as_str()) => {
                old.push_str(new);
            }
            (Some(Value::Array(old)), Value::Array(new)) if LISTS.contains(&name.as_str()) => {
                old.extend(new.iter().cloned());
            }
            (Some(_) | None, _) => {
                whole.insert(name.clone(), value.clone());
            }
        }
    }
}

impl Ollama {
    pub(super) fn new(plain: bool) -> Self {
        Self { plain, outer: Map::new(), message: Map::new() }
    }

    /// Returns the object with the text: the message or the line.
    fn text_object(&self) -> &Map<String, Value> {
        if self.plain { &self.outer } else { &self.message }
    }

    /// Returns the final line: all fields without the text.
    fn last(&self, whole: Self) -> Value {
        let mut last = whole.outer;
        last.remove("logprobs");
        last.insert("done".to_owned(), true.into());
        if self.plain {
            last.remove("thinking");
            last.insert("response".to_owned(), "".into());
        } else {
            last.insert("message".to_owned(), json!({"role": "assistant", "content": ""}));
        }
        last.into()
    }
}

impl Accumulate for Ollama {
    fn add(&mut self, line: &Value) {
        let Some(line) = line.as_object() else { return };
        let mut line = line.clone();
        if let Some(Value::Object(message)) = line.remove("message") {
            join(&mut self.message, &message);
        }
        join(&mut self.outer, &line);
    }

    fn is_end(&self, line: &Value) -> bool {
        line.get("done") == Some(&Value::Bool(true))
    }

    fn is_complete(&self) -> bool {
        self.outer.get("done") == Some(&Value::Bool(true))
    }

    fn body(&self) -> Value {
        let mut body = self.outer.clone();
        if !self.plain {
            body.insert("message".to_owned(), with_role(self.message.clone()));
        }
        body.into()
    }

    fn size(&self) -> usize {
        size_of_map(&self.outer) + size_of_map(&self.message)
    }

    fn tokens(&self) -> (Option<u64>, Option<u64>) {
        let count = |name: &str| self.outer.get(name).and_then(Value::as_u64);
        (count("prompt_eval_count"), count("eval_count"))
    }

    fn remaining(&self, body: &Value, _usage: bool) -> Result<Vec<Value>, StreamDiverged> {
        if self.is_complete() {
            return Ok(Vec::new());
        }
        let mut whole = Self::new(self.plain);
        whole.add(body);
        let mut left = Map::new();
        for name in TEXTS {
            let remaining =
                suffix(text(whole.text_object(), name), text(self.text_object(), name))?;
            if !remaining.is_empty() {
                left.insert(name.to_owned(), remaining.into());
            }
        }
        let (calls, sent) =
            (items(whole.text_object(), "tool_calls"), items(self.text_object(), "tool_calls"));
        let calls = calls.strip_prefix(sent).ok_or(StreamDiverged)?;
        if !calls.is_empty() {
            left.insert("tool_calls".to_owned(), calls.into());
        }
        let tokens = items(&whole.outer, "logprobs");
        let tokens = tokens.get(items(&self.outer, "logprobs").len()..).unwrap_or_default();
        let head = |name: &str| whole.outer.get(name).cloned().unwrap_or_default();
        let more = (!left.is_empty() || !tokens.is_empty()).then(|| {
            let mut line = line(self.plain, head("model"), head("created_at"), left);
            line.extend(non_empty(tokens.to_vec()).map(|tokens| ("logprobs".to_owned(), tokens)));
            line.into()
        });
        Ok(more.into_iter().chain([self.last(whole)]).collect())
    }
}
