//! Endpoints over HTTP.

use axum::http::Method;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::desk::{Desk, on_both_stores};
use super::receiver::{Got, Receiver};

fn is_signed_with(got: &Got, secret: &Value) -> bool {
    Webhook::new(secret.as_str().unwrap()).unwrap().verify(&got.body, &got.headers()).is_ok()
}

async fn endpoint_is_made_shown_once_changed_and_deleted(desk: Desk) {
    let made = desk
        .endpoint(json!({
            "url": "https://example.com/hooks", "description": "billing",
            "events": ["job.failed", "job.completed"],
        }))
        .await;
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert!(secret.starts_with("whsec_"));
    let path = format!("/v1/endpoints/{id}");
    let read = desk.get(&path).await;
    assert!(read.get("secret").is_none() && !read.to_string().contains(secret));
    assert_eq!(read["events"], json!(["job.completed", "job.failed"]));
    assert_eq!((&read["payload"], &read["enabled"]), (&json!("thin"), &json!(true)));
    let change = json!({"enabled": false, "events": [], "payload": "full"});
    let (status, changed) = desk.ask(Method::PATCH, &path, Some(change)).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!((&changed["enabled"], &changed["events"]), (&json!(false), &json!([])));
    assert_eq!(changed["description"], "billing", "what is not named stays");
    let list = desk.get("/v1/endpoints").await;
    assert_eq!(list["endpoints"].as_array().unwrap().len(), 1);
    let (status, _) = desk.ask(Method::DELETE, &path, None).await;
    assert_eq!(status, 204);
    let (status, problem) = desk.ask(Method::GET, &path, None).await;
    assert_eq!((status, &problem["code"]), (404, &json!("endpoint-not-found")));
    let audit = desk.get("/v1/audit").await.to_string();
    for action in ["endpoint.create", "endpoint.change", "endpoint.delete"] {
        assert!(audit.contains(action), "{audit}");
    }
    assert!(!audit.contains(secret));
}

async fn endpoint_hears_of_all_jobs_that_it_asked_for(desk: Desk) {
    let (all, ends) = (Receiver::good().await, Receiver::good().await);
    desk.endpoint(json!({"url": all.url()})).await;
    desk.endpoint(json!({"url": ends.url(), "events": ["job.completed", "job.failed"]})).await;
    for kind in ["echo", "fails"] {
        let (status, _) = desk.post("/v1/jobs", json!({"kind": kind, "input": 1})).await;
        assert_eq!(status, 202);
    }
    let mut events = ends.events(2).await;
    events.sort();
    assert_eq!(events, ["job.completed", "job.failed"]);
    all.first(6).await;
}

async fn rotated_secret_signs_beside_the_former_one(desk: Desk) {
    let receiver = Receiver::good().await;
    let old = desk.endpoint(json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let path = format!("/v1/endpoints/{}/rotate", old["id"].as_str().unwrap());
    let (status, new) = desk.post(&path, json!({"overlap": "1h"})).await;
    assert_eq!(status, 200, "{new}");
    assert!(new["formerSecretUntil"].is_string());
    desk.post("/v1/jobs", json!({"kind": "echo", "input": 1})).await;
    let both = receiver.first(1).await.remove(0);
    assert_eq!(both.header("webhook-signature").split(' ').count(), 2);
    assert!(is_signed_with(&both, &old["secret"]) && is_signed_with(&both, &new["secret"]));
    desk.clock.advance(std::time::Duration::from_hours(1));
    desk.post("/v1/jobs", json!({"kind": "echo", "input": 1})).await;
    let one = receiver.first(2).await.remove(1);
    assert_eq!(one.header("webhook-signature").split(' ').count(), 1);
}

async fn trial_shows_whether_deliveries_arrive(desk: Desk) {
    let receiver = Receiver::good().await;
    let made = desk.endpoint(json!({"url": receiver.url(), "events": ["job.failed"]})).await;
    let path = format!("/v1/endpoints/{}/test", made["id"].as_str().unwrap());
    let (status, delivery) = desk.ask(Method::POST, &path, None).await;
    assert_eq!(status, 202, "{delivery}");
    let got = receiver.first(1).await.remove(0);
    assert_eq!(got.event(), "endpoint.test");
    assert!(is_signed_with(&got, &made["secret"]));
    let id = delivery["deliveryId"].as_str().unwrap();
    let arrived = desk.until(id, |delivery| delivery["status"] == "completed").await;
    assert_eq!(arrived["attempts"][0]["answer"], "thanks");
}

async fn deleted_endpoint_is_owed_nothing_more(desk: Desk) {
    let receiver = Receiver::start(|_, _| super::receiver::BROKEN).await;
    let made = desk.endpoint(json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let (_, job) = desk.post("/v1/jobs", json!({"kind": "echo", "input": 1})).await;
    let id = desk.delivery_of(&job, "job.pending").await;
    desk.until(&id, |delivery| delivery["error"].is_string()).await;
    let path = format!("/v1/endpoints/{}", made["id"].as_str().unwrap());
    desk.ask(Method::DELETE, &path, None).await;
    let dead = desk.until(&id, |delivery| delivery["status"] == "failed").await;
    assert_eq!(dead["error"], "the endpoint was deleted");
    assert_eq!(receiver.all().len(), 1);
}

async fn secret_without_one_of_its_own_is_the_tenant_s(desk: Desk) {
    let receiver = Receiver::good().await;
    desk.submit("echo", json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let got = receiver.first(1).await.remove(0);
    let secret = desk.get("/v1/webhooks/secret").await;
    assert!(is_signed_with(&got, &secret["secret"]));
}

on_both_stores! {
    endpoint_is_made_shown_once_changed_and_deleted,
    endpoint_hears_of_all_jobs_that_it_asked_for,
    rotated_secret_signs_beside_the_former_one,
    trial_shows_whether_deliveries_arrive,
    deleted_endpoint_is_owed_nothing_more,
    secret_without_one_of_its_own_is_the_tenant_s,
}
