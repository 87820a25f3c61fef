//! `OpenAI` streams of chats and completions: chunks with deltas for each choice.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Accumulate, StreamDiverged, suffix};
use crate::chat::json_fields::{field, items, map, size, size_of_map, text};

const INDEX: &str = "index";
/// Object of `/v1/completions`, whole or a chunk.
const COMPLETION: &str = "text_completion";
/// Text of a choice of `/v1/completions`.
const TEXT: &str = "text";

#[derive(Debug, Clone)]
pub(super) struct OpenAi {
    /// `/v1/completions`: the text is in the choice itself, not in a message.
    plain: bool,
    /// Fields of the whole response: id, model and the like.
    head: Map<String, Value>,
    choices: BTreeMap<u64, Choice>,
    usage: Option<Value>,
}

#[derive(Debug, Clone, Default)]
struct Choice {
    message: Map<String, Value>,
    calls: BTreeMap<u64, Map<String, Value>>,
    logprobs: Option<Map<String, Value>>,
    finish: Option<Value>,
}

impl Choice {
    fn add(&mut self, delta: &Map<String, Value>) {
        for (name, value) in delta {
            match (name.as_str(), value, self.message.get_mut(name)) {
                (_, Value::Null, _) => {}
                ("tool_calls", Value::Array(calls), _) => {
                    for (position, call) in (0..).zip(calls) {
                        self.add_call(position, call);
                    }
                }
                ("role", ..) | (_, _, None) => {
                    self.message.insert(name.clone(), value.clone());
                }
                (_, Value::String(new), Some(Value::String(old))) => old.push_str(new),
                (_, Value::Array(new), Some(Value::Array(old))) => {
                    old.extend(new.iter().cloned());
                }
                (_, _, Some(old)) => *old = value.clone(),
            }
        }
    }

    fn add_call(&mut self, position: u64, call: &Value) {
        let Some(call) = call.as_object() else { return };
        let index = call.get(INDEX).and_then(Value::as_u64).unwrap_or(position);
        let known = self.calls.entry(index).or_default();
        for (name, value) in call.iter().filter(|(name, value)| *name != INDEX && !value.is_null())
        {
            match (value, known.get_mut(name)) {
                (Value::Object(new), Some(Value::Object(old))) => join_function(old, new),
                (_, Some(Value::String(old))) if value == "" && !old.is_empty() => {}
                (_, _) => {
                    known.insert(name.clone(), value.clone());
                }
            }
        }
    }

    fn add_logprobs(&mut self, logprobs: &Map<String, Value>) {
        let known = self.logprobs.get_or_insert_default();
        for (name, value) in logprobs {
            match (known.get_mut(name), value) {
                (Some(Value::Array(old)), Value::Array(new)) => old.extend(new.iter().cloned()),
                (_, _) => {
                    known.insert(name.clone(), value.clone());
                }
            }
        }
    }

    fn size(&self) -> usize {
        let calls: usize = self.calls.values().map(size_of_map).sum();
        let logprobs = self.logprobs.as_ref().map_or(0, size_of_map);
        // An empty choice takes memory, too.
        size_of_map(&self.message) + calls + logprobs + 64
    }

    fn message(&self) -> Value {
        let mut message = self.message.clone();
        message.entry("role").or_insert_with(|| "assistant".into());
        message.entry("content").or_insert(Value::Null);
        message.entry("refusal").or_insert(Value::Null);
        if !self.calls.is_empty() {
            let calls: Vec<Value> = self.calls.values().cloned().map(Value::Object).collect();
            message.insert("tool_calls".to_owned(), calls.into());
        }
        message.into()
    }

