//! Chat calls that wait for the complete response.

use serde_json::{Value, json};

use super::chat_server::{
    APIS, BODY_BYTES_MAX, ChatOptions, ChatServer, OnDisconnect, chat, chat_streaming,
};
use crate::harness::{
    Backend, Behaviour, FakeChatServer, MODEL, TestResponse, on_both_backends, reply_to,
};
use longhaul_kinds::chat::TargetApi;

async fn target(api: TargetApi) -> FakeChatServer {
    match api {
        TargetApi::Ollama => FakeChatServer::ollama().await,
        TargetApi::OpenAi => FakeChatServer::openai().await,
    }
}

async fn every_chat_api_works_with_every_target(backend: Backend) {
    for api in APIS {
        let target = target(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        let chatted = server.post("/api/chat").json(chat_streaming("hi", false)).send().await;
        assert_eq!(chatted.status, 200, "{chatted:?}");
        let body = chatted.json();
        assert_eq!(body["message"], json!({"role": "assistant", "content": reply_to("hi")}));
        assert_eq!((&body["done"], &body["done_reason"]), (&json!(true), &json!("stop")));
        assert_eq!((&body["prompt_eval_count"], &body["eval_count"]), (&json!(11), &json!(7)));

        let body = json!({"model": MODEL, "system": "be brief", "prompt": "hi", "stream": false});
        let generated = server.post("/api/generate").json(&body).send().await.json();
        assert_eq!(generated["response"], reply_to("hi"));
        assert_eq!(generated["eval_count"], 7);

        let completed = server.post("/v1/chat/completions").json(chat("hi")).send().await.json();
        assert_eq!(completed["object"], "chat.completion");
        assert_eq!(completed["model"], MODEL);
        assert_eq!(completed["choices"][0]["message"]["content"], reply_to("hi"));
        assert_eq!(completed["choices"][0]["finish_reason"], "stop");
        assert_eq!(completed["usage"]["total_tokens"], 18);

        // Each call is an ordinary job with its token counts in the result.
        let job = server.get(&format!("/v1/jobs/{}", chatted.job_id())).send().await.json();
        assert_eq!(
            (&job["kind"], &job["queue"], &job["status"]),
            (&json!("chat"), &json!("chat"), &json!("completed"))
        );
        assert_eq!(job["labels"]["model"], MODEL);
        assert_eq!(job["result"]["promptTokens"], 11);
        assert_eq!(job["result"]["completionTokens"], 7);
        assert_eq!(job["result"]["target"], "t0");
        let usage = server.get("/v1/usage").send().await.json();
        let tokens = (&usage["total"]["promptTokens"], &usage["total"]["completionTokens"]);
        assert_eq!(tokens, (&json!(33), &json!(21)), "three chats");
        let asked = target.received();
        assert!(asked.iter().all(|call| call.bearer.as_deref() == Some("Bearer sk-target")));
        let generate = &asked[1].body;
        assert!(generate.to_string().contains("be brief"), "{generate}");
    }
}

async fn completions_and_embeddings_work_with_every_target(backend: Backend) {
    for api in APIS {
        let target = target(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        let ask = async |path: &str, body: Value| {
            let response = server.post(path).json(&body).send().await;
            assert_eq!(response.status, 200, "{path} {api:?}: {response:?}");
            response.json()
        };
        let body = json!({"model": MODEL, "prompt": "hi", "logprobs": 1});
        let completed = ask("/v1/completions", body).await;
        assert_eq!(completed["object"], "text_completion");
        let choice = &completed["choices"][0];
        assert_eq!(
            (&choice["text"], &choice["finish_reason"]),
            (&json!(reply_to("hi")), &json!("stop"))
        );
        assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().concat_text(), reply_to("hi"));
        assert_eq!(completed["usage"]["total_tokens"], 18);

        let vectors = json!([[2.25, 0.5], [5.25, 0.5]]);
        let input = json!({"model": MODEL, "input": ["hi", "there"]});
        let embedded = ask("/api/embed", input.clone()).await;
        assert_eq!(
            (&embedded["embeddings"], &embedded["prompt_eval_count"]),
            (&vectors, &json!(3))
        );
        let single = ask("/api/embeddings", json!({"model": MODEL, "prompt": "hi"})).await;
        assert_eq!(single, json!({"embedding": vectors[0]}));
        let listed = ask("/v1/embeddings", input.clone()).await;
        assert_eq!(
            (&listed["object"], &listed["usage"]["total_tokens"]),
            (&json!("list"), &json!(3))
        );
        assert_eq!(
            listed["data"][1],
            json!({"object": "embedding", "index": 1, "embedding": vectors[1]})
        );
        let mut encoded = input;
        encoded["encoding_format"] = json!("base64");
        let encoded = ask("/v1/embeddings", encoded).await;
        // 2.25 is 0x40100000 and 0.5 is 0x3f000000, least significant byte first.
        assert_eq!(encoded["data"][0]["embedding"], "AAAQQAAAAD8=");
        let missing = server.post("/v1/embeddings").json(json!({"model": MODEL})).send().await;
        assert_eq!(
            (missing.status.as_u16(), &missing.json()["error"]["message"]),
            (400, &json!("input is required"))
        );
    }
}

async fn log_probabilities_are_returned_in_the_callers_api(backend: Backend) {
    for api in APIS {
        let target = target(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        let mut body = chat_streaming("hi", false);
        (body["logprobs"], body["top_logprobs"]) = (json!(true), json!(1));
        let chatted = server.post("/api/chat").json(&body).send().await.json();
        let tokens = chatted["logprobs"].as_array().unwrap();
        assert_eq!(tokens.concat_text(), reply_to("hi"), "{api:?}");
        let completed = server.post("/v1/chat/completions").json(&body).send().await.json();
        let tokens = completed["choices"][0]["logprobs"]["content"].as_array().unwrap();
        assert_eq!(tokens.concat_text(), reply_to("hi"), "{api:?}");
        assert_eq!(tokens[0]["top_logprobs"][0]["logprob"], -0.5);
    }
}

/// Tokens, as texts or as objects.
trait ConcatText {
    fn concat_text(&self) -> String;
}

impl ConcatText for [Value] {
    fn concat_text(&self) -> String {
        let text = |token: &Value| token.get("token").unwrap_or(token).as_str().unwrap().to_owned();
        self.iter().map(text).collect()
    }
}

async fn responses_go_to_targets_that_have_the_api(backend: Backend) {
    for api in APIS {
        let target = target(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        let body = json!({"model": MODEL, "input": "hi", "store": false});
        let response = server.post("/v1/responses").json(&body).send().await;
        assert_eq!(response.status, 200, "{response:?}");
        let whole = response.json();
        assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("completed")));
        assert_eq!(whole["output"][0]["content"][0]["text"], reply_to("hi"));
        let job = server.get_json(&format!("/v1/jobs/{}", response.job_id())).await;
        let tokens = (&job["result"]["promptTokens"], &job["result"]["completionTokens"]);
        assert_eq!(tokens, (&json!(11), &json!(7)));
        let received = target.received();
        assert_eq!(
            (received[0].path.as_str(), &received[0].body["store"]),
            ("/v1/responses", &json!(false))
        );

        target.behave([refused(404, "404 page not found")]);
        let missing = server.post("/v1/responses").json(&body).send().await;
        let error = &missing.json()["error"];
        assert_eq!((missing.status.as_u16(), &error["type"]), (404, &json!("not_found_error")));
        assert_eq!(error["message"], "the target t0 does not have this API");
        let mut background = body;
        background["background"] = json!(true);
        assert_eq!(server.post("/v1/responses").json(&background).send().await.status, 400);
    }
}

async fn chat_with_large_images_is_accepted(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let with_image = |bytes: usize| {
        let mut body = chat_streaming("hi", false);
        body["messages"][0]["images"] = json!(["A".repeat(bytes)]);
        body
    };
    // More than other inputs may have.
    let image_bytes = 3 << 20;
    let chatted = server.post("/api/chat").json(with_image(image_bytes)).send().await;
    assert_eq!(chatted.json()["message"]["content"], reply_to("hi"));
    let image = &target.received()[0].body["messages"][0]["images"][0];
    assert_eq!(image.as_str().unwrap().len(), image_bytes);
    let too_large = server.post("/api/chat").json(with_image(BODY_BYTES_MAX)).send().await;
    assert_eq!(too_large.status, 413);
    assert!(too_large.json()["error"].as_str().unwrap().contains("33554432 bytes"));
    // The general API has its own limit.
    let job = json!({"kind": "chat", "input": {"api": "ollama-chat", "body": with_image(2 << 20)}});
    assert_eq!(server.post("/v1/jobs").json(job).send().await.status, 413);
}

async fn repeated_chat_job_returns_the_existing_job(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let submit = async |said: &str| {
        server.post("/jobs").json(chat(said)).header("idempotency-key", "k1").send().await
    };
    let first = submit("hi").await.json();
    server.finished(first["job_id"].as_str().unwrap()).await;
    assert_eq!(submit("hi").await.json(), first);
    assert_eq!(target.received().len(), 1);
    assert_eq!(submit("something else").await.status, 422);
}

async fn chat_in_the_targets_own_api_is_forwarded_unchanged(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let mut body = chat_streaming("hi", false);
    body["keep_alive"] = json!("5m");
    body["options"] = json!({"mirostat": 2, "num_ctx": 4096});
    server.post("/api/chat").json(&body).send().await;
    let mut expected = body.clone();
    expected["stream"] = json!(true);
    assert_eq!(target.received()[0].body, expected);
    assert_eq!(target.received()[0].path, "/api/chat");
}

async fn chat_tool_calls_are_translated_between_apis(backend: Backend) {
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
    for api in APIS {
        let target = target(api).await;
        let server = ChatServer::start(backend, &[&target]).await;
        let mut body = chat_streaming("use it", false);
        body["tools"] = tools.clone();
        let chatted = server.post("/api/chat").json(&body).send().await.json();
        let call = &chatted["message"]["tool_calls"][0]["function"];
        assert_eq!(*call, json!({"name": "weather", "arguments": {"city": "Zürich"}}));
        let completed = server.post("/v1/chat/completions").json(&body).send().await.json();
        let choice = &completed["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls");
        let call = &choice["message"]["tool_calls"][0];
        assert_eq!(call["function"]["name"], "weather");
        let arguments: Value =
            serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({"city": "Zürich"}));
        assert!(!call["id"].as_str().unwrap().is_empty());
    }
}

