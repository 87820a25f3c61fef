//! Tenant isolation on every route of the OpenAPI document.

mod store_calls;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Backend, TestResponse, TestServer, status_url};

/// A tenant with a key for everything but running the server.
async fn tenant(server: &TestServer, admin: &str, id: &str) -> String {
    server.post("/v1/tenants").key(admin).json(json!({"id": id})).send().await;
    let wish = json!({"tenant": id, "name": id, "scopes": ["submit", "read", "work"]});
    let made = server.post("/v1/keys").key(admin).json(wish).send().await.json();
    made["key"].as_str().unwrap().to_owned()
}

async fn ended(server: &TestServer, key: &str, kind: &str) -> Value {
    let submit = server.post("/v1/jobs").key(key).header("idempotency-key", kind);
    let submit = submit.json(json!({"kind": kind, "input": "a-secret-of-blue"}));
    let job = submit.send().await.json();
    loop {
        let held = format!("{}?wait=5", status_url(&job));
        let job = server.get(&held).key(key).send().await.json();
        if job["completedAt"].is_string() {
            return job;
        }
    }
}

/// All operations: method, path, and the body that is sent along.
fn operations(document: &Value) -> Vec<(Method, String, Option<Value>)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
            let takes_json = &operation["requestBody"]["content"]["application/json"];
            let body = takes_json.is_object().then(|| json!({}));
            operations.push((method, path.clone(), body));
        }
    }
    operations
}

async fn ask(
    server: &TestServer,
    (method, path, body): &(Method, String, Option<Value>),
    key: &str,
) -> TestResponse {
    let ask = server.request(method.clone(), path).key(key).header("x-request-id", "same");
    match body {
        Some(body) => ask.json(body.clone()).send().await,
        None => ask.send().await,
    }
}

fn with_id(
    operation: &(Method, String, Option<Value>),
    id: &str,
) -> (Method, String, Option<Value>) {
    let (method, path, body) = operation;
    let path = path.replace("{id}", id).replace("{name}", "x").replace("{kind}", "echo");
    (method.clone(), path, body.clone())
}