    /// Returns the delta from the sent choice to this one.
    fn suffix(&self, sent: &Self) -> Result<Map<String, Value>, StreamDiverged> {
        let mut delta = Map::new();
        for (name, value) in &self.message {
            if let (Value::String(whole), true) = (value, name != "role") {
                let remaining = suffix(whole, text(&sent.message, name))?;
                if !remaining.is_empty() {
                    delta.insert(name.clone(), remaining.into());
                }
            } else if !sent.message.contains_key(name) && !value.is_null() {
                delta.insert(name.clone(), value.clone());
            }
        }
        // Sent fields must still exist.
        let is_known =
            |name: &String| self.message.contains_key(name) || text(&sent.message, name).is_empty();
        if !sent.message.keys().all(is_known) {
            return Err(StreamDiverged);
        }
        let calls = self.calls_suffix(sent)?;
        if !calls.is_empty() {
            delta.insert("tool_calls".to_owned(), calls.into());
        }
        Ok(delta)
    }

    /// Returns the log probabilities of the tokens that were not sent.
    fn logprobs_suffix(&self, sent: &Self) -> Option<Value> {
        let mut left = Map::new();
        for (name, tokens) in self.logprobs.iter().flatten() {
            let count = sent.logprobs.as_ref().map_or(0, |sent| items(sent, name).len());
            let tokens = tokens.as_array()?.get(count..).filter(|tokens| !tokens.is_empty());
            left.extend(tokens.map(|tokens| (name.clone(), tokens.into())));
        }
        (!left.is_empty()).then(|| left.into())
    }

    fn calls_suffix(&self, sent: &Self) -> Result<Vec<Value>, StreamDiverged> {
        if !sent.calls.keys().all(|index| self.calls.contains_key(index)) {
            return Err(StreamDiverged);
        }
        let mut left = Vec::new();
        for (index, call) in &self.calls {
            let Some(known) = sent.calls.get(index) else {
                let mut call = call.clone();
                call.insert(INDEX.to_owned(), (*index).into());
                left.push(call.into());
                continue;
            };
            let (Some(Value::Object(whole)), Some(Value::Object(known))) =
                (call.get("function"), known.get("function"))
            else {
                continue;
            };
            if !text(known, "name").is_empty() && text(known, "name") != text(whole, "name") {
                return Err(StreamDiverged);
            }
            let remaining = suffix(text(whole, "arguments"), text(known, "arguments"))?;
            if !remaining.is_empty() {
                left.push(json!({INDEX: index, "function": {"arguments": remaining}}));
            }
        }
        Ok(left)
    }
}

/// Merges a function: its name arrives once, its arguments in fragments.
fn join_function(old: &mut Map<String, Value>, new: &Map<String, Value>) {
    for (name, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        match (name.as_str(), value, old.get_mut(name)) {
            ("arguments", Value::String(new), Some(Value::String(old))) => old.push_str(new),
            (_, Value::String(new), Some(_)) if new.is_empty() => {}
            (_, _, _) => {
                old.insert(name.clone(), value.clone());
            }
        }
    }
}

