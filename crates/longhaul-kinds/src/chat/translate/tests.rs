use super::*;
use crate::chat::accumulate::Accumulator;
use crate::chat::json_object::JsonObject;
use proptest::prelude::*;
use serde_json::json;

/// Translates the chunks of a target.
fn translate(target: ChatApi, caller: ChatApi, pieces: &[Value]) -> Vec<Value> {
    translate_for(target, &ChatCall::new(caller, JsonObject::default()), pieces)
}

fn translate_for(target: ChatApi, call: &ChatCall, pieces: &[Value]) -> Vec<Value> {
    let mut translator = Translator::new(target, call, "01X", 7);
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

/// Log probabilities of one token, in Ollama's format.
fn tokens() -> Value {
    json!([{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": [{"token": "Hi", "logprob": -0.5}, {"token": "Ho", "logprob": -2.0}]}])
}

#[test]
fn log_probabilities_are_translated_both_ways() {
    let mut said = line("Hi");
    said["logprobs"] = tokens();
    let chunks = translate(
        ChatApi::OllamaChat,
        ChatApi::OpenAiChat,
        &[said.clone(), line("!"), last_line("stop")],
    );
    assert_eq!(
        chunks[0]["choices"][0]["logprobs"],
        json!({"content": [{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": [
            {"token": "Hi", "logprob": -0.5, "bytes": null}, {"token": "Ho", "logprob": -2.0, "bytes": null},
        ]}], "refusal": null})
    );
    let lines = translate(ChatApi::OpenAiChat, ChatApi::OllamaChat, &chunks);
    assert_eq!(lines[0]["logprobs"], said["logprobs"]);
    assert_eq!(lines[1].get("logprobs"), None);
    assert_eq!(whole(ChatApi::OllamaChat, &lines)["logprobs"], said["logprobs"]);
}

#[test]
fn generated_lines_become_completions() {
    let said = |word: &str| {
        let token = json!([{"token": word, "logprob": -0.5, "top_logprobs": [{"token": "X", "logprob": -1.0}]}]);
        json!({"model": "m", "created_at": "2026-11-16T08:00:00.5Z", "response": word, "done": false, "logprobs": token})
    };
    let mut last = last_line("length");
    last["response"] = "".into();
    let stream = [said("Grüß "), said("Gott"), last];
    let chunks = translate(ChatApi::OllamaGenerate, ChatApi::OpenAiCompletions, &stream);
    assert!(chunks.iter().all(|chunk| chunk["object"] == "text_completion"));
    assert_eq!(
        whole(ChatApi::OpenAiCompletions, &chunks),
        json!({"id": "cmpl-01X", "object": "text_completion", "created": 1_794_816_000, "model": "m",
               "choices": [{"index": 0, "text": "Grüß Gott", "finish_reason": "length", "logprobs": {
                    "tokens": ["Grüß ", "Gott"], "token_logprobs": [-0.5, -0.5],
                    "top_logprobs": [{"X": -1.0}, {"X": -1.0}], "text_offset": [0, 5]}}],
               "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}})
    );
}

#[test]
fn embeddings_are_translated_both_ways() {
    let ollama =
        json!({"model": "m", "embeddings": [[0.5, -1.0], [2.0, 0.25]], "prompt_eval_count": 3});
    let openai =
        translate(ChatApi::OllamaEmbed, ChatApi::OpenAiEmbeddings, std::slice::from_ref(&ollama));
    assert_eq!(
        openai,
        [
            json!({"object": "list", "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3}, "data": [
                {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]},
                {"object": "embedding", "index": 1, "embedding": [2.0, 0.25]},
            ]})
        ]
    );
    let back = translate(ChatApi::OpenAiEmbeddings, ChatApi::OllamaEmbed, &openai);
    assert_eq!(back, std::slice::from_ref(&ollama));
    let single = translate(ChatApi::OpenAiEmbeddings, ChatApi::OllamaEmbeddings, &openai);
    assert_eq!(single, [json!({"embedding": [0.5, -1.0]})]);
    let body = serde_json::from_str(r#"{"encoding_format":"base64"}"#).unwrap();
    let call = ChatCall::new(ChatApi::OpenAiEmbeddings, body);
    let encoded = translate_for(ChatApi::OllamaEmbed, &call, &[ollama]);
    // 0.5 is 0x3f000000 and -1 is 0xbf800000, least significant byte first.
    assert_eq!(encoded[0]["data"][0]["embedding"], "AAAAPwAAgL8=");
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
