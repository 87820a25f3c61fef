//! Answers that are told as they are made.

use longhaul_kinds::chat::TargetApi;
use serde_json::{Value, json};

use super::desk::{APIS, Ground, Stream, Wish, all_said, chat_streaming, on_both_grounds, said};
use super::target::{FakeTarget, Mood, reply};

const PATHS: [&str; 2] = ["/api/chat", "/v1/chat/completions"];

/// The next piece that says something.
async fn word(stream: &mut Stream) -> String {
    loop {
        let piece = stream.piece().await.unwrap();
        if !said(&piece).is_empty() {
            return piece;
        }
    }
}

async fn words_come_as_they_are_said(ground: Ground) {
    for (api, path) in APIS.into_iter().flat_map(|api| PATHS.map(|path| (api, path))) {
        let target = FakeTarget::held(api).await;
        let desk = ground.desk(&[&target]).await;
        target.say(2);
        let mut stream = desk.post(path, &chat_streaming("hi", true)).open().await;
        assert_eq!(stream.status, 200);
        let first = word(&mut stream).await;
        let second = word(&mut stream).await;
        assert_eq!([said(&first), said(&second)], ["you ", "said "], "the rest is not said yet");
        let job = desk.get(&format!("/jobs/{}", stream.job())).send().await.json();
        assert_eq!(job["state"], "working");
        target.say(100);
        let rest = stream.rest().await;
        assert_eq!(format!("you said {}", all_said(&rest)), reply("hi"));
        if path == "/api/chat" {
            let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
            assert_eq!((&last["done"], &last["eval_count"]), (&json!(true), &json!(7)));
            assert!(rest.iter().all(|line| line.ends_with('\n') && line.lines().count() == 1));
        } else {
            assert_eq!(rest.last().unwrap(), "data: [DONE]\n\n");
            assert!(rest.iter().all(|chunk| !chunk.contains("\"usage\":{")), "nobody asked for it");
            let finishes = rest.iter().filter(|chunk| chunk.contains("\"finish_reason\":\"stop\""));
            assert_eq!(finishes.count(), 1);
        }
    }
}

