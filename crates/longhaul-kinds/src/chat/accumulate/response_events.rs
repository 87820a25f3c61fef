//! `OpenAI` responses: typed events for each part of each output item, and a final one with the whole response.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Accumulate, StreamDiverged, suffix};
use crate::chat::json_fields::{field, items, size, text};

/// Events that end a stream.
const FINAL_EVENTS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

#[derive(Debug, Default)]
pub(super) struct ResponseEvents {
    /// Response of the final event.
    response: Option<Value>,
    items: BTreeMap<u64, OutputItem>,
    is_created: bool,
    /// Sequence number of the next event.
    next_number: u64,
}

/// Output item as far as its events arrived: a message with parts, or a call with arguments.
#[derive(Debug, Default)]
struct OutputItem {
    parts: BTreeMap<u64, OutputPart>,
    arguments: String,
    is_done: bool,
}

#[derive(Debug, Default)]
struct OutputPart {
    text: String,
    is_done: bool,
}

impl ResponseEvents {
    fn item(&mut self, event: &Value) -> &mut OutputItem {
        self.items.entry(number(event, "output_index")).or_default()
    }

    fn part(&mut self, event: &Value) -> &mut OutputPart {
        self.item(event).parts.entry(number(event, "content_index")).or_default()
    }
}

fn number(event: &Value, name: &str) -> u64 {
    event.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns the final event's response, or the whole response of a target that does not stream.
fn final_response(event: &Value) -> Option<&Value> {
    match text(event, "type") {
        "" => Some(event),
        kind if FINAL_EVENTS.contains(&kind) => event.get("response"),
        _ => None,
    }
}

impl Accumulate for ResponseEvents {
    fn add(&mut self, event: &Value) {
        if let Some(response) = final_response(event) {
            self.response = Some(response.clone());
            return;
        }
        self.next_number = self.next_number.max(number(event, "sequence_number").saturating_add(1));
        match text(event, "type") {
            "response.created" => self.is_created = true,
            "response.output_item.added" => {
                self.item(event);
            }
            "response.output_item.done" => self.item(event).is_done = true,
            "response.content_part.added" => {
                self.part(event);
            }
            "response.content_part.done" => self.part(event).is_done = true,
            "response.output_text.delta" | "response.refusal.delta" => {
                self.part(event).text.push_str(text(event, "delta"));
            }
            "response.function_call_arguments.delta" => {
                self.item(event).arguments.push_str(text(event, "delta"));
            }
            // Progress of built-in tools, annotations, reasoning: all of it is in the final event.
            _ => {}
        }
    }

    fn is_end(&self, event: &Value) -> bool {
        final_response(event).is_some()
    }

    fn is_complete(&self) -> bool {
        self.response.is_some()
    }

    fn body(&self) -> Value {
        self.response.clone().unwrap_or_default()
    }

    fn size(&self) -> usize {
        let part = |part: &OutputPart| part.text.len() + 64;
        let item = |item: &OutputItem| {
            item.parts.values().map(part).sum::<usize>() + item.arguments.len() + 64
        };
        let items: usize = self.items.values().map(item).sum();
        items.max(self.response.as_ref().map_or(0, size))
    }

    fn tokens(&self) -> (Option<u64>, Option<u64>) {
        let count = |name: &str| self.response.as_ref()?.get("usage")?.get(name)?.as_u64();
        (count("input_tokens"), count("output_tokens"))
    }

    fn remaining(&self, body: &Value, _usage: bool) -> Result<Vec<Value>, StreamDiverged> {
        if self.is_complete() {
            return Ok(Vec::new());
        }
        let output = items(body, "output");
        let count = u64::try_from(output.len()).unwrap_or(u64::MAX);
        if self.items.keys().any(|index| *index >= count) {
            return Err(StreamDiverged);
        }
        let mut events = MissingEvents { events: Vec::new(), number: self.next_number };
        if !self.is_created {
            let mut created = body.clone();
            if let Some(created) = created.as_object_mut() {
                created.insert("status".to_owned(), "in_progress".into());
                created.insert("output".to_owned(), json!([]));
                created.insert("usage".to_owned(), Value::Null);
            }
            events.push(json!({"type": "response.created", "response": created}));
        }
        for (index, item) in (0u64..).zip(output) {
            events.complete_item(index, item, self.items.get(&index))?;
        }
        let last = match text(body, "status") {
            "incomplete" => "response.incomplete",
            _ => "response.completed",
        };
        events.push(json!({"type": last, "response": body}));
        Ok(events.events)
    }
}

/// Events from what was sent to the whole response.
struct MissingEvents {
    events: Vec<Value>,
    number: u64,
}

impl MissingEvents {
    fn push(&mut self, mut event: Value) {
        if let Some(event) = event.as_object_mut() {
            event.insert("sequence_number".to_owned(), self.number.into());
        }
        self.number = self.number.saturating_add(1);
        self.events.push(event);
    }

    fn complete_item(
        &mut self,
        index: u64,
        item: &Value,
        sent: Option<&OutputItem>,
    ) -> Result<(), StreamDiverged> {
        if sent.is_some_and(|sent| sent.is_done) {
            return Ok(());
        }
        if sent.is_none() {
            let empty = begun(item, &["content", "arguments"]);
            self.push(
                json!({"type": "response.output_item.added", "output_index": index, "item": empty}),
            );
        }
        let nothing = OutputItem::default();
        let sent = sent.unwrap_or(&nothing);
        let id = text(item, "id");
        for (part_index, part) in (0u64..).zip(items(item, "content")) {
            let at = json!({"item_id": id, "output_index": index, "content_index": part_index});
            self.complete_part(&at, part, sent.parts.get(&part_index))?;
        }
        if let Some(arguments) = field(item, "arguments").and_then(Value::as_str) {
            let rest = suffix(arguments, &sent.arguments)?;
            let kind = "response.function_call_arguments";
            if !rest.is_empty() {
                self.push(json!({"type": format!("{kind}.delta"), "item_id": id, "output_index": index, "delta": rest}));
            }
            self.push(json!({"type": format!("{kind}.done"), "item_id": id, "output_index": index, "name": text(item, "name"), "arguments": arguments}));
        }
        self.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
        Ok(())
    }

    fn complete_part(
        &mut self,
        at: &Value,
        part: &Value,
        sent: Option<&OutputPart>,
    ) -> Result<(), StreamDiverged> {
        if sent.is_some_and(|sent| sent.is_done) {
            return Ok(());
        }
        let (kind, name) = match text(part, "type") {
            "refusal" => ("response.refusal", "refusal"),
            _ => ("response.output_text", "text"),
        };
        if sent.is_none() {
            let empty = begun(part, &[name]);
            self.push_at(at, json!({"type": "response.content_part.added", "part": empty}));
        }
        let whole = text(part, name);
        let rest = suffix(whole, sent.map_or("", |sent| &sent.text))?;
        if !rest.is_empty() {
            let delta = json!({"type": format!("{kind}.delta"), "delta": rest, "logprobs": []});
            self.push_at(at, delta);
        }
        let done = json!({"type": format!("{kind}.done"), name: whole, "logprobs": []});
        self.push_at(at, done);
        self.push_at(at, json!({"type": "response.content_part.done", "part": part}));
        Ok(())
    }

    /// Adds an event of one part.
    fn push_at(&mut self, at: &Value, mut event: Value) {
        if let (Some(event), Some(at)) = (event.as_object_mut(), at.as_object()) {
            event.extend(at.clone());
        }
        self.push(event);
    }
}

/// Returns an item or part as it is when it starts: in progress, with empty texts and lists.
fn begun(whole: &Value, empty: &[&str]) -> Value {
    let mut begun: Map<String, Value> = whole.as_object().cloned().unwrap_or_default();
    for (name, value) in &mut begun {
        if empty.contains(&name.as_str()) {
            *value = if value.is_array() { json!([]) } else { "".into() };
        } else if name == "status" {
            *value = "in_progress".into();
        }
    }
    begun.into()
}
