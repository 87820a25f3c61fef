//! Replies of the fake model server, in the format of each API.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Behaviour, MODEL, reply_to};

const AT: &str = "2026-11-16T08:00:00Z";

/// The reply to one call.
pub(super) struct Script {
    pub(super) pieces: VecDeque<Result<String, String>>,
    pub(super) is_whole: bool,
    text: String,
}

impl Script {
    pub(super) fn is_over(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn of(path: &str, body: &Value, behaviour: Option<&Behaviour>) -> Self {
        let said = said(body);
        let mut text = reply_to(&said);
        if matches!(behaviour, Some(Behaviour::Differs)) {
            text = format!("no, {text}");
        }
        let call =
            body["tools"].as_array().and_then(|tools| tools.first()).filter(|_| said == "use it");
        let calls = call.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
        let frame = |value: &Value| {
            if path.starts_with("/api/") {
                format!("{value}\n")
            } else {
                format!("data: {value}\n\n")
            }
        };
        let with_logprobs = ![Value::Null, Value::Bool(false)].contains(&body["logprobs"]);
        let spoken = text.split_inclusive(' ').map(|word| piece(path, word, with_logprobs));
        let mut words: Vec<Value> = match &calls {
            Some(name) => called(path, name),
            None if path == "/v1/responses" => response_events(&text),
            None => spoken.collect(),
        };
        let end = last_pieces(path, &text, calls.is_some());
        let mut pieces: VecDeque<Result<String, String>> = VecDeque::new();
        match behaviour {
            Some(Behaviour::Breaks(after)) => {
                words.truncate(*after);
                pieces.extend(words.iter().map(|word| Ok(frame(word))));
                pieces.push_back(Err("cut".to_owned()));
            }
            Some(Behaviour::Fails(after)) => {
                words.truncate(*after);
                words.push(json!({"error": "out of birds"}));
                pieces.extend(words.iter().map(|word| Ok(frame(word))));
            }
            Some(
                Behaviour::Differs
                | Behaviour::Whole
                | Behaviour::Endless(_)
                | Behaviour::Refuses(..),
            )
            | None => {
                pieces.extend(words.iter().chain(&end).map(|word| Ok(frame(word))));
                if !path.starts_with("/api/") && path != "/v1/responses" {
                    pieces.push_back(Ok("data: [DONE]\n\n".to_owned()));
                }
            }
        }
        Self { pieces, is_whole: matches!(behaviour, Some(Behaviour::Whole)), text }
    }

    pub(super) fn whole(&self) -> Value {
        let message = json!({"role": "assistant", "content": self.text});
        json!({"id": "whole", "object": "chat.completion", "created": 7, "model": MODEL,
               "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
               "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
    }
}

/// Returns the text of the last message, of the prompt, or of the input.
fn said(body: &Value) -> String {
    let messages = body["messages"].as_array().or_else(|| body["input"].as_array());
    let last = messages.and_then(|messages| messages.last()).map(|message| &message["content"]);
    let said = last.or_else(|| body.get("prompt")).or_else(|| body.get("input"));
    let said = said.unwrap_or(&Value::Null);
    let said = said.get(0).and_then(|part| part.get("text")).unwrap_or(said);
    said.as_str().map_or_else(|| said.to_string(), str::to_owned)
}

/// Returns the embeddings of the input, if the path is one of embeddings: the number of letters of each text and a quarter, and 0.5.
pub(super) fn embeddings(path: &str, body: &Value) -> Option<Value> {
    let input = body.get("input").unwrap_or(&body["prompt"]);
    let texts = input.as_array().map_or_else(|| vec![input], |texts| texts.iter().collect());
    let letters = |text: &&Value| u16::try_from(text.as_str().unwrap_or("").len()).unwrap();
    let vectors: Vec<[f32; 2]> =
        texts.iter().map(|text| [f32::from(letters(text)) + 0.25, 0.5]).collect();
    match path {
        "/api/embed" => {
            Some(json!({"model": MODEL, "embeddings": vectors, "prompt_eval_count": 3}))
        }
        "/api/embeddings" => Some(json!({"embedding": vectors[0]})),
        "/v1/embeddings" => {
            let entry = |(index, vector): (usize, &[f32; 2])| {
                let bytes: Vec<u8> = vector.iter().copied().flat_map(f32::to_le_bytes).collect();
                let embedding = if body["encoding_format"] == "base64" {
                    STANDARD.encode(bytes).into()
                } else {
                    json!(vector)
                };
                json!({"object": "embedding", "index": index, "embedding": embedding})
            };
            let data: Vec<Value> = vectors.iter().enumerate().map(entry).collect();
            let usage = json!({"prompt_tokens": 3, "total_tokens": 3});
            Some(json!({"object": "list", "data": data, "model": MODEL, "usage": usage}))
        }
        _ => None,
    }
}

fn piece(path: &str, word: &str, with_logprobs: bool) -> Value {
    let token = json!({"token": word, "logprob": -0.5, "bytes": word.as_bytes(), "top_logprobs": [{"token": word, "logprob": -0.5, "bytes": word.as_bytes()}]});
    let mut piece = match path {
        "/api/chat" => {
            json!({"model": MODEL, "created_at": AT, "message": {"role": "assistant", "content": word}, "done": false})
        }
        "/api/generate" => {
            json!({"model": MODEL, "created_at": AT, "response": word, "done": false})
        }
        "/v1/completions" => {
            let mut chunk = chunk(
                &json!([{"index": 0, "text": word, "logprobs": null, "finish_reason": null}]),
            );
            chunk["object"] = "text_completion".into();
            if with_logprobs {
                chunk["choices"][0]["logprobs"] = json!({"tokens": [word], "token_logprobs": [-0.5], "top_logprobs": [{word: -0.5}], "text_offset": [0]});
            }
            return chunk;
        }
        _ => {
            let mut chunk = chunk(
                &json!([{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": null}]),
            );
            if with_logprobs {
                chunk["choices"][0]["logprobs"] = json!({"content": [token], "refusal": null});
            }
            return chunk;
        }
    };
    if with_logprobs {
        piece["logprobs"] = json!([token]);
    }
    piece
}

fn chunk(choices: &Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": MODEL, "choices": choices})
}

fn called(path: &str, name: &str) -> Vec<Value> {
    if path == "/api/chat" {
        let calls = json!([{"function": {"name": name, "arguments": {"city": "Zürich"}}}]);
        let message = json!({"role": "assistant", "content": "", "tool_calls": calls});
        return vec![json!({"model": MODEL, "created_at": AT, "message": message, "done": false})];
    }
    let bit = |bit: Value| {
        chunk(&json!([{"index": 0, "delta": {"tool_calls": [bit]}, "finish_reason": null}]))
    };
    vec![
        bit(
            json!({"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": ""}}),
        ),
        bit(json!({"index": 0, "function": {"arguments": "{\"city\":"}})),
        bit(json!({"index": 0, "function": {"arguments": "\"Zürich\"}"}})),
    ]
}

fn last_pieces(path: &str, text: &str, calls: bool) -> Vec<Value> {
    let at = "2026-11-16T08:00:01Z";
    let numbers = json!({"model": MODEL, "created_at": at, "done": true, "done_reason": "stop", "total_duration": 5,
                         "prompt_eval_count": 11, "eval_count": 7});
    let with = |name: &str, value: Value| {
        let mut last = numbers.clone();
        last[name] = value;
        last
    };
    match path {
        "/api/chat" => vec![with("message", json!({"role": "assistant", "content": ""}))],
        "/api/generate" => vec![with("response", json!(""))],
        "/v1/responses" => {
            vec![
                json!({"type": "response.completed", "sequence_number": 99, "response": response("completed", text)}),
            ]
        }
        _ => {
            let finish = if calls { "tool_calls" } else { "stop" };
            let mut usage = chunk(&json!([]));
            usage["usage"] =
                json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
            let mut last = chunk(&json!([{"index": 0, "delta": {}, "finish_reason": finish}]));
            if path == "/v1/completions" {
                last["choices"] =
                    json!([{"index": 0, "text": "", "logprobs": null, "finish_reason": finish}]);
            }
            vec![last, usage]
        }
    }
}

/// Returns the message of a response.
fn message(status: &str, content: &Value) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content})
}

fn response(status: &str, text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let output =
        if status == "completed" { json!([message(status, &json!([part]))]) } else { json!([]) };
    let usage = json!({"input_tokens": 11, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 7,
                       "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 18});
    json!({"object": "response", "id": "resp_1", "created_at": 7, "status": status, "model": MODEL, "output": output,
           "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "parallel_tool_calls": true,
           "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0, "usage": usage})
}

/// Returns the events of a response before its last one.
fn response_events(text: &str) -> Vec<Value> {
    let at = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let with = |kind: &str, fields: Value| {
        let mut event = json!({"type": kind});
        for object in [&at, &fields] {
            event.as_object_mut().unwrap().extend(object.as_object().unwrap().clone());
        }
        event
    };
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", "")}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": message("in_progress", &json!([]))}),
        with("response.content_part.added", json!({"part": part("")})),
    ];
    let words = text.split_inclusive(' ');
    events
        .extend(words.map(|word| {
            with("response.output_text.delta", json!({"delta": word, "logprobs": []}))
        }));
    events.extend([
        with("response.output_text.done", json!({"text": text, "logprobs": []})),
        with("response.content_part.done", json!({"part": part(text)})),
        json!({"type": "response.output_item.done", "output_index": 0, "item": message("completed", &json!([part(text)]))}),
    ]);
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}
