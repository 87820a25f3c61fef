use super::*;
use crate::chat::accumulate::Accumulator;
use proptest::prelude::*;
use serde_json::json;

/// Translates the chunks of a target.
fn translate(target: ChatApi, caller: ChatApi, pieces: &[Value]) -> Vec<Value> {
    let mut translator = Translator::new(target, caller, "01X", 7);
    let mut told: Vec<StreamChunk> =
        pieces.iter().flat_map(|piece| translator.take(StreamChunk::new(piece.clone()))).collect();
    told.extend(translator.end());
    told.into_iter().map(|piece| piece.value).collect()
}

fn whole(api: ChatApi, pieces: &[Value]) -> Value {
    let mut accumulator = Accumulator::new(api);
    for piece in pieces {
        accumulator.add(piece);
    }
    assert!(accumulator.is_complete());
    accumulator.body()
}

fn line(content: &str) -> Value {
    json!({"model": "m", "created_at": "2026-11-16T08:00:00.5Z", "message": {"role": "assistant", "content": content}, "done": false})
}

fn last_line(reason: &str) -> Value {
    json!({"model": "m", "created_at": "2026-11-16T08:00:00.5Z", "message": {"role": "assistant", "content": ""},
           "done": true, "done_reason": reason, "prompt_eval_count": 5, "eval_count": 2})
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m",
           "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn usage() -> Value {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7});
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage})
}

#[test]
fn ollama_lines_become_openai_chunks() {
    let mut thought = line("");
    thought["message"]["thinking"] = "hm".into();
    let mut calls = line("");
    calls["message"]["tool_calls"] =
        json!([{"function": {"name": "look", "arguments": {"at": 1}}}]);
    let stream = [thought, line("Hi"), calls, last_line("stop")];
    insta::assert_json_snapshot!(translate(ChatApi::OllamaChat, ChatApi::OpenAiChat, &stream));
}

#[test]
fn openai_chunks_become_ollama_lines() {
    let call = |bits: Value| chunk(&json!({"tool_calls": [bits]}), None);
    let stream = [
        chunk(&json!({"role": "assistant", "content": ""}), None),
        chunk(&json!({"reasoning_content": "hm"}), None),
        chunk(&json!({"content": "Hi"}), None),
        call(
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"at\""}}),
        ),
        call(json!({"index": 0, "function": {"arguments": ":1}"}})),
        chunk(&json!({}), Some("tool_calls")),
        usage(),
    ];
    insta::assert_json_snapshot!(translate(ChatApi::OpenAiChat, ChatApi::OllamaChat, &stream));
}

#[test]
fn generate_has_its_text_in_the_line_itself() {
    let stream =
        [chunk(&json!({"content": "Hi"}), None), chunk(&json!({}), Some("length")), usage()];
    let whole = whole(
        ChatApi::OllamaGenerate,
        &translate(ChatApi::OpenAiChat, ChatApi::OllamaGenerate, &stream),
    );
    assert_eq!(
        whole,
        json!({"model": "m", "created_at": "1970-01-01T00:00:01.000Z", "response": "Hi", "done": true,
               "done_reason": "length", "prompt_eval_count": 5, "eval_count": 2})
    );
}

#[test]
fn answer_without_an_end_gets_none() {
    let lines = translate(
        ChatApi::OpenAiChat,
        ChatApi::OllamaChat,
        &[chunk(&json!({"content": "Hi"}), None)],
    );
    assert!(lines.iter().all(|line| line["done"] == false));
}

proptest! {
    #[test]
    fn no_word_is_lost_either_way(words in proptest::collection::vec("[a-zäß ]{0,5}", 0..8)) {
        let text = words.concat();
        let lines: Vec<Value> = words.iter().map(|word| line(word)).chain([last_line("stop")]).collect();
        let chunks = translate(ChatApi::OllamaChat, ChatApi::OpenAiChat, &lines);
        let body = whole(ChatApi::OpenAiChat, &chunks);
        prop_assert_eq!(body["choices"][0]["message"]["content"].as_str().unwrap_or_default(), &text);
        prop_assert_eq!(&body["usage"]["total_tokens"], 7);
        let back = whole(ChatApi::OllamaChat, &translate(ChatApi::OpenAiChat, ChatApi::OllamaChat, &chunks));
        prop_assert_eq!(&back["message"]["content"], &text);
        prop_assert_eq!(&back["eval_count"], 2);
    }
}