async fn usage_comes_last_for_those_who_ask(ground: Ground) {
    for target in [FakeTarget::ollama().await, FakeTarget::openai().await] {
        let desk = ground.desk(&[&target]).await;
        let mut body = chat_streaming("hi", true);
        body["stream_options"] = json!({"include_usage": true});
        let pieces = desk.post(PATHS[1], &body).open().await.rest().await;
        let usage = &pieces[pieces.len() - 2];
        let usage: Value = serde_json::from_str(usage.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(usage["choices"], json!([]));
        assert_eq!(usage["usage"]["total_tokens"], 18);
    }
}

async fn generate_streams_too(ground: Ground) {
    for target in [FakeTarget::ollama().await, FakeTarget::openai().await] {
        let desk = ground.desk(&[&target]).await;
        let body = json!({"model": super::target::MODEL, "prompt": "hi"});
        let stream = desk.post("/api/generate", &body).open().await;
        assert_eq!(stream.headers["content-type"], "application/x-ndjson");
        assert_eq!(all_said(&stream.rest().await), reply("hi"));
    }
}

/// Nothing was said yet: the caller need not know.
async fn target_that_breaks_off_before_its_first_word_is_asked_again(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.desk(&[&target]).await;
    target.moods([Mood::Breaks(0), Mood::Breaks(0)]);
    for path in PATHS {
        let stream = desk.post(path, &chat_streaming("hi", true)).open().await;
        assert_eq!(all_said(&stream.rest().await), reply("hi"));
    }
}

/// What was said is the beginning of what is said again: the rest follows, and no word comes twice.
async fn second_attempt_that_says_the_same_is_told_to_its_end(ground: Ground) {
    for api in APIS {
        for path in PATHS {
            let target = FakeTarget::held(api).await;
            let desk = ground.desk(&[&target]).await;
            target.moods([Mood::Breaks(3)]);
            target.say(3);
            let mut stream = desk.post(path, &chat_streaming("hi", true)).open().await;
            let id = stream.job();
            for expected in ["you ", "said ", "hi "] {
                assert_eq!(said(&word(&mut stream).await), expected);
            }
            target.say(100);
            assert_eq!(format!("you said hi {}", all_said(&stream.rest().await)), reply("hi"));
            let job = desk.get(&format!("/v1/jobs/{id}")).send().await.json();
            assert_eq!(job["attempt"], 2);
        }
    }
}

async fn second_attempt_that_says_something_else_ends_the_stream_with_an_error(ground: Ground) {
    for path in PATHS {
        let target = FakeTarget::held(TargetApi::Ollama).await;
        let desk = ground.desk(&[&target]).await;
        target.moods([Mood::Breaks(3), Mood::Differs]);
        target.say(3);
        let mut stream = desk.post(path, &chat_streaming("hi", true)).open().await;
        let id = stream.job();
        for _ in 0..3 {
            word(&mut stream).await;
        }
        target.say(100);
        let pieces = stream.rest().await;
        assert_eq!(all_said(&pieces), "", "the three words are of another answer");
        assert!(pieces.last().unwrap().contains("\"error\""), "{pieces:?}");
        // Whoever asks for the job gets the answer that it has.
        let job = desk.get(&format!("/jobs/{id}")).send().await.json();
        assert_eq!(job["state"], "done");
        assert!(job["result"].to_string().contains("no, you said"));
    }
}

async fn failure_in_the_middle_is_tried_again_and_told_when_it_stays(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let retry = longhaul::Retry::NEVER;
    let desk = ground.wished(&[&target], Wish { retry, ..Wish::default() }).await;
    target.moods([Mood::Fails(2), Mood::Fails(0)]);
    let pieces = desk.post(PATHS[0], &chat_streaming("hi", true)).open().await.rest().await;
    let last: Value = serde_json::from_str(pieces.last().unwrap()).unwrap();
    assert_eq!(last, json!({"error": "the target t0 failed: out of birds"}));
    // Before the first word there is still a status to tell it with.
    let whole = desk.post(PATHS[0], &chat_streaming("hi", true)).send().await;
    assert_eq!((whole.status, whole.json()), (502, last));
}

/// As `--role api` beside `--role worker`.
async fn door_in_another_process_tells_all_at_the_end(ground: Ground) {
    let target = FakeTarget::ollama().await;
    let desk = ground.wished(&[&target], Wish { apart: true, ..Wish::default() }).await;
    for path in PATHS {
        let pieces = desk.post(path, &chat_streaming("hi", true)).open().await.rest().await;
        assert_eq!(all_said(&pieces), reply("hi"));
    }
}

async fn caller_that_goes_away_in_the_middle_leaves_a_job_that_goes_on(ground: Ground) {
    let target = FakeTarget::held(TargetApi::Ollama).await;
    let desk = ground.desk(&[&target]).await;
    target.say(1);
    let mut stream = desk.post(PATHS[0], &chat_streaming("hi", true)).open().await;
    let id = stream.job();
    word(&mut stream).await;
    drop(stream);
    target.say(100);
    let job = desk.ended(&id).await;
    assert_eq!(job["result"]["body"]["message"]["content"], reply("hi"));
    assert!(desk.state.chat.as_ref().unwrap().stream_logs().is_empty());
}

async fn server_that_stops_ends_a_stream_with_its_error(ground: Ground) {
    let target = FakeTarget::held(TargetApi::OpenAi).await;
    let desk = ground.desk(&[&target]).await;
    target.say(1);
    let mut stream = desk.post(PATHS[1], &chat_streaming("hi", true)).open().await;
    word(&mut stream).await;
    desk.state.stop.cancel();
    let rest = stream.rest().await;
    assert!(rest.last().unwrap().contains("the server is stopping"), "{rest:?}");
}

on_both_grounds! {
    words_come_as_they_are_said,
    usage_comes_last_for_those_who_ask,
    generate_streams_too,
    target_that_breaks_off_before_its_first_word_is_asked_again,
    second_attempt_that_says_the_same_is_told_to_its_end,
    second_attempt_that_says_something_else_ends_the_stream_with_an_error,
    failure_in_the_middle_is_tried_again_and_told_when_it_stays,
    door_in_another_process_tells_all_at_the_end,
    caller_that_goes_away_in_the_middle_leaves_a_job_that_goes_on,
    server_that_stops_ends_a_stream_with_its_error,
}
