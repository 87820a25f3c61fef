#![expect(clippy::wildcard_enum_match_arm, reason = "the last of the APIs that stream")]

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// APIs that stream.
const APIS: [ChatApi; 5] = [
    ChatApi::OllamaChat,
    ChatApi::OllamaGenerate,
    ChatApi::OpenAiChat,
    ChatApi::OpenAiCompletions,
    ChatApi::OpenAiResponses,
];

/// Chunks of a response with these words.
fn pieces(api: ChatApi, words: &[String]) -> Vec<Value> {
    if api == ChatApi::OpenAiResponses {
        return events(words);
    }
    let last = match api {
        ChatApi::OllamaChat => {
            json!({"model": "m", "created_at": "x", "message": {"role": "assistant", "content": ""},
                                  "done": true, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4})
        }
        ChatApi::OllamaGenerate => {
            json!({"model": "m", "created_at": "x", "response": "", "done": true,
                                      "done_reason": "stop", "context": [1], "prompt_eval_count": 3, "eval_count": 4})
        }
        ChatApi::OpenAiChat => {
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
        }
        _ => {
            json!({"id": "c", "object": "text_completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "text": "", "logprobs": null, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
        }
    };
    let word = |word: &String| match api {
        ChatApi::OllamaChat => {
            json!({"model": "m", "created_at": "x", "message": {"role": "assistant", "content": word}, "done": false})
        }
        ChatApi::OllamaGenerate => {
            json!({"model": "m", "created_at": "x", "response": word, "done": false})
        }
        ChatApi::OpenAiChat => {
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": null,
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": null}]})
        }
        _ => {
            json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "usage": null,
            "choices": [{"index": 0, "text": word, "logprobs": null, "finish_reason": null}]})
        }
    };
    words.iter().map(word).chain([last]).collect()
}

