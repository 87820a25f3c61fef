//! What callers may ask for, and what they may not.

use serde_json::{Value, json};

use super::house::{House, OPERATORS, Wish, json_of, on_both_stores, problem_of};
use crate::webhooks::receiver::{OK, Receiver};

async fn path_that_could_lead_elsewhere_never_reaches_the_target(wish: Wish) {
    let target = Receiver::good().await;
    let house = House::before(target.address, wish).await;
    for path in ["/..", "/%2e%2e/admin", "/a/../../x", "//evil", "/a%2fb", "/..;/x", "/%252e%252e/"]
    {
        let answer = house.raw(&format!("GET /sync{path}"), &[]).await;
        assert_eq!(answer.problem(), (400, "bad-request".to_owned()), "{path}");
    }
    let answer = house.raw("GET /syncopated", &[]).await;
    assert_eq!(answer.problem(), (404, "not-found".to_owned()));
    assert_eq!(target.all().len(), 0);
}

async fn fields_of_one_connection_are_not_passed_on(wish: Wish) {
    let target = Receiver::good().await;
    let house = House::before(target.address, wish).await;
    let answer = house
        .raw(
            "GET /sync",
            &[
                ("connection", "close, x-hop"),
                ("x-hop", "1"),
                ("keep-alive", "timeout=9"),
                ("te", "trailers"),
                ("proxy-authorization", "Basic eDp5"),
                ("upgrade", "h2c"),
                ("x-kept", "yes"),
                ("longhaul-attempt", "99"),
            ],
        )
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let got = target.first(1).await.remove(0);
    assert_eq!((got.header("x-kept"), got.header("longhaul-attempt")), ("yes", "1"));
    let head = got.head.to_ascii_lowercase();
    for none in ["x-hop", "keep-alive", "\r\nte:", "proxy-authorization", "upgrade"] {
        assert!(!head.contains(none), "{none} in {head}");
    }
}

async fn url_of_a_caller_is_asked_without_what_is_the_targets(wish: Wish) {
    let target = Receiver::good().await;
    let elsewhere = Receiver::start(|_, _| OK).await;
    let house = House::before(target.address, wish).await;
    let job =
        house.submit("anywhere", json!({"$request": {"url": elsewhere.url(), "body": 1}})).await;
    let job = house.ended(job["jobId"].as_str().unwrap()).await;
    assert_eq!(job["result"]["body"], "thanks");
    let got = elsewhere.first(1).await.remove(0);
    assert!(!got.head.contains(OPERATORS), "{}", got.head);
    let job = house.submit("anywhere", json!({"x": 1})).await;
    house.ended(job["jobId"].as_str().unwrap()).await;
    assert_eq!(target.first(1).await.remove(0).header("authorization"), OPERATORS);
}

async fn failed(house: &House, kind: &str, input: Value) -> Value {
    let job = house.submit(kind, input).await;
    let job = house.ended(job["jobId"].as_str().unwrap()).await;
    assert_eq!((&job["status"], &job["attempt"]), (&"failed".into(), &1.into()), "{job}");
    job["error"]["code"].clone()
}

async fn url_of_a_caller_leads_nowhere_that_it_may_not(wish: Wish) {
    let target = Receiver::good().await;
    let house = House::before(target.address, wish).await;
    let request = json!({"$request": {"url": target.url()}});
    let body = json!({"kind": "anywhere", "input": request});
    let refused = (422, "url-refused".to_owned());
    assert_eq!(problem_of(house.post("/v1/jobs").json(&body)).await, refused);
    assert_eq!(problem_of(house.post("/v1/kinds/anywhere/jobs").json(&request)).await, refused);
    let batch = house.post("/v1/jobs/batch").json(&json!({"jobs": [body]}));
    assert_eq!(json_of(batch).await[0]["code"], "url-refused");
    // Whoever comes another way, such as from a transaction of its own, is refused when it is dialled.
    let job = house.engine.submit_raw("anywhere", &request).await.unwrap();
    let job = house.ended(&job.id().to_string()).await;
    assert_eq!((&job["error"]["code"], &job["attempt"]), (&"url-refused".into(), &1.into()));
    assert_eq!(failed(&house, "report", request).await, "bad-input", "it takes none at all");
    assert_eq!(target.all().len(), 0);
}

on_both_stores! {
    path_that_could_lead_elsewhere_never_reaches_the_target,
    fields_of_one_connection_are_not_passed_on,
    url_of_a_caller_is_asked_without_what_is_the_targets,
    url_of_a_caller_leads_nowhere_that_it_may_not with { loopback: false },
}