async fn chat_target_without_streaming_is_supported(backend: Backend) {
    let target = FakeChatServer::openai().await;
    let server = ChatServer::start(backend, &[&target]).await;
    target.behave([Behaviour::Whole, Behaviour::Whole]);
    let completed = server.post("/v1/chat/completions").json(chat("hi")).send().await.json();
    assert_eq!(completed["choices"][0]["message"]["content"], reply_to("hi"));
    let chatted = server.post("/api/chat").json(chat_streaming("hi", false)).send().await.json();
    assert_eq!(chatted["message"]["content"], reply_to("hi"));
    assert_eq!(chatted["eval_count"], 7);
}

fn refused(status: u16, body: &str) -> Behaviour {
    Behaviour::Refuses(status, Vec::new(), body.to_owned())
}

/// Returns status and message of an error, which are the same in the APIs of Ollama and `OpenAI`.
async fn both_refusals(server: &ChatServer, body: &Value) -> (u16, String) {
    let ollama = server.post("/api/chat").json(body).send().await;
    let openai = server.post("/v1/chat/completions").json(body).send().await;
    let message = ollama.json()["error"].as_str().unwrap().to_owned();
    let error = openai.json()["error"].clone();
    assert_eq!((ollama.status, &json!(message)), (openai.status, &error["message"]));
    for key in ["type", "param", "code"] {
        assert!(error.as_object().unwrap().contains_key(key), "{error}");
    }
    (ollama.status.as_u16(), message)
}