/// A response with a message of these words, in its final form.
fn response(words: &[String]) -> Value {
    let part = json!({"type": "output_text", "text": words.concat(), "annotations": []});
    let message = json!({"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]});
    json!({"object": "response", "id": "r1", "status": "completed", "output": [message], "usage": {"input_tokens": 3, "output_tokens": 4}})
}

/// Events of a response with a message of these words.
fn events(words: &[String]) -> Vec<Value> {
    let response = response(words);
    let message = &response["output"][0];
    let mut begun = message.clone();
    (begun["content"], begun["status"]) = (json!([]), "in_progress".into());
    let at = |kind: &str, mut event: Value| {
        event["type"] = kind.into();
        (event["item_id"], event["output_index"], event["content_index"]) =
            ("m1".into(), 0.into(), 0.into());
        event
    };
    let mut events = vec![
        json!({"type": "response.created", "response": {"object": "response", "id": "r1", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
        at(
            "response.content_part.added",
            json!({"part": {"type": "output_text", "text": "", "annotations": []}}),
        ),
    ];
    let delta = |word| at("response.output_text.delta", json!({"delta": word, "logprobs": []}));
    events.extend(words.iter().map(delta));
    events.extend([
        at("response.output_text.done", json!({"text": words.concat(), "logprobs": []})),
        at("response.content_part.done", json!({"part": message["content"][0]})),
        json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
        json!({"type": "response.completed", "response": response}),
    ]);
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

fn accumulator(api: ChatApi, pieces: &[Value]) -> Accumulator {
    let mut accumulator = Accumulator::new(api);
    for piece in pieces {
        accumulator.add(piece);
    }
    accumulator
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn accumulated_response_equals_an_unstreamed_one() {
    for api in APIS {
        let whole = accumulator(api, &pieces(api, &words(&["Good ", "day"])));
        assert!(whole.is_complete());
        assert_eq!(whole.tokens(), (Some(3), Some(4)));
        let expected = match api {
            ChatApi::OllamaChat => {
                json!({"model": "m", "created_at": "x", "message": {"role": "assistant", "content": "Good day"},
                                      "done": true, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4})
            }
            ChatApi::OllamaGenerate => {
                json!({"model": "m", "created_at": "x", "response": "Good day", "done": true,
                                          "done_reason": "stop", "context": [1], "prompt_eval_count": 3, "eval_count": 4})
            }
            ChatApi::OpenAiChat => {
                json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": "Good day", "refusal": null},
                             "logprobs": null, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
            }
            ChatApi::OpenAiResponses => response(&words(&["Good ", "day"])),
            _ => {
                json!({"id": "c", "object": "text_completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "text": "Good day", "logprobs": null, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
            }
        };
        assert_eq!(whole.body(), expected);
    }
}

#[test]
fn tool_calls_are_assembled_from_fragments() {
    let chunk =
        |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let call = |bits: Value| chunk(json!({"tool_calls": [bits]}));
    let stream = [
        call(
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": ""}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "{\"at\""}})),
        call(
            json!({"index": 1, "id": "b", "type": "function", "function": {"name": "smell", "arguments": "{}"}}),
        ),
        call(json!({"index": 0, "function": {"arguments": ":1}"}})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ];
    let whole = accumulator(ChatApi::OpenAiChat, &stream).body();
    assert_eq!(
        whole.pointer("/choices/0/message").unwrap(),
        &json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}},
            {"id": "b", "type": "function", "function": {"name": "smell", "arguments": "{}"}},
        ]})
    );
    // After a prefix of the first call, the rest of it and the whole second call remain.
    let mut all = accumulator(ChatApi::OpenAiChat, &stream[..2]);
    for piece in all.remaining(&whole, false).unwrap() {
        all.add(&piece);
    }
    assert_eq!(all.body()["choices"], whole["choices"]);
}

#[test]
fn missing_log_probabilities_come_with_the_remaining_text() {
    let token = |word: &str| json!({"token": word, "logprob": -1.0});
    let chunk = |word: &str, finish: Value| json!({"choices": [{"index": 0, "delta": {"content": word}, "logprobs": {"content": [token(word)]}, "finish_reason": finish}]});
    let stream = [chunk("a", Value::Null), chunk("b", json!("stop"))];
    let whole = accumulator(ChatApi::OpenAiChat, &stream).body();
    let mut all = accumulator(ChatApi::OpenAiChat, &stream[..1]);
    for piece in all.remaining(&whole, false).unwrap() {
        all.add(&piece);
    }
    assert_eq!(all.body()["choices"][0]["logprobs"], json!({"content": [token("a"), token("b")]}));
    let line = |word: &str, done: bool| json!({"model": "m", "created_at": "x", "message": {"role": "assistant", "content": word}, "logprobs": [token(word)], "done": done});
    let stream = [line("a", false), line("b", true)];
    let whole = accumulator(ChatApi::OllamaChat, &stream).body();
    let mut all = accumulator(ChatApi::OllamaChat, &stream[..1]);
    for piece in all.remaining(&whole, false).unwrap() {
        all.add(&piece);
    }
    assert_eq!(all.body(), whole);
}

#[test]
fn missing_events_complete_a_response_with_a_function_call() {
    let call = json!({"type": "function_call", "id": "f1", "call_id": "c1", "name": "look", "arguments": "{\"at\":1}", "status": "completed"});
    let mut whole = response(&words(&["Good ", "day"]));
    whole["output"].as_array_mut().unwrap().push(call);
    let missing = Accumulator::new(ChatApi::OpenAiResponses).remaining(&whole, false).unwrap();
    insta::assert_json_snapshot!(missing);
    let kinds = |sent: &[Value]| -> Vec<String> {
        let rest = accumulator(ChatApi::OpenAiResponses, sent).remaining(&whole, false).unwrap();
        rest.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    // Nothing is repeated, wherever the live stream ended.
    for end in 0..missing.len() {
        let all: Vec<String> =
            missing.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
        let rest = kinds(&missing[..end]);
        assert_eq!(rest.last().unwrap(), "response.completed");
        let opened =
            |kind: &&String| matches!(kind.rsplit_once('.'), Some((_, "added" | "created")));
        let again: Vec<&String> = rest.iter().filter(opened).collect();
        assert_eq!(again, all[end..].iter().filter(opened).collect::<Vec<_>>(), "after {end}");
    }
}

#[test]
fn choices_are_accumulated_separately() {
    let chunk = |index: u64, text: &str, finish: Value| json!({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]});
    let stream =
        [chunk(0, "a", Value::Null), chunk(1, "b", json!("stop")), chunk(0, "c", json!("length"))];
    let body = accumulator(ChatApi::OpenAiChat, &stream).body();
    assert_eq!(body["choices"][0]["message"]["content"], "ac");
    assert_eq!(body["choices"][1]["message"]["content"], "b");
    assert!(!accumulator(ChatApi::OpenAiChat, &stream[..2]).is_complete());
}

#[test]
fn usage_is_sent_only_on_request() {
    let body =
        accumulator(ChatApi::OpenAiChat, &pieces(ChatApi::OpenAiChat, &words(&["hi"]))).body();
    let has_usage = |asked| {
        let remaining = Accumulator::new(ChatApi::OpenAiChat).remaining(&body, asked).unwrap();
        remaining.iter().filter(|chunk| chunk.get("usage").is_some()).count()
    };
    assert_eq!((has_usage(false), has_usage(true)), (0, 1));
}

#[test]
fn diverged_prefix_is_detected() {
    for api in APIS {
        // Without the end, which is never sent before the job has completed.
        let said = pieces(api, &words(&["Good "]));
        let first = said.iter().position(|piece| piece.to_string().contains("Good")).unwrap();
        let sent = accumulator(api, &said[..=first]);
        let other = accumulator(api, &pieces(api, &words(&["Great day"]))).body();
        assert_eq!(sent.remaining(&other, false), Err(StreamDiverged), "{api:?}");
        let shorter = accumulator(api, &pieces(api, &words(&["Go"]))).body();
        assert_eq!(sent.remaining(&shorter, false), Err(StreamDiverged), "{api:?}");
    }
}

fn any_api() -> impl Strategy<Value = ChatApi> {
    proptest::sample::select(APIS.as_slice())
}

proptest! {
    #[test]
    fn sent_and_remaining_chunks_are_the_whole_response(api in any_api(), words in proptest::collection::vec("[a-zäß ]{0,5}", 0..8), cut in 0usize..9) {
        let stream = pieces(api, &words);
        let whole = accumulator(api, &stream).body();
        let (sent, _) = stream.split_at(cut.min(stream.len()));
        let mut all = accumulator(api, sent);
        for piece in all.remaining(&whole, true).unwrap() {
            all.add(&piece);
        }
        prop_assert!(all.is_complete());
        // Role and empty text may be present or not; the text is the same.
        let said = |body: &Value| match api {
            ChatApi::OllamaChat => body["message"]["content"].clone(),
            ChatApi::OllamaGenerate => body["response"].clone(),
            ChatApi::OpenAiChat => body["choices"][0]["message"]["content"].as_str().unwrap_or_default().into(),
            ChatApi::OpenAiResponses => body["output"][0]["content"][0]["text"].clone(),
            _ => body["choices"][0]["text"].clone(),
        };
        prop_assert_eq!(said(&all.body()), said(&whole));
        prop_assert_eq!(all.tokens(), (Some(3), Some(4)));
    }

    #[test]
    fn only_the_final_chunk_is_an_end(api in any_api(), words in proptest::collection::vec("[a-z]{1,5}", 0..5)) {
        let stream = pieces(api, &words);
        let accumulator = Accumulator::new(api);
        let ends: Vec<bool> = stream.iter().map(|piece| accumulator.is_end(piece)).collect();
        let last = ends.len() - 1;
        prop_assert!(ends.iter().enumerate().all(|(place, is_end)| *is_end == (place == last)));
    }
}
