//! Ollama streams: lines with text fragments, and a final line with statistics.

use serde_json::{Map, Value, json};

use super::{StreamDiverged, items, suffix, text};

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

pub(super) fn is_end(line: &Value) -> bool {
    line.get("done") == Some(&Value::Bool(true))
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

    pub(super) fn add(&mut self, line: &Value) {
        let Some(line) = line.as_object() else { return };
        let mut line = line.clone();
        if let Some(Value::Object(message)) = line.remove("message") {
            join(&mut self.message, &message);
        }
        join(&mut self.outer, &line);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.outer.get("done") == Some(&Value::Bool(true))
    }

    pub(super) fn body(&self) -> Value {
        let mut body = self.outer.clone();
        if !self.plain {
            let mut message = self.message.clone();
            message.entry("role").or_insert_with(|| "assistant".into());
            message.entry("content").or_insert_with(|| "".into());
            body.insert("message".to_owned(), message.into());
        }
        body.into()
    }

    pub(super) fn tokens(&self) -> (Option<u64>, Option<u64>) {
        let count = |name: &str| self.outer.get(name).and_then(Value::as_u64);
        (count("prompt_eval_count"), count("eval_count"))
    }

    /// Returns the object with the text: the message or the line.
    fn text_object(&self) -> &Map<String, Value> {
        if self.plain { &self.outer } else { &self.message }
    }

    pub(super) fn remaining(&self, body: &Value) -> Result<Vec<Value>, StreamDiverged> {
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
        let more = (!left.is_empty()).then(|| self.line(&whole, left));
        Ok(more.into_iter().chain([self.last(whole)]).collect())
    }

    fn line(&self, whole: &Self, mut message: Map<String, Value>) -> Value {
        let outer = |name: &str| whole.outer.get(name).cloned().unwrap_or_default();
        let mut line =
            json!({"model": outer("model"), "created_at": outer("created_at"), "done": false});
        let Some(fields) = line.as_object_mut() else { return line };
        if self.plain {
            message.entry("response").or_insert_with(|| "".into());
            fields.append(&mut message);
        } else {
            message.entry("role").or_insert_with(|| "assistant".into());
            message.entry("content").or_insert_with(|| "".into());
            fields.insert("message".to_owned(), message.into());
        }
        line
    }

    /// Returns the final line: all fields without the text.
    fn last(&self, whole: Self) -> Value {
        let mut last = whole.outer;
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
