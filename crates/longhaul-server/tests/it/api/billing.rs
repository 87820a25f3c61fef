use axum::http::StatusCode;
use longhaul_server::secret::Secret;
use serde_json::{Value, json};

use crate::harness::{TestResponse, TestServer};

const SECRET: &str = "whsec_of-the-test";

async fn server() -> TestServer {
    let server = TestServer::with_state(|state| state.stripe_secret = Secret::new(SECRET)).await;
    let made = server.post("/v1/tenants").json(json!({"id": "acme"})).send().await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let patch = server.request(axum::http::Method::PATCH, "/v1/tenants/acme");
    patch.json(json!({"billingId": "cus_1"})).send().await;
    server
}

fn event(id: &str, created: i64, kind: &str, status: &str) -> String {
    let object = json!({"customer": "cus_1", "status": status, "items": {"data": []}});
    json!({"id": id, "object": "event", "type": kind, "created": created, "data": {"object": object}})
        .to_string()
}

fn now(server: &TestServer) -> i64 {
    server.state.auth.now().as_millis() / 1_000
}

async fn tell(server: &TestServer, body: &str, secret: &str, at: i64) -> TestResponse {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let signed = format!("{at}.{body}");
    let signature = ring::hmac::sign(&key, signed.as_bytes());
    let hex = signature.as_ref().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let header = format!("t={at},v1={hex}");
    let ask = server.post("/v1/billing/stripe").header("stripe-signature", &header);
    ask.json_text(body.to_owned()).send().await
}

async fn subscription(server: &TestServer) -> Value {
    server.get("/v1/tenants/acme").send().await.json()["subscription"].clone()
}

#[tokio::test]
async fn subscription_follows_signed_stripe_events() {
    let server = server().await;
    let at = now(&server);
    let updated = "customer.subscription.updated";
    for (id, created, kind, status, becomes) in [
        ("e1", 10, updated, "past_due", "past_due"),
        ("e2", 20, updated, "active", "active"),
        ("e1", 10, updated, "past_due", "active"),
        ("e0", 5, updated, "unpaid", "active"),
        ("e3", 30, "customer.subscription.deleted", "canceled", "suspended"),
        ("e4", 40, "customer.subscription.created", "trialing", "active"),
        ("e5", 50, "invoice.created", "draft", "active"),
        ("e6", 60, updated, "something new", "active"),
    ] {
        let taken = tell(&server, &event(id, created, kind, status), SECRET, at).await;
        assert_eq!(taken.status, StatusCode::OK, "{taken:?}");
        assert_eq!(subscription(&server).await, becomes, "after {id}");
    }
    let audit = server.get("/v1/audit?tenant=acme").send().await.json();
    let by: Vec<_> = audit["entries"].as_array().unwrap().iter().map(|e| &e["actor"]).collect();
    assert_eq!(by.iter().filter(|actor| **actor == "billing").count(), 4);
}

#[tokio::test]
async fn unsigned_stripe_event_changes_nothing() {
    let server = server().await;
    let at = now(&server);
    let body = event("e1", 10, "customer.subscription.deleted", "canceled");
    let forged = tell(&server, &body, "whsec_guessed", at).await;
    assert_eq!(forged.problem(), (401, "unauthorized".to_owned()));
    let stale = tell(&server, &body, SECRET, at - 301).await;
    assert_eq!(stale.problem(), (401, "unauthorized".to_owned()));
    let unsigned = server.post("/v1/billing/stripe").json_text(body.clone()).send().await;
    assert_eq!(unsigned.problem(), (401, "unauthorized".to_owned()));
    assert_eq!(subscription(&server).await, "active");
    let stranger = body.replace("cus_1", "cus_2");
    let taken = tell(&server, &stranger, SECRET, at).await;
    assert_eq!(taken.json(), json!({"applied": false}), "it would only be repeated");
    let nonsense = tell(&server, "{\"id\":1}", SECRET, at).await;
    assert_eq!(nonsense.problem().0, 422);
}

#[tokio::test]
async fn stripe_events_are_rejected_without_a_configured_secret() {
    let server = TestServer::start().await;
    let at = now(&server);
    let response = tell(&server, &event("e1", 10, "x", "y"), "", at).await;
    assert_eq!(response.problem(), (404, "billing-not-configured".to_owned()));
}
