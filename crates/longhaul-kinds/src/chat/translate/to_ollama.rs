//! Translates `OpenAI` chunks to lines of Ollama.

use longhaul::Timestamp;
use serde_json::{Map, Value, json};

use super::text;
use crate::chat::accumulate::Accumulator;
use crate::chat::call::ChatApi;
use crate::chat::request::arguments;

#[derive(Debug)]
pub(in crate::chat) struct ToOllama {
    /// `/api/generate`: the text is in the line itself, not in a message.
    plain: bool,
    /// Accumulated, for values that Ollama sends at once: tool calls and final statistics.
    message: Accumulator,
    created_s: i64,
    model: String,
}

impl ToOllama {
    pub(super) fn new(plain: bool, created_s: i64) -> Self {
        Self {
            plain,
            message: Accumulator::new(ChatApi::OpenAiChat),
            created_s,
            model: String::new(),
        }
    }

    pub(super) fn take(&mut self, chunk: &Value) -> Vec<Value> {
        self.message.add(chunk);
        if !text(chunk, "model").is_empty() {
            text(chunk, "model").clone_into(&mut self.model);
        }
        if let Some(created_s) = chunk.get("created").and_then(Value::as_i64) {
            self.created_s = created_s;
        }
        // Ollama has one choice.
        let choices = chunk.get("choices").and_then(Value::as_array);
        let choices = choices.map(Vec::as_slice).unwrap_or_default();
        let is_first = |choice: &&Value| choice.get("index").is_none_or(|index| *index == 0);
        let lines = choices.iter().filter(is_first).filter_map(|choice| {
            let delta = choice.get("delta").or_else(|| choice.get("message"))?;
            let thinking = match text(delta, "reasoning_content") {
                "" => text(delta, "reasoning"),
                thinking => thinking,
            };
            let content = text(delta, "content");
            let nothing = content.is_empty() && thinking.is_empty();
            (!nothing).then(|| self.line(content, thinking, Vec::new()))
        });
        lines.collect()
    }

    /// Returns no final line if the target sent none.
    pub(super) fn end(&mut self) -> Vec<Value> {
        if !self.message.is_complete() {
            return Vec::new();
        }
        let body = self.message.body();
        let choice = body.pointer("/choices/0").unwrap_or(&Value::Null);
        let calls: Vec<Value> = choice
            .pointer("/message/tool_calls")
            .and_then(Value::as_array)
            .map(|calls| calls.iter().map(call).collect())
            .unwrap_or_default();
        let told = (!calls.is_empty()).then(|| self.line("", "", calls));
        let done_reason = match text(choice, "finish_reason") {
            "length" => "length",
            _ => "stop",
        };
        let mut last = self.line("", "", Vec::new());
        if let Some(fields) = last.as_object_mut() {
            let (read, written) = self.message.tokens();
            fields.insert("done".to_owned(), true.into());
            fields.insert("done_reason".to_owned(), done_reason.into());
            for (name, count) in [("prompt_eval_count", read), ("eval_count", written)] {
                fields.extend(count.map(|count| (name.to_owned(), count.into())));
            }
        }
        told.into_iter().chain([last]).collect()
    }

    fn line(&self, content: &str, thinking: &str, calls: Vec<Value>) -> Value {
        let mut message = Map::new();
        message.insert(if self.plain { "response" } else { "content" }.to_owned(), content.into());
        if !thinking.is_empty() {
            message.insert("thinking".to_owned(), thinking.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        let at = Timestamp::from_millis(self.created_s.saturating_mul(1_000)).to_string();
        let mut line = json!({"model": self.model, "created_at": at, "done": false});
        if let Some(fields) = line.as_object_mut() {
            if self.plain {
                fields.append(&mut message);
            } else {
                message.insert("role".to_owned(), "assistant".into());
                fields.insert("message".to_owned(), message.into());
            }
        }
        line
    }
}

fn call(call: &Value) -> Value {
    let function = call.get("function").unwrap_or(&Value::Null);
    let arguments = arguments(text(function, "arguments"));
    json!({"function": {"name": text(function, "name"), "arguments": arguments}})
}
