//! Translates lines of Ollama to `OpenAI` chunks.

use longhaul::Timestamp;
use serde_json::{Map, Value, json};

use crate::chat::json_fields::{field, items, map, non_empty, text, tool_call_to_openai};

#[derive(Debug)]
pub(in crate::chat) struct ToOpenAi {
    /// `/v1/completions`: the text is in the choice itself, not in a delta.
    plain: bool,
    id: String,
    created_s: i64,
    /// Set once the role was sent.
    begun: bool,
    calls: usize,
    /// Characters of the tokens so far.
    text_chars: usize,
}

impl ToOpenAi {
    pub(super) fn new(plain: bool, id: &str, created_s: i64) -> Self {
        Self { plain, id: id.to_owned(), created_s, begun: false, calls: 0, text_chars: 0 }
    }

    pub(super) fn take(&mut self, line: &Value) -> Vec<Value> {
        if let (false, Some(at)) = (self.begun, Timestamp::parse(text(line, "created_at"))) {
            self.created_s = at.as_millis() / 1_000;
        }
        let mut chunks = Vec::new();
        if let Some(choice) = self.choice(line) {
            chunks.push(self.chunk(line, json!([choice])));
        }
        if line.get("done") == Some(&Value::Bool(true)) {
            let finish = match text(line, "done_reason") {
                _ if self.calls > 0 => "tool_calls",
                "length" => "length",
                _ => "stop",
            };
            let choice = if self.plain {
                json!({"index": 0, "text": "", "logprobs": null, "finish_reason": finish})
            } else {
                json!({"index": 0, "delta": {}, "finish_reason": finish})
            };
            chunks.push(self.chunk(line, json!([choice])));
            chunks.push(self.usage(line));
        }
        chunks.into_iter().map(Value::Object).collect()
    }

    /// Returns the choice with the text of a line; `None` if the line has none.
    fn choice(&mut self, line: &Value) -> Option<Value> {
        let tokens = items(line, "logprobs");
        if self.plain {
            self.begun = true;
            let said = text(line, "response");
            let logprobs = (!tokens.is_empty()).then(|| self.completion_logprobs(tokens));
            let is_empty = said.is_empty() && logprobs.is_none();
            let choice =
                json!({"index": 0, "text": said, "logprobs": logprobs, "finish_reason": null});
            return (!is_empty).then_some(choice);
        }
        let delta = self.delta(line.get("message").unwrap_or(&Value::Null));
        let mut choice = map([("index", 0.into()), ("delta", delta.clone().into())]);
        if !tokens.is_empty() {
            choice.insert("logprobs".to_owned(), chat_logprobs(tokens));
        }
        choice.insert("finish_reason".to_owned(), Value::Null);
        (!delta.is_empty() || !tokens.is_empty()).then(|| choice.into())
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

    /// Returns the parallel lists of `/v1/completions`.
    fn completion_logprobs(&mut self, tokens: &[Value]) -> Value {
        let offsets: Vec<Value> = tokens
            .iter()
            .map(|token| {
                let offset = self.text_chars;
                self.text_chars += text(token, "token").chars().count();
                offset.into()
            })
            .collect();
        let by_token = |token: &Value| -> Value {
            let tops = items(token, "top_logprobs").iter();
            let entry =
                |top: &Value| Some((text(top, "token").to_owned(), top.get("logprob")?.clone()));
            Value::Object(tops.filter_map(entry).collect())
        };
        let list = |name: &str| tokens.iter().map(|token| token.get(name).cloned()).collect();
        let (texts, logprobs): (Vec<Option<Value>>, Vec<Option<Value>>) =
            (list("token"), list("logprob"));
        let tops: Vec<Value> = tokens.iter().map(by_token).collect();
        json!({"tokens": texts, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets})
    }

    fn chunk(&self, line: &Value, choices: Value) -> Map<String, Value> {
        let (prefix, object) = if self.plain {
            ("cmpl", "text_completion")
        } else {
            ("chatcmpl", "chat.completion.chunk")
        };
        map([
            ("id", format!("{prefix}-{}", self.id).into()),
            ("object", object.into()),
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

/// Returns the log probabilities of `/v1/chat/completions`, in which every field is required.
fn chat_logprobs(tokens: &[Value]) -> Value {
    let entry = |token: &Value| {
        map([
            ("token", text(token, "token").into()),
            ("logprob", token.get("logprob").cloned().unwrap_or_default()),
            ("bytes", field(token, "bytes").cloned().unwrap_or_default()),
        ])
    };
    let content = tokens.iter().map(|token| {
        let mut whole = entry(token);
        let tops = items(token, "top_logprobs").iter().map(|top| Value::Object(entry(top)));
        whole.insert("top_logprobs".to_owned(), tops.collect());
        Value::Object(whole)
    });
    json!({"content": content.collect::<Vec<_>>(), "refusal": null})
}