async fn chat_target_error_is_returned_without_retry(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let body = chat_streaming("hi", false);
    let twice = |mood: Behaviour| [mood.clone(), mood];
    target.behave(twice(refused(400, r#"{"error":"too many birds"}"#)));
    assert_eq!(both_refusals(&server, &body).await, (400, "too many birds".to_owned()));
    // An error of the operator's key is not the caller's fault.
    target.behave(twice(refused(401, r#"{"error":"who are you"}"#)));
    assert_eq!(both_refusals(&server, &body).await, (502, "who are you".to_owned()));
    let mut unknown = body.clone();
    unknown["model"] = json!("owl");
    let (status, message) = both_refusals(&server, &unknown).await;
    assert_eq!((status, message.as_str()), (404, "model \"owl\" not found"));
    assert_eq!(target.received().len(), 4, "each was asked once");
    let response = server.post("/v1/chat/completions").json(&unknown).send().await;
    assert_eq!(response.header("x-should-retry"), Some("false"));
    let job = server.get(&format!("/v1/jobs/{}", response.job_id())).send().await.json();
    assert_eq!((&job["status"], &job["attempt"]), (&json!("failed"), &json!(1)));
}

async fn invalid_chat_request_creates_no_job(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    for body in [json!({}), json!({"model": MODEL, "messages": "hi"}), json!({"messages": []})] {
        assert_eq!(both_refusals(&server, &body).await.0, 400, "{body}");
    }
    let typed = server.get("/api/chat").send().await;
    assert_eq!(typed.status, 405);
    assert_eq!(server.get("/v1/jobs").send().await.json()["jobs"], json!([]));
    assert!(target.received().is_empty());
}

async fn repeated_chat_call_returns_the_existing_response(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let ask = |body: &Value| server.post("/api/chat").json(body).header("idempotency-key", "k1");
    let first = ask(&chat_streaming("hi", false)).send().await;
    let second = ask(&chat_streaming("hi", false)).send().await;
    assert_eq!((first.job_id(), &first.body), (second.job_id(), &second.body));
    assert_eq!(target.received().len(), 1);
    let other = ask(&chat_streaming("ho", false)).send().await;
    assert_eq!(other.status, 422);
    assert!(other.json()["error"].is_string());
}

async fn disconnected_chat_caller_leaves_its_job_running(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = ChatServer::start(backend, &[&target]).await;
    let body = chat_streaming("hi", false);
    let mut call =
        Box::pin(server.post("/api/chat").json(&body).header("idempotency-key", "k1").send());
    tokio::select! {
        _ = &mut call => panic!("it is held"),
        _ = target.calls(1) => {}
    }
    drop(call);
    target.allow_words(100);
    let response =
        server.post("/api/chat").json(&body).header("idempotency-key", "k1").send().await;
    assert_eq!(response.json()["message"]["content"], reply_to("hi"));
    assert_eq!(target.received().len(), 1);
}

/// `[chat] on_disconnect = "finish"`
async fn disconnected_chat_can_be_set_to_finish(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let options = ChatOptions { on_disconnect: OnDisconnect::Finish, ..ChatOptions::default() };
    let server = ChatServer::start_with(backend, &[&target], options).await;
    let mut call = Box::pin(server.post("/api/chat").json(chat_streaming("hi", false)).send());
    tokio::select! {
        _ = &mut call => panic!("it is held"),
        _ = target.calls(1) => {}
    }
    drop(call);
    target.allow_words(100);
    let id = server.get_json("/v1/jobs").await["jobs"][0]["jobId"].as_str().unwrap().to_owned();
    let job = server.finished(&id).await;
    assert_eq!(job["result"]["body"]["message"]["content"], reply_to("hi"));
}

async fn stopping_server_returns_the_chat_job_id(backend: Backend) {
    let target = FakeChatServer::held(TargetApi::Ollama).await;
    let server = ChatServer::start(backend, &[&target]).await;
    let body = chat_streaming("hi", false);
    let call = server.post("/api/chat").json(&body).send();
    let stop = async {
        target.calls(1).await;
        server.state.stop.cancel();
    };
    let (response, ()) = tokio::join!(call, stop);
    assert_eq!(response.status, 503);
    assert!(response.json()["error"].as_str().unwrap().contains("; job 0"), "{response:?}");
    assert_eq!(response.header("x-should-retry"), Some("false"), "it would be another job");
}

/// Clients of `OpenAI` have to send some key.
async fn chat_ignores_foreign_keys_if_keys_are_not_required(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let server = ChatServer::start(backend, &[&target]).await;
    let ask = |key: &str| server.post("/v1/chat/completions").json(chat("hi")).key(key);
    assert_eq!(ask("sk-whatever").send().await.status, 200);
    assert_eq!(ask("ollama").send().await.status, 200);
    let ours = "lh_0123456789abcdef_000000000000000000000000000000000000000000000000_00000000";
    assert_eq!(ask(ours).send().await.status, 200);
}

async fn chat_requires_a_key_if_keys_are_required(backend: Backend) {
    let target = FakeChatServer::ollama().await;
    let wish = ChatOptions { require_keys: true, ..ChatOptions::default() };
    let server = ChatServer::start_with(backend, &[&target], wish).await;
    let admin = server.state.auth.create_first_key().await.unwrap().unwrap().text.to_string();
    let ask = |key: &str| server.post("/v1/chat/completions").json(chat("hi")).key(key);
    let foreign: TestResponse = ask("sk-whatever").send().await;
    assert_eq!(foreign.status, 401);
    assert_eq!(foreign.json()["error"]["type"], "authentication_error");
    assert_eq!(server.post("/api/chat").json(chat("hi")).send().await.status, 401);
    assert_eq!(ask(&admin).send().await.status, 200);

    // Chats of one tenant are invisible to another.
    let mut keys = Vec::new();
    for tenant in ["blue", "red"] {
        server.post("/v1/tenants").json(json!({"id": tenant})).key(&admin).send().await;
        let wish = json!({"tenant": tenant, "name": tenant, "scopes": ["submit", "read"]});
        let made = server.post("/v1/keys").json(&wish).key(&admin).send().await.json();
        keys.push(made["key"].as_str().unwrap().to_owned());
    }
    let body = chat_streaming("a secret of blue", false);
    let blue = server.post("/api/chat").json(&body).key(&keys[0]).send().await;
    let mine = server.get(&format!("/jobs/{}", blue.job_id())).key(&keys[0]).send().await;
    assert_eq!(mine.json()["state"], "done");
    let theirs = server.get(&format!("/jobs/{}", blue.job_id())).key(&keys[1]).send().await;
    let unknown = server.get("/jobs/01KA3V8J5T0000000000000000").key(&keys[1]).send().await;
    assert_eq!((theirs.status.as_u16(), &theirs.body), (404, &unknown.body));
    assert_eq!(unknown.json(), json!({"error": "Job not found"}));
    let artifact =
        server.get(&format!("/jobs/{}/artifacts/x", blue.job_id())).key(&keys[1]).send().await;
    assert_eq!((artifact.status.as_u16(), &artifact.body), (404, &unknown.body));
}

/// Text, list items and unknown fields all count.
async fn endless_chat_fails_at_the_limit_of_a_result(backend: Backend) {
    let text = |_| json!({"message": {"content": "x".repeat(64 << 10)}});
    let calls = |_| json!({"message": {"tool_calls": vec![json!({"a": "x".repeat(512)}); 99]}});
    let fields = |number| json!({format!("field-{number}"): "x".repeat(64 << 10)});
    for endless in [text as fn(usize) -> Value, calls, fields] {
        let target = FakeChatServer::ollama().await;
        let server = ChatServer::start(backend, &[&target]).await;
        target.behave([Behaviour::Endless(endless)]);
        let response = server.post("/api/chat").json(chat_streaming("hi", false)).send().await;
        assert_eq!(response.status, 502);
        let job = server.get_json(&format!("/v1/jobs/{}", response.job_id())).await;
        assert_eq!(job["error"]["code"], "answer-too-long", "{job}");
        assert_eq!(job["attempt"], 1);
    }
}

on_both_backends! {
    endless_chat_fails_at_the_limit_of_a_result,
    completions_and_embeddings_work_with_every_target,
    log_probabilities_are_returned_in_the_callers_api,
    responses_go_to_targets_that_have_the_api,
    chat_with_large_images_is_accepted,
    every_chat_api_works_with_every_target,
    repeated_chat_job_returns_the_existing_job,
    chat_in_the_targets_own_api_is_forwarded_unchanged,
    chat_tool_calls_are_translated_between_apis,
    chat_target_without_streaming_is_supported,
    chat_target_error_is_returned_without_retry,
    invalid_chat_request_creates_no_job,
    repeated_chat_call_returns_the_existing_response,
    disconnected_chat_caller_leaves_its_job_running,
    disconnected_chat_can_be_set_to_finish,
    stopping_server_returns_the_chat_job_id,
    chat_ignores_foreign_keys_if_keys_are_not_required,
    chat_requires_a_key_if_keys_are_required,
}
