//! Calls whose callers wait for the whole answer.

use serde_json::{Value, json};

use super::desk::{APIS, Answer, Desk, Ground, Wish, chat, chat_streaming, on_both_grounds};
use super::target::{FakeTarget, MODEL, Mood, reply};
use longhaul_kinds::chat::TargetApi;

async fn target(api: TargetApi) -> FakeTarget {
    match api {
        TargetApi::Ollama => FakeTarget::ollama().await,
        TargetApi::OpenAi => FakeTarget::openai().await,
    }
}

async fn every_api_is_answered_by_every_target(ground: Ground) {
    for api in APIS {
        let target = target(api).await;
        let desk = ground.desk(&[&target]).await;
        let chatted = desk.post("/api/chat", &chat_streaming("hi", false)).send().await;
        assert_eq!(chatted.status, 200, "{chatted:?}");
        let body = chatted.json();
        assert_eq!(body["message"], json!({"role": "assistant", "content": reply("hi")}));
        assert_eq!((&body["done"], &body["done_reason"]), (&json!(true), &json!("stop")));
        assert_eq!((&body["prompt_eval_count"], &body["eval_count"]), (&json!(11), &json!(7)));

        let body = json!({"model": MODEL, "system": "be brief", "prompt": "hi", "stream": false});
        let generated = desk.post("/api/generate", &body).send().await.json();
        assert_eq!(generated["response"], reply("hi"));
        assert_eq!(generated["eval_count"], 7);

        let completed = desk.post("/v1/chat/completions", &chat("hi")).send().await.json();
        assert_eq!(completed["object"], "chat.completion");
        assert_eq!(completed["model"], MODEL);
        assert_eq!(completed["choices"][0]["message"]["content"], reply("hi"));
        assert_eq!(completed["choices"][0]["finish_reason"], "stop");
        assert_eq!(completed["usage"]["total_tokens"], 18);

        // Each was a job like any other, with its tokens in its result.
        let job = desk.get(&format!("/v1/jobs/{}", chatted.job())).send().await.json();
        assert_eq!(
            (&job["kind"], &job["queue"], &job["status"]),
            (&json!("chat"), &json!("chat"), &json!("completed"))
        );
        assert_eq!(job["labels"]["model"], MODEL);
        assert_eq!(job["result"]["promptTokens"], 11);
        assert_eq!(job["result"]["completionTokens"], 7);
        assert_eq!(job["result"]["target"], "t0");
        let usage = desk.get("/v1/usage").send().await.json();
        let tokens = (&usage["total"]["promptTokens"], &usage["total"]["completionTokens"]);
        assert_eq!(tokens, (&json!(33), &json!(21)), "three chats");
        let asked = target.asked();
        assert!(asked.iter().all(|call| call.bearer.as_deref() == Some("Bearer sk-target")));
        let generate = &asked[1].body;
        assert!(generate.to_string().contains("be brief"), "{generate}");
    }
}

async fn job_of_a_known_key_is_the_same_job(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    let submit = async |said: &str| {
        desk.post("/jobs", &chat(said)).header("idempotency-key", "k1").send().await
    };
    let first = submit("hi").await.json();
    desk.ended(first["job_id"].as_str().unwrap()).await;
    assert_eq!(submit("hi").await.json(), first);
    assert_eq!(target.asked().len(), 1);
    assert_eq!(submit("something else").await.status, 422);
}

async fn own_api_is_passed_on_untouched(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    let mut body = chat_streaming("hi", false);
    body["keep_alive"] = json!("5m");
    body["options"] = json!({"mirostat": 2, "num_ctx": 4096});
    desk.post("/api/chat", &body).send().await;
    let mut expected = body.clone();
    expected["stream"] = json!(true);
    assert_eq!(target.asked()[0].body, expected);
    assert_eq!(target.asked()[0].path, "/api/chat");
}

