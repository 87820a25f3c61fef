//! Endpoints over HTTP.

use axum::http::Method;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::webhook_server::WebhookServer;
use crate::harness::{BROKEN, Backend, FakeHttpServer, ReceivedRequest, on_both_backends};

fn is_signed_with(got: &ReceivedRequest, secret: &Value) -> bool {
    Webhook::new(secret.as_str().unwrap()).unwrap().verify(&got.body, &got.headers()).is_ok()
}

async fn endpoint_is_created_changed_and_deleted_and_its_secret_shown_once(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let made = server
        .create_endpoint(json!({
            "url": "https://example.com/hooks", "description": "billing",
            "events": ["job.failed", "job.completed"],
        }))
        .await;
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert!(secret.starts_with("whsec_"));
    let path = format!("/v1/endpoints/{id}");
    let read = server.get_json(&path).await;
    assert!(read.get("secret").is_none() && !read.to_string().contains(secret));
    assert_eq!(read["events"], json!(["job.completed", "job.failed"]));
    assert_eq!((&read["payload"], &read["enabled"]), (&json!("thin"), &json!(true)));
    let change = json!({"enabled": false, "events": [], "payload": "full"});
    let (status, changed) = server.request(Method::PATCH, &path).json(change).fetch().await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!((&changed["enabled"], &changed["events"]), (&json!(false), &json!([])));
    assert_eq!(changed["description"], "billing", "what is not named stays");
    let list = server.get_json("/v1/endpoints").await;
    assert_eq!(list["endpoints"].as_array().unwrap().len(), 1);
    let (status, _) = server.request(Method::DELETE, &path).fetch().await;
    assert_eq!(status, 204);
    let (status, problem) = server.request(Method::GET, &path).fetch().await;
    assert_eq!((status, &problem["code"]), (404, &json!("endpoint-not-found")));
    let audit = server.get_json("/v1/audit").await.to_string();
    for action in ["endpoint.create", "endpoint.change", "endpoint.delete"] {
        assert!(audit.contains(action), "{audit}");
    }
    assert!(!audit.contains(secret));
}

async fn endpoint_receives_its_subscribed_events_of_all_jobs(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let (all, ends) = (FakeHttpServer::good().await, FakeHttpServer::good().await);
    server.create_endpoint(json!({"url": all.url()})).await;
    server
        .create_endpoint(json!({"url": ends.url(), "events": ["job.completed", "job.failed"]}))
        .await;
    for kind in ["echo", "fails"] {
        let (status, _) =
            server.post("/v1/jobs").json(json!({"kind": kind, "input": 1})).fetch().await;
        assert_eq!(status, 202);
    }
    let mut events = ends.events(2).await;
    events.sort();
    assert_eq!(events, ["job.completed", "job.failed"]);
    all.first(6).await;
}

async fn rotated_webhook_secret_signs_beside_the_former_one(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::good().await;
    let old =
        server.create_endpoint(json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let path = format!("/v1/endpoints/{}/rotate", old["id"].as_str().unwrap());
    let (status, new) = server.post(&path).json(json!({"overlap": "1h"})).fetch().await;
    assert_eq!(status, 200, "{new}");
    assert!(new["formerSecretUntil"].is_string());
    server.post("/v1/jobs").json(json!({"kind": "echo", "input": 1})).fetch().await;
    let both = receiver.first(1).await.remove(0);
    assert_eq!(both.header("webhook-signature").split(' ').count(), 2);
    assert!(is_signed_with(&both, &old["secret"]) && is_signed_with(&both, &new["secret"]));
    server.clock.advance(std::time::Duration::from_hours(1));
    server.post("/v1/jobs").json(json!({"kind": "echo", "input": 1})).fetch().await;
    let one = receiver.first(2).await.remove(1);
    assert_eq!(one.header("webhook-signature").split(' ').count(), 1);
}

async fn endpoint_test_delivery_is_sent_and_recorded(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::good().await;
    let made =
        server.create_endpoint(json!({"url": receiver.url(), "events": ["job.failed"]})).await;
    let path = format!("/v1/endpoints/{}/test", made["id"].as_str().unwrap());
    let (status, delivery) = server.request(Method::POST, &path).fetch().await;
    assert_eq!(status, 202, "{delivery}");
    let got = receiver.first(1).await.remove(0);
    assert_eq!(got.event(), "endpoint.test");
    assert!(is_signed_with(&got, &made["secret"]));
    let id = delivery["deliveryId"].as_str().unwrap();
    let arrived = server.poll_delivery(id, |delivery| delivery["status"] == "completed").await;
    assert_eq!(arrived["attempts"][0]["answer"], "thanks");
}

async fn deleted_endpoint_gets_no_more_deliveries(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::start(|_, _| BROKEN).await;
    let made =
        server.create_endpoint(json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let (_, job) = server.post("/v1/jobs").json(json!({"kind": "echo", "input": 1})).fetch().await;
    let id = server.delivery_of(&job, "job.pending").await;
    server.poll_delivery(&id, |delivery| delivery["error"].is_string()).await;
    let path = format!("/v1/endpoints/{}", made["id"].as_str().unwrap());
    server.request(Method::DELETE, &path).fetch().await;
    let dead = server.poll_delivery(&id, |delivery| delivery["status"] == "failed").await;
    assert_eq!(dead["error"], "the endpoint was deleted");
    assert_eq!(receiver.all().len(), 1);
}

async fn webhook_without_a_secret_is_signed_with_the_tenant_secret(backend: Backend) {
    let server = WebhookServer::start(backend).await;
    let receiver = FakeHttpServer::good().await;
    server.submit("echo", json!({"url": receiver.url(), "events": ["job.pending"]})).await;
    let got = receiver.first(1).await.remove(0);
    let secret = server.get_json("/v1/webhooks/secret").await;
    assert!(is_signed_with(&got, &secret["secret"]));
}

on_both_backends! {
    endpoint_is_created_changed_and_deleted_and_its_secret_shown_once,
    endpoint_receives_its_subscribed_events_of_all_jobs,
    rotated_webhook_secret_signs_beside_the_former_one,
    endpoint_test_delivery_is_sent_and_recorded,
    deleted_endpoint_gets_no_more_deliveries,
    webhook_without_a_secret_is_signed_with_the_tenant_secret,
}
