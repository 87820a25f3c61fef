//! Answers of Ollama: lines whose texts follow each other, and a last one with all the numbers.

use serde_json::{Map, Value, json};

use super::{StreamDiverged, behind, items, text};

/// JsonObject whose texts follow each other from line to line.
const TEXTS: [&str; 3] = ["content", "response", "thinking"];
/// JsonObject whose items do.
const LISTS: [&str; 2] = ["tool_calls", "logprobs"];

#[derive(Debug, Clone)]
pub(super) struct Ollama {
    /// Whether the text is in the line itself and not in a message.
    plain: bool,
    /// The newest value of every field.
    outer: Map<String, Value>,
    /// The message so far; empty if there is none.
    message: Map<String, Value>,
}

pub(super) fn is_end(line: &Value) -> bool {
    line.get("done") == Some(&Value::Bool(true))
}

/// Joins what follows on what was there.
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

    /// What is said in it: the fields of the message, or the line's own.
    fn said(&self) -> &Map<String, Value> {
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
            let remaining = behind(text(whole.said(), name), text(self.said(), name))?;
            if !remaining.is_empty() {
                left.insert(name.to_owned(), remaining.into());
            }
        }
        let (calls, sent) = (items(whole.said(), "tool_calls"), items(self.said(), "tool_calls"));
        let calls = calls.strip_prefix(sent).ok_or(StreamDiverged)?;
        if !calls.is_empty() {
            left.insert("tool_calls".to_owned(), calls.into());
        }
        let more = (!left.is_empty()).then(|| self.line(&whole, left));
        Ok(more.into_iter().chain([self.last(whole)]).collect())
    }

    /// A line that is not the last.
    fn line(&self, whole: &Self, mut said: Map<String, Value>) -> Value {
        let outer = |name: &str| whole.outer.get(name).cloned().unwrap_or_default();
        let mut line =
            json!({"model": outer("model"), "created_at": outer("created_at"), "done": false});
        let Some(fields) = line.as_object_mut() else { return line };
        if self.plain {
            said.entry("response").or_insert_with(|| "".into());
            fields.append(&mut said);
        } else {
            said.entry("role").or_insert_with(|| "assistant".into());
            said.entry("content").or_insert_with(|| "".into());
            fields.insert("message".to_owned(), said.into());
        }
        line
    }

    /// The whole without what was said: that is what Ollama ends with.
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