/// An endpoint with this tenant's canaries, switched off so that what was owed to it is a dead letter, and that
/// dead letter.
async fn dead_letter(server: &TestServer, key: &str) -> (Value, Value) {
    let url = "http://127.0.0.1:9/path-of-blue";
    let wish = json!({"url": url, "description": "purpose-of-blue"});
    // Endpoints settle by the clock.
    let made = server.pass_time(server.post("/v1/endpoints").key(key).json(wish)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let endpoint = format!("/v1/endpoints/{}", made.json()["id"].as_str().unwrap());
    let test = server.post(&format!("{endpoint}/test")).key(key).send().await;
    assert_eq!(test.status, StatusCode::ACCEPTED, "{test:?}");
    let off = server.request(Method::PATCH, &endpoint).key(key).json(json!({"enabled": false}));
    let off = server.pass_time(off).await;
    assert_eq!(off.status, StatusCode::OK, "{off:?}");
    let delivery = format!("/v1/deliveries/{}", test.json()["deliveryId"].as_str().unwrap());
    loop {
        let delivery = server.get(&delivery).key(key).send().await.json();
        if delivery["status"] == "failed" {
            return (off.json(), delivery);
        }
    }
}

/// Calls every operation under this path with another tenant's id and with an unknown id.
async fn compare(server: &TestServer, green: &str, path: &str, ids: [&str; 2], at_least: usize) {
    let document = server.get("/openapi.json").send().await.json();
    let about: Vec<_> =
        operations(&document).into_iter().filter(|(_, known, _)| known.starts_with(path)).collect();
    assert!(about.len() >= at_least, "{about:?}");
    for operation in &about {
        let [theirs, nobodys] = ids.map(|id| with_id(operation, id));
        let (theirs, nobodys) =
            (ask(server, &theirs, green).await, ask(server, &nobodys, green).await);
        let what = format!("{operation:?}");
        assert_eq!(theirs.status.as_u16(), 404, "{what}: {theirs:?}");
        assert_eq!((theirs.status, &theirs.body), (nobodys.status, &nobodys.body), "{what}");
        assert_eq!(theirs.headers, nobodys.headers, "{what}");
    }
}

const UNKNOWN: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const UNKNOWN_ENDPOINT: &str = "ep_01ARZ3NDEKTSV4RRFFQ69G5FAV";

async fn answers_exactly_as_an_unknown_one(server: TestServer, admin: String) {
    let (blue, green) =
        (tenant(&server, &admin, "blue").await, tenant(&server, &admin, "green").await);
    for kind in ["echo", "fails"] {
        let job = ended(&server, &blue, kind).await;
        let id = job["jobId"].as_str().unwrap();
        compare(&server, &green, "/v1/jobs/{id}", [id, UNKNOWN], 13).await;
        let still = server.get(status_url(&job)).key(&blue).send().await;
        assert_eq!(still.json()["version"], job["version"], "nothing of it was changed");
    }
}

async fn endpoint_answers_exactly_as_an_unknown_one(server: TestServer, admin: String) {
    let (blue, green) =
        (tenant(&server, &admin, "blue").await, tenant(&server, &admin, "green").await);
    let (endpoint, delivery) = dead_letter(&server, &blue).await;
    let (id, letter) = (endpoint["id"].as_str().unwrap(), delivery["deliveryId"].as_str().unwrap());
    compare(&server, &green, "/v1/endpoints/{id}", [id, UNKNOWN_ENDPOINT], 5).await;
    compare(&server, &green, "/v1/deliveries/{id}", [letter, UNKNOWN], 2).await;
    // A delivery is a job to the engine, and none to anybody else; not even to its owner.
    compare(&server, &green, "/v1/jobs/{id}", [letter, UNKNOWN], 13).await;
    compare(&server, &blue, "/v1/jobs/{id}", [letter, UNKNOWN], 13).await;
    for id in [id, UNKNOWN_ENDPOINT] {
        let listed = server.get(&format!("/v1/deliveries?endpoint={id}")).key(&green).send().await;
        assert_eq!(listed.json()["deliveries"], json!([]));
        let all = json!({"filter": {"endpointId": id}});
        let resent = server.post("/v1/deliveries/resend").key(&green).json(all).send().await;
        assert_eq!(resent.json(), json!({"count": 0}));
    }
    let still = server.get(&format!("/v1/endpoints/{id}")).key(&blue).send().await.json();
    assert_eq!(still, endpoint, "nothing of it was changed");
    let still = server.get(&format!("/v1/deliveries/{letter}")).key(&blue).send().await.json();
    assert_eq!(still, delivery, "nothing of it was changed");
}

async fn nothing_is_in_any_answer(server: TestServer, admin: String) {
    let (blue, green) =
        (tenant(&server, &admin, "blue").await, tenant(&server, &admin, "green").await);
    let job = ended(&server, &blue, "echo").await;
    let id = job["jobId"].as_str().unwrap();
    server.post("/v1/queues/blue-only/pause").key(&blue).send().await;
    let (endpoint, delivery) = dead_letter(&server, &blue).await;
    let (endpoint, letter) =
        (endpoint["id"].as_str().unwrap(), delivery["deliveryId"].as_str().unwrap());
    let document = server.get("/openapi.json").send().await.json();
    for operation in operations(&document) {
        for id_in_path in [id, endpoint, letter, "blue", "x"] {
            let response = ask(&server, &with_id(&operation, id_in_path), &green).await;
            let text = String::from_utf8_lossy(&response.body).into_owned();
            for canary in ["a-secret-of-blue", "blue-only", "path-of-blue", "purpose-of-blue"] {
                assert!(!text.contains(canary), "{operation:?}: {text}");
            }
            assert!(response.status.as_u16() < 500, "{operation:?}: {text}");
        }
    }
    // The same idempotency key belongs to each tenant alone.
    let own = server.post("/v1/jobs").key(&green).header("idempotency-key", "echo");
    let own = own.json(json!({"kind": "echo", "input": 1})).send().await.json();
    assert_ne!(own["jobId"], id);
    let still = server.get(status_url(&job)).key(&blue).send().await.json();
    assert_eq!(still["result"], "a-secret-of-blue");
}

#[tokio::test]
async fn other_tenants_job_looks_unknown_on_every_route() {
    let (server, admin) = TestServer::with_keys().await;
    answers_exactly_as_an_unknown_one(server, admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_job_looks_unknown_on_postgres() {
    let (server, admin) =
        TestServer::builder().backend(Backend::Postgres).require_keys().start_with_key().await;
    answers_exactly_as_an_unknown_one(server, admin).await;
}

#[tokio::test]
async fn other_tenants_endpoint_looks_unknown_on_every_route() {
    let (server, admin) = TestServer::with_keys().await;
    endpoint_answers_exactly_as_an_unknown_one(server, admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_endpoint_looks_unknown_on_postgres() {
    let (server, admin) =
        TestServer::builder().backend(Backend::Postgres).require_keys().start_with_key().await;
    endpoint_answers_exactly_as_an_unknown_one(server, admin).await;
}

#[tokio::test]
async fn no_response_contains_data_of_another_tenant() {
    let (server, admin) = TestServer::with_keys().await;
    nothing_is_in_any_answer(server, admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_response_contains_data_of_another_tenant_on_postgres() {
    let (server, admin) =
        TestServer::builder().backend(Backend::Postgres).require_keys().start_with_key().await;
    nothing_is_in_any_answer(server, admin).await;
}

#[tokio::test]
async fn every_route_with_data_requires_authentication() {
    let (server, _) = TestServer::with_keys().await;
    let document = server.get("/openapi.json").send().await.json();
    // The payment provider has no key; it signs its events.
    let open = ["/livez", "/readyz", "/healthz", "/v1/billing/stripe"];
    for operation in operations(&document) {
        let (method, path, body) = with_id(&operation, "x");
        let ask = server.request(method, &path);
        let response = match body {
            Some(body) => ask.json(body).send().await,
            None => ask.send().await,
        };
        let is_open = open.contains(&path.as_str());
        let asks = response.headers.contains_key("www-authenticate");
        assert_eq!(asks, !is_open, "{operation:?}: {response:?}");
        let (method, path, _) = &operation;
        let described = &document["paths"][path][method.as_str().to_lowercase()];
        assert_eq!(described["security"].is_array(), !is_open, "{operation:?}");
    }
}