async fn tools_are_called_across_apis(ground: Ground) {
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
    for api in APIS {
        let target = target(api).await;
        let desk = ground.desk(&[&target]).await;
        let mut body = chat_streaming("use it", false);
        body["tools"] = tools.clone();
        let chatted = desk.post("/api/chat", &body).send().await.json();
        let call = &chatted["message"]["tool_calls"][0]["function"];
        assert_eq!(*call, json!({"name": "weather", "arguments": {"city": "Zürich"}}));
        let completed = desk.post("/v1/chat/completions", &body).send().await.json();
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

async fn target_that_does_not_stream_answers_all_the_same(ground: Ground) {
    let target = FakeTarget::openai().await;
    let desk = ground.desk(&[&target]).await;
    target.moods([Mood::Whole, Mood::Whole]);
    let completed = desk.post("/v1/chat/completions", &chat("hi")).send().await.json();
    assert_eq!(completed["choices"][0]["message"]["content"], reply("hi"));
    let chatted = desk.post("/api/chat", &chat_streaming("hi", false)).send().await.json();
    assert_eq!(chatted["message"]["content"], reply("hi"));
    assert_eq!(chatted["eval_count"], 7);
}

fn refused(status: u16, body: &str) -> Mood {
    Mood::Refuses(status, Vec::new(), body.to_owned())
}

/// Of an answer in Ollama's words and one in those of `OpenAI`: the status and the message, which are the same.
async fn both_refusals(desk: &Desk, body: &Value) -> (u16, String) {
    let ollama = desk.post("/api/chat", body).send().await;
    let openai = desk.post("/v1/chat/completions", body).send().await;
    let message = ollama.json()["error"].as_str().unwrap().to_owned();
    let error = openai.json()["error"].clone();
    assert_eq!((ollama.status, &json!(message)), (openai.status, &error["message"]));
    for key in ["type", "param", "code"] {
        assert!(error.as_object().unwrap().contains_key(key), "{error}");
    }
    (ollama.status, message)
}

async fn what_a_target_refuses_is_refused_at_once_in_its_words(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    let body = chat_streaming("hi", false);
    let twice = |mood: Mood| [mood.clone(), mood];
    target.moods(twice(refused(400, r#"{"error":"too many birds"}"#)));
    assert_eq!(both_refusals(&desk, &body).await, (400, "too many birds".to_owned()));
    // The operator's key is not the caller's affair.
    target.moods(twice(refused(401, r#"{"error":"who are you"}"#)));
    assert_eq!(both_refusals(&desk, &body).await, (502, "who are you".to_owned()));
    let mut unknown = body.clone();
    unknown["model"] = json!("owl");
    let (status, message) = both_refusals(&desk, &unknown).await;
    assert_eq!((status, message.as_str()), (404, "model \"owl\" not found"));
    assert_eq!(target.asked().len(), 4, "each was asked once");
    let answer = desk.post("/v1/chat/completions", &unknown).send().await;
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let job = desk.get(&format!("/v1/jobs/{}", answer.job())).send().await.json();
    assert_eq!((&job["status"], &job["attempt"]), (&json!("failed"), &json!(1)));
}

async fn what_is_no_call_is_refused_before_it_is_a_job(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    for body in [json!({}), json!({"model": MODEL, "messages": "hi"}), json!({"messages": []})] {
        assert_eq!(both_refusals(&desk, &body).await.0, 400, "{body}");
    }
    let typed = desk.get("/api/chat").send().await;
    assert_eq!(typed.status, 405);
    assert_eq!(desk.get("/v1/jobs").send().await.json()["jobs"], json!([]));
    assert!(target.asked().is_empty());
}

async fn repeated_key_is_the_same_job(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    let ask = |body: &Value| desk.post("/api/chat", body).header("idempotency-key", "k1");
    let first = ask(&chat_streaming("hi", false)).send().await;
    let second = ask(&chat_streaming("hi", false)).send().await;
    assert_eq!((first.job(), &first.body), (second.job(), &second.body));
    assert_eq!(target.asked().len(), 1);
    let other = ask(&chat_streaming("ho", false)).send().await;
    assert_eq!(other.status, 422);
    assert!(other.json()["error"].is_string());
}

async fn caller_that_goes_away_leaves_a_job_that_goes_on(ground: Ground) {
    let target = FakeTarget::held(TargetApi::Ollama).await;
    let desk = ground.desk(&[&target]).await;
    let body = chat_streaming("hi", false);
    let mut call = Box::pin(desk.post("/api/chat", &body).header("idempotency-key", "k1").send());
    tokio::select! {
        _ = &mut call => panic!("it is held"),
        _ = target.calls(1) => {}
    }
    drop(call);
    target.say(100);
    let answer = desk.post("/api/chat", &body).header("idempotency-key", "k1").send().await;
    assert_eq!(answer.json()["message"]["content"], reply("hi"));
    assert_eq!(target.asked().len(), 1);
}

async fn server_that_stops_says_where_the_job_is(ground: Ground) {
    let target = FakeTarget::held(TargetApi::Ollama).await;
    let desk = ground.desk(&[&target]).await;
    let body = chat_streaming("hi", false);
    let call = desk.post("/api/chat", &body).send();
    let stop = async {
        target.calls(1).await;
        desk.state.stop.cancel();
    };
    let (answer, ()) = tokio::join!(call, stop);
    assert_eq!(answer.status, 503);
    assert!(answer.json()["error"].as_str().unwrap().contains("the job 0"), "{answer:?}");
    assert_eq!(answer.header("x-should-retry"), Some("false"), "it would be another job");
}

/// Clients of `OpenAI` have to send some key.
async fn foreign_keys_are_ignored_where_nobody_needs_one(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    let ask = |key: &str| desk.post("/v1/chat/completions", &chat("hi")).key(key);
    assert_eq!(ask("sk-whatever").send().await.status, 200);
    assert_eq!(ask("ollama").send().await.status, 200);
    let ours = "lh_0123456789abcdef_000000000000000000000000000000000000000000000000_00000000";
    assert_eq!(ask(ours).send().await.status, 401, "what looks like ours has to be good");
    let elsewhere = desk.get("/v1/jobs").key("sk-whatever").send().await;
    assert_eq!(elsewhere.status, 401, "and elsewhere nothing is ignored");
}

async fn everybody_needs_a_key_where_keys_are_needed(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let wish = Wish { require_keys: true, ..Wish::default() };
    let desk = ground.wished(&[&target], wish).await;
    let admin = desk.state.auth.create_first_key().await.unwrap().unwrap().text.to_string();
    let ask = |key: &str| desk.post("/v1/chat/completions", &chat("hi")).key(key);
    let foreign: Answer = ask("sk-whatever").send().await;
    assert_eq!(foreign.status, 401);
    assert_eq!(foreign.json()["error"]["type"], "authentication_error");
    assert_eq!(desk.post("/api/chat", &chat("hi")).send().await.status, 401);
    assert_eq!(ask(&admin).send().await.status, 200);

    // What one tenant asks is nothing to another.
    let mut keys = Vec::new();
    for tenant in ["blue", "red"] {
        desk.post("/v1/tenants", &json!({"id": tenant})).key(&admin).send().await;
        let wish = json!({"tenant": tenant, "name": tenant, "scopes": ["submit", "read"]});
        let made = desk.post("/v1/keys", &wish).key(&admin).send().await.json();
        keys.push(made["key"].as_str().unwrap().to_owned());
    }
    let body = chat_streaming("a secret of blue", false);
    let blue = desk.post("/api/chat", &body).key(&keys[0]).send().await;
    let mine = desk.get(&format!("/jobs/{}", blue.job())).key(&keys[0]).send().await;
    assert_eq!(mine.json()["state"], "done");
    let theirs = desk.get(&format!("/jobs/{}", blue.job())).key(&keys[1]).send().await;
    let unknown = desk.get("/jobs/01KA3V8J5T0000000000000000").key(&keys[1]).send().await;
    assert_eq!((theirs.status, &theirs.body), (404, &unknown.body));
    assert_eq!(unknown.json(), json!({"error": "Job not found"}));
    let artifact =
        desk.get(&format!("/jobs/{}/artifacts/x", blue.job())).key(&keys[1]).send().await;
    assert_eq!((artifact.status, &artifact.body), (404, &unknown.body));
}

on_both_grounds! {
    every_api_is_answered_by_every_target,
    job_of_a_known_key_is_the_same_job,
    own_api_is_passed_on_untouched,
    tools_are_called_across_apis,
    target_that_does_not_stream_answers_all_the_same,
    what_a_target_refuses_is_refused_at_once_in_its_words,
    what_is_no_call_is_refused_before_it_is_a_job,
    repeated_key_is_the_same_job,
    caller_that_goes_away_leaves_a_job_that_goes_on,
    server_that_stops_says_where_the_job_is,
    foreign_keys_are_ignored_where_nobody_needs_one,
    everybody_needs_a_key_where_keys_are_needed,
}
