//! Translates lines of Ollama to `OpenAI` chunks.

use longhaul::Timestamp;
use serde_json::{Map, Value, json};

use crate::chat::json_fields::{items, map, non_empty, text, tool_call_to_openai};

#[derive(Debug)]
pub(in crate::chat) struct ToOpenAi {
    id: String,
    created_s: i64,
    /// Set once the role was sent.
    begun: bool,
    calls: usize,
}

impl ToOpenAi {
    pub(super) fn new(id: &str, created_s: i64) -> Self {
        Self { id: id.to_owned(), created_s, begun: false, calls: 0 }
    }

    pub(super) fn take(&mut self, line: &Value) -> Vec<Value> {
        if let (false, Some(at)) = (self.begun, Timestamp::parse(text(line, "created_at"))) {
            self.created_s = at.as_millis() / 1_000;
        }
        let delta = self.delta(line.get("message").unwrap_or(&Value::Null));
        let mut chunks = Vec::new();
        if !delta.is_empty() {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
            chunks.push(self.chunk(line, json!([choice])));
        }
        if line.get("done") == Some(&Value::Bool(true)) {
            let finish = match text(line, "done_reason") {
                _ if self.calls > 0 => "tool_calls",
                "length" => "length",
                _ => "stop",
            };
            let choice = json!({"index": 0, "delta": {}, "finish_reason": finish});
            chunks.push(self.chunk(line, json!([choice])));
            chunks.push(self.usage(line));
        }
        chunks.into_iter().map(Value::Object).collect()
    }

    fn delta(&mut self, message: &Value) -> Map<String, Value> {
        let mut delta = Map::new();
        if !self.begun {
            self.begun = true;
            delta.insert("role".to_owned(), "assistant".into());
        }
        for (theirs, ours) in [("content", "content"), ("thinking", "reasoning")] {
            let said = text(message, theirs);
            if !said.is_empty() {
                delta.insert(ours.to_owned(), said.into());
            }
        }
        let calls = items(message, "tool_calls").iter().map(|call| self.call(call)).collect();
        delta.extend(non_empty(calls).map(|calls| ("tool_calls".to_owned(), calls)));
        delta
    }

    fn call(&mut self, call: &Value) -> Value {
        let index = self.calls;
        self.calls += 1;
        let mut translated = map([("index", index.into())]);
        translated.append(&mut tool_call_to_openai(call, format!("call_{}_{index}", self.id)));
        translated.into()
    }

    fn chunk(&self, line: &Value, choices: Value) -> Map<String, Value> {
        map([
            ("id", format!("chatcmpl-{}", self.id).into()),
            ("object", "chat.completion.chunk".into()),
            ("created", self.created_s.into()),
            ("model", text(line, "model").into()),
            ("choices", choices),
        ])
    }

    fn usage(&self, line: &Value) -> Map<String, Value> {
        let count = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or_default();
        let (read, written) = (count("prompt_eval_count"), count("eval_count"));
        let usage = json!({
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read.saturating_add(written),
        });
        let mut chunk = self.chunk(line, json!([]));
        chunk.insert("usage".to_owned(), usage);
        chunk
    }
}
