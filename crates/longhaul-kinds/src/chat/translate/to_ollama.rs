//! Translates `OpenAI` chunks to lines of Ollama.

use longhaul::Timestamp;
use serde_json::{Map, Value};

use crate::chat::accumulate::{Accumulator, ollama_line};
use crate::chat::call::ChatApi;
use crate::chat::json_fields::{field, items, non_empty, object, text, tool_call_to_ollama};

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
        let is_first = |choice: &&Value| choice.get("index").is_none_or(|index| *index == 0);
        let lines = items(chunk, "choices").iter().filter(is_first).filter_map(|choice| {
            let delta = choice.get("delta").or_else(|| choice.get("message"))?;
            let thinking = match text(delta, "reasoning_content") {
                "" => text(delta, "reasoning"),
                thinking => thinking,
            };
            let content = text(delta, "content");
            let tokens = choice.pointer("/logprobs/content").and_then(Value::as_array);
            let logprobs = non_empty(tokens.into_iter().flatten().map(logprob).collect());
            let is_empty = content.is_empty() && thinking.is_empty() && logprobs.is_none();
            let mut line = self.line(content, thinking, None);
            line.extend(logprobs.map(|logprobs| ("logprobs".to_owned(), logprobs)));
            (!is_empty).then(|| line.into())
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
        let message = choice.get("message").unwrap_or(&Value::Null);
        let calls = items(message, "tool_calls").iter().map(tool_call_to_ollama).collect();
        let calls = non_empty(calls).map(|calls| self.line("", "", Some(calls)));
        let done_reason = match text(choice, "finish_reason") {
            "length" => "length",
            _ => "stop",
        };
        let mut last = self.line("", "", None);
        let (read, written) = self.message.tokens();
        last.insert("done".to_owned(), true.into());
        last.insert("done_reason".to_owned(), done_reason.into());
        for (name, count) in [("prompt_eval_count", read), ("eval_count", written)] {
            last.extend(count.map(|count| (name.to_owned(), count.into())));
        }
        calls.into_iter().chain([last]).map(Value::Object).collect()
    }

    fn line(&self, content: &str, thinking: &str, calls: Option<Value>) -> Map<String, Value> {
        let mut message = Map::new();
        message.insert(if self.plain { "response" } else { "content" }.to_owned(), content.into());
        if !thinking.is_empty() {
            message.insert("thinking".to_owned(), thinking.into());
        }
        message.extend(calls.map(|calls| ("tool_calls".to_owned(), calls)));
        let created_at = Timestamp::from_millis(self.created_s.saturating_mul(1_000)).to_string();
        ollama_line(self.plain, self.model.as_str().into(), created_at.into(), message)
    }
}

/// Returns the log probability of a token. Ollama omits missing bytes.
fn logprob(token: &Value) -> Value {
    let fields = |token: &Value| {
        let names = ["token", "logprob", "bytes"];
        names.map(|name| (name, field(token, name).cloned()))
    };
    let tops = items(token, "top_logprobs").iter().map(|top| object(fields(top))).collect();
    object(fields(token).into_iter().chain([("top_logprobs", non_empty(tops))]))
}