impl Accumulate for OpenAi {
    fn add(&mut self, chunk: &Value) {
        let Some(chunk) = chunk.as_object() else { return };
        for (name, value) in chunk.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "choices" | "object" => {}
                "usage" => self.usage = Some(value.clone()),
                _ => {
                    self.head.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        for (position, choice) in (0..).zip(items(chunk, "choices")) {
            let index = choice.get(INDEX).and_then(Value::as_u64).unwrap_or(position);
            let known = self.choices.entry(index).or_default();
            if self.plain {
                known.add(&map([(TEXT, text(choice, TEXT).into())]));
            }
            // A whole response has messages in place of deltas.
            let delta = choice.get("delta").or_else(|| choice.get("message"));
            if let Some(delta) = delta.and_then(Value::as_object) {
                known.add(delta);
            }
            if let Some(logprobs) = choice.get("logprobs").and_then(Value::as_object) {
                known.add_logprobs(logprobs);
            }
            if let Some(finish) = field(choice, "finish_reason") {
                known.finish = Some(finish.clone());
            }
        }
    }

    fn is_end(&self, chunk: &Value) -> bool {
        let choices = items(chunk, "choices");
        let ends = |choice: &Value| field(choice, "finish_reason").is_some();
        choices.is_empty() || choices.iter().any(ends)
    }

    fn is_complete(&self) -> bool {
        !self.choices.is_empty() && self.choices.values().all(|choice| choice.finish.is_some())
    }

    fn body(&self) -> Value {
        let choice = |(index, choice): (&u64, &Choice)| {
            let (name, content) = if self.plain {
                (TEXT, text(&choice.message, TEXT).into())
            } else {
                ("message", choice.message())
            };
            json!({
                INDEX: index,
                name: content,
                "logprobs": choice.logprobs,
                "finish_reason": choice.finish,
            })
        };
        let mut body = self.head.clone();
        let object = if self.plain { COMPLETION } else { "chat.completion" };
        body.insert("object".to_owned(), object.into());
        body.insert("choices".to_owned(), self.choices.iter().map(choice).collect());
        if let Some(usage) = &self.usage {
            body.insert("usage".to_owned(), usage.clone());
        }
        body.into()
    }

    fn size(&self) -> usize {
        let choices: usize = self.choices.values().map(Choice::size).sum();
        size_of_map(&self.head) + choices + self.usage.as_ref().map_or(0, size)
    }

    fn tokens(&self) -> (Option<u64>, Option<u64>) {
        let count = |name: &str| self.usage.as_ref()?.get(name)?.as_u64();
        (count("prompt_tokens"), count("completion_tokens"))
    }

    fn remaining(&self, body: &Value, usage: bool) -> Result<Vec<Value>, StreamDiverged> {
        let mut whole = Self::new(self.plain);
        whole.add(body);
        if !self.choices.keys().all(|index| whole.choices.contains_key(index)) {
            return Err(StreamDiverged);
        }
        let mut chunks = Vec::new();
        for (index, choice) in &whole.choices {
            let nothing = Choice::default();
            let sent = self.choices.get(index).unwrap_or(&nothing);
            if sent.finish.is_some() {
                continue;
            }
            let (delta, logprobs) = (choice.suffix(sent)?, choice.logprobs_suffix(sent));
            if !delta.is_empty() || logprobs.is_some() {
                chunks.push(whole.choice_chunk(*index, delta, logprobs, Value::Null));
            }
            let finish = choice.finish.clone().unwrap_or_else(|| "stop".into());
            chunks.push(whole.choice_chunk(*index, Map::new(), None, finish));
        }
        if let Some(used) = whole.usage.clone().filter(|_| usage) {
            let mut chunk = whole.chunk(json!([]));
            chunk.insert("usage".to_owned(), used);
            chunks.push(chunk);
        }
        Ok(chunks.into_iter().map(Value::Object).collect())
    }
}

impl OpenAi {
    pub(super) fn new(plain: bool) -> Self {
        Self { plain, head: Map::new(), choices: BTreeMap::new(), usage: None }
    }

    /// Returns a chunk with one choice.
    fn choice_chunk(
        &self,
        index: u64,
        delta: Map<String, Value>,
        logprobs: Option<Value>,
        finish: Value,
    ) -> Map<String, Value> {
        let mut choice = map([(INDEX, index.into())]);
        if self.plain {
            choice.insert(TEXT.to_owned(), text(&delta, TEXT).into());
        } else {
            choice.insert("delta".to_owned(), delta.into());
        }
        choice.extend(logprobs.map(|logprobs| ("logprobs".to_owned(), logprobs)));
        choice.insert("finish_reason".to_owned(), finish);
        self.chunk(json!([choice]))
    }

    fn chunk(&self, choices: Value) -> Map<String, Value> {
        let mut chunk = self.head.clone();
        let object = if self.plain { COMPLETION } else { "chat.completion.chunk" };
        chunk.insert("object".to_owned(), object.into());
        chunk.insert("choices".to_owned(), choices);
        chunk
    }
}
