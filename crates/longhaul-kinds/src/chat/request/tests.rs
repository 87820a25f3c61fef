use super::*;
use proptest::prelude::*;
use serde_json::json;

fn sent(api: ChatApi, body: &Value, target: TargetApi) -> TargetRequest {
    try_sent(api, body, target).unwrap()
}

fn try_sent(
    api: ChatApi,
    body: &Value,
    target: TargetApi,
) -> Result<TargetRequest, TranslateError> {
    let body = serde_json::from_str(&body.to_string()).unwrap();
    TargetRequest::build(&ChatCall::new(api, body), target)
}

fn translated(api: ChatApi, body: &Value, target: TargetApi) -> Value {
    serde_json::from_str(&sent(api, body, target).body).unwrap()
}

const PNG: &str = "iVBORw0KGgo=";

#[test]
fn request_in_the_same_api_is_verbatim_except_for_streaming() {
    let text = r#"{"model":"m","messages":[],"options":{"mirostat":1,"x":1.50},"stream":false,"keep_alive":-1}"#;
    let call = ChatCall::new(ChatApi::OllamaChat, serde_json::from_str(text).unwrap());
    let outgoing = TargetRequest::build(&call, TargetApi::Ollama).unwrap();
    assert_eq!(outgoing.body, text.replace("false", "true"));
    assert_eq!((outgoing.path, outgoing.api), ("/api/chat", ChatApi::OllamaChat));

    let text = r#"{"model":"m","messages":[],"logit_bias":{"5":-1.0}}"#;
    let call = ChatCall::new(ChatApi::OpenAiChat, serde_json::from_str(text).unwrap());
    let outgoing = TargetRequest::build(&call, TargetApi::OpenAi).unwrap();
    let tail = r#","stream":true,"stream_options":{"include_usage":true}}"#;
    assert_eq!(outgoing.body, text.replace("}}", &format!("}}{tail}")));
    assert_eq!((outgoing.path, outgoing.api), ("/chat/completions", ChatApi::OpenAiChat));
}

#[test]
fn ollama_chat_is_translated_to_openai() {
    let body = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "what is this", "images": [PNG, "/9j/4AAQ"]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "look", "arguments": {"at": 1}}},
                {"function": {"name": "smell", "arguments": {}}},
            ]},
            {"role": "tool", "tool_name": "smell", "content": "roses"},
            {"role": "tool", "content": "red"},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        "format": "json",
        "think": "high",
        "keep_alive": "5m",
        "options": {"temperature": 0.5, "top_p": 0.9, "num_predict": 7, "num_ctx": 4096, "stop": ["a"], "seed": 3},
    });
    insta::assert_json_snapshot!(translated(ChatApi::OllamaChat, &body, TargetApi::OpenAi));
}

#[test]
fn ollamas_generate_keeps_system_and_prompt() {
    let schema = json!({"type": "object"});
    let body = json!({"model": "m", "system": "be brief", "prompt": "hi", "images": [PNG],
                      "format": schema, "options": {"num_predict": -1}, "think": false});
    assert_eq!(
        translated(ChatApi::OllamaGenerate, &body, TargetApi::OpenAi),
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
                ]},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
            "reasoning_effort": "none",
        })
    );
}

#[test]
fn openai_chat_is_translated_to_ollama() {
    let url = format!("data:image/png;base64,{PNG}");
    let body = json!({
        "model": "m",
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [
                {"type": "text", "text": "what is "}, {"type": "text", "text": "this"},
                {"type": "image_url", "image_url": {"url": url}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "red"},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        "reasoning_effort": "low",
        "temperature": 0.5, "top_p": 0.9, "max_tokens": 5, "max_completion_tokens": 7, "stop": "a", "seed": 3,
        "user": "u1", "n": 1,
    });
    insta::assert_json_snapshot!(translated(ChatApi::OpenAiChat, &body, TargetApi::Ollama));
}

#[test]
fn forbidden_tools_are_not_sent() {
    let body = json!({"model": "m", "messages": [], "tools": [{}], "tool_choice": "none"});
    assert!(translated(ChatApi::OpenAiChat, &body, TargetApi::Ollama).get("tools").is_none());
}

#[test]
fn untranslatable_requests_are_rejected() {
    let user =
        |content: Value| json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    let picture = json!([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]);
    let refused = [
        json!({"model": "m", "messages": [], "n": 2}),
        user(picture),
        user(json!([{"type": "input_audio", "input_audio": {}}])),
        user(json!(7)),
    ];
    for body in refused {
        assert!(try_sent(ChatApi::OpenAiChat, &body, TargetApi::Ollama).is_err(), "{body}");
        assert!(try_sent(ChatApi::OpenAiChat, &body, TargetApi::OpenAi).is_ok(), "{body}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just("role"),
        Just("content"),
        Just("tool_calls"),
        Just("function"),
        Just("arguments"),
        Just("images"),
        Just("type"),
        Just("image_url"),
        Just("url"),
        Just("name"),
        Just("id"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z:;,/]{0,6}".prop_map(Value::from),
        Just(json!("tool")),
        Just(json!("image_url")),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((words.clone(), inner), 0..5)
                .prop_map(|pairs| pairs.into_iter().collect::<Value>()),
        ]
    })
}

