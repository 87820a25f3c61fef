//! What is passed on is readable at the target and nowhere else.

use serde_json::{Value, json};

use super::house::{House, OPERATORS, Wish, id_of, json_of, on_both_stores};
use crate::webhooks::receiver::{Receiver, Reply};

const BEARER: &str = "Bearer canary-of-authorization";
const COOKIE: &str = "session=canary-of-cookie";
const TOKEN: &str = "canary-of-token";
const BODY: &str = "canary-of-body";

fn has(all: &[u8], text: &str) -> bool {
    all.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn what_is_passed_on_is_stored_nowhere(wish: Wish) {
    let target = Receiver::start(|number, _| match number {
        0 => Reply::Answer(500, "", "once more"),
        _ => Reply::Answer(200, "", "done"),
    })
    .await;
    let house = House::before(target.address, wish).await;
    let asked = house
        .post("/passing")
        .header("authorization", BEARER)
        .header("cookie", COOKIE)
        .header("x-token", TOKEN)
        .header("x-plain", "seen-in-the-input")
        .body(BODY);
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    for got in target.first(2).await {
        assert_eq!((got.header("authorization"), got.header("cookie")), (BEARER, COOKIE));
        assert_eq!(got.header("x-token"), TOKEN);
        assert_eq!(got.body, BODY.as_bytes());
    }
    let id = id_of(&answer);
    let input = json_of(house.get(&format!("/v1/jobs/{id}/input"))).await;
    let all = house.everything_stored().await;
    assert!(has(&all, "seen-in-the-input") && input.to_string().contains("seen-in-the-input"));
    for secret in ["canary-of-authorization", "canary-of-cookie", TOKEN, BODY] {
        assert!(!has(&all, secret), "{secret} is stored");
        assert!(!input.to_string().contains(secret), "{secret} is shown");
    }

    // Whoever may read the input cannot send what is sealed in it elsewhere.
    for part in ["sealed", "sealedBody"] {
        let sealed = &input["$request"][part];
        assert!(sealed.is_string(), "{input}");
        let stolen = json!({"$request": {"path": "/x", part: sealed}});
        let job = house.submit("report", stolen).await;
        let job = house.ended(job["jobId"].as_str().unwrap()).await;
        assert_eq!(job["error"]["code"], "request-sealed");
    }
    assert_eq!(target.all().len(), 2);
}

async fn what_is_not_passed_on_goes_nowhere(wish: Wish) {
    let target = Receiver::good().await;
    let house = House::before(target.address, wish).await;
    let asked = house.post("/sync").header("authorization", BEARER).header("cookie", COOKIE);
    assert_eq!(asked.body("x").send().await.unwrap().status(), 200);
    let got = target.first(1).await.remove(0);
    assert!(!got.head.contains("canary"), "{}", got.head);
    assert!(!has(&house.everything_stored().await, "canary"));
}

async fn operators_own_header_wins_and_is_in_no_job(wish: Wish) {
    let target = Receiver::good().await;
    let house = House::before(target.address, wish).await;
    let asked = house.post("/own").header("authorization", BEARER).body("x");
    let id = id_of(&asked.send().await.unwrap());
    assert_eq!(target.first(1).await.remove(0).header("authorization"), OPERATORS);
    let mut shown = String::new();
    for path in ["", "/input", "/result", "/steps", "/attempts"] {
        let answer: Value = json_of(house.get(&format!("/v1/jobs/{id}{path}"))).await;
        shown += &answer.to_string();
    }
    shown += &json_of(house.get("/v1/kinds")).await.to_string();
    assert!(!shown.contains("operators") && !has(&house.everything_stored().await, OPERATORS));
}

/// A small body stays with the job, so that it can be sent again.
async fn failed_request_is_resumed_with_its_body(wish: Wish) {
    let target = Receiver::start(|number, _| match number {
        0 => Reply::Answer(400, "", "not yet"),
        _ => Reply::Answer(200, "", "done"),
    })
    .await;
    let house = House::before(target.address, wish).await;
    let answer = house.post("/sync").body(BODY).send().await.unwrap();
    assert_eq!(answer.status(), 400);
    let id = id_of(&answer);
    house.post(&format!("/v1/jobs/{id}/resume")).send().await.unwrap();
    assert_eq!(house.ended(&id).await["status"], "completed");
    assert!(target.first(2).await.iter().all(|got| got.body == BODY.as_bytes()));
}

on_both_stores! {
    failed_request_is_resumed_with_its_body,
    what_is_passed_on_is_stored_nowhere,
    what_is_not_passed_on_goes_nowhere,
    operators_own_header_wins_and_is_in_no_job,
}