/// Message that is equal in both APIs.
fn plain_message() -> impl Strategy<Value = Value> {
    let role = prop_oneof![Just("system"), Just("user"), Just("assistant")];
    (role, "[ -~äöü]{0,12}").prop_map(|(role, content)| json!({"role": role, "content": content}))
}

proptest! {
    #[test]
    fn any_request_is_translated_or_rejected(messages in any_json(), options in any_json()) {
        for api in [ChatApi::OllamaChat, ChatApi::OllamaGenerate, ChatApi::OpenAiChat] {
            for target in [TargetApi::Ollama, TargetApi::OpenAi] {
                let body = json!({"model": "m", "messages": messages, "prompt": options, "options": options,
                                  "stop": options, "format": options, "response_format": options});
                drop(try_sent(api, &body, target));
            }
        }
    }

    #[test]
    fn plain_messages_round_trip_between_apis(messages in proptest::collection::vec(plain_message(), 0..6), seed: u32, max in 0u32..9999) {
        let ours = json!({"model": "m", "messages": messages, "stream": true,
                          "options": {"seed": seed, "num_predict": max}});
        let theirs = translated(ChatApi::OllamaChat, &ours, TargetApi::OpenAi);
        prop_assert_eq!(&theirs["messages"], &ours["messages"]);
        prop_assert_eq!(translated(ChatApi::OpenAiChat, &theirs, TargetApi::Ollama), ours);
    }
}

#[test]
fn completions_embeddings_and_log_probabilities_are_translated() {
    let (ollama, openai) = (TargetApi::Ollama, TargetApi::OpenAi);
    let body = json!({"model": "m", "prompt": ["Once"], "suffix": ".", "max_tokens": 5, "logprobs": 2, "echo": false});
    let request = sent(ChatApi::OpenAiCompletions, &body, ollama);
    assert_eq!((request.path, request.api), ("/api/generate", ChatApi::OllamaGenerate));
    assert_eq!(
        translated(ChatApi::OpenAiCompletions, &body, ollama),
        json!({"model": "m", "prompt": "Once", "suffix": ".", "stream": true, "logprobs": true, "top_logprobs": 2,
               "options": {"num_predict": 5}})
    );
    let body =
        json!({"model": "m", "input": ["a", "b"], "dimensions": 2, "encoding_format": "base64"});
    let request = sent(ChatApi::OpenAiEmbeddings, &body, ollama);
    assert_eq!((request.path, request.api), ("/api/embed", ChatApi::OllamaEmbed));
    assert_eq!(
        translated(ChatApi::OpenAiEmbeddings, &body, ollama),
        json!({"model": "m", "input": ["a", "b"], "dimensions": 2})
    );
    let request = sent(ChatApi::OllamaEmbed, &body, openai);
    assert_eq!((request.path, request.api), ("/embeddings", ChatApi::OpenAiEmbeddings));
    assert_eq!(
        translated(ChatApi::OllamaEmbeddings, &json!({"model": "m", "prompt": "a"}), openai),
        json!({"model": "m", "input": "a"})
    );
    let body = json!({"model": "m", "messages": [], "logprobs": true, "top_logprobs": 3});
    for (caller, target) in [(ChatApi::OllamaChat, openai), (ChatApi::OpenAiChat, ollama)] {
        let translated = translated(caller, &body, target);
        assert_eq!(
            (&translated["logprobs"], &translated["top_logprobs"]),
            (&true.into(), &3.into())
        );
    }
}

#[test]
fn unstreamed_apis_and_responses_are_forwarded_verbatim() {
    let body = json!({"model": "m", "input": "a"});
    assert_eq!(translated(ChatApi::OllamaEmbed, &body, TargetApi::Ollama), body);
    assert_eq!(translated(ChatApi::OpenAiEmbeddings, &body, TargetApi::OpenAi), body);
    for (target, path) in [(TargetApi::Ollama, "/v1/responses"), (TargetApi::OpenAi, "/responses")]
    {
        let request = sent(ChatApi::OpenAiResponses, &body, target);
        assert_eq!((request.path, request.api), (path, ChatApi::OpenAiResponses));
        assert_eq!(request.body, r#"{"model":"m","input":"a","stream":true}"#);
    }
}

#[test]
fn requests_without_a_counterpart_are_rejected() {
    let rejected = |api, body: Value| try_sent(api, &body, TargetApi::Ollama).unwrap_err();
    let completions = ChatApi::OpenAiCompletions;
    for body in [
        json!({"model": "m", "prompt": ["a", "b"]}),
        json!({"model": "m", "prompt": [1, 2]}),
        json!({"model": "m", "prompt": "a", "n": 2}),
        json!({"model": "m", "prompt": "a", "best_of": 2}),
        json!({"model": "m", "prompt": "a", "echo": true}),
    ] {
        rejected(completions, body);
    }
    rejected(ChatApi::OpenAiEmbeddings, json!({"model": "m", "input": [[1, 2]]}));
}
