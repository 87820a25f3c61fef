//! Scopes of API keys: every operation of the OpenAPI document with every set of scopes.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Method;
use serde_json::json;

use crate::harness::TestServer;

/// All operations, by the scopes that they require.
const OPERATIONS: &[(&[&str], &[&str])] = &[
    (&[], &["GET /livez", "GET /readyz", "GET /healthz", "POST /v1/billing/stripe"]),
    (
        &["submit"],
        &[
            "POST /v1/jobs",
            "POST /v1/kinds/{kind}/jobs",
            "POST /v1/jobs/batch",
            "DELETE /v1/jobs/{id}",
            "POST /v1/jobs/{id}/cancel",
            "POST /v1/jobs/{id}/resume",
            "POST /v1/jobs/{id}/fork",
            "POST /v1/jobs/cancel",
            "POST /v1/jobs/resume",
            "POST /v1/jobs/purge",
            "POST /v1/queues/{name}/pause",
            "POST /v1/queues/{name}/resume",
        ],
    ),
    (
        &["read"],
        &[
            "GET /v1/jobs",
            "GET /v1/jobs/{id}",
            "GET /v1/jobs/{id}/input",
            "GET /v1/jobs/{id}/result",
            "GET /v1/jobs/{id}/steps",
            "GET /v1/jobs/{id}/attempts",
            "GET /v1/jobs/{id}/artifacts/{name}",
            "GET /v1/jobs/{id}/receipt",
            "GET /v1/jobs/{id}/events",
            "GET /v1/jobs/{id}/deliveries",
            "GET /v1/kinds",
            "GET /v1/queues",
            "GET /v1/replicas",
            "GET /v1/usage",
            "GET /v1/endpoints",
            "GET /v1/endpoints/{id}",
            "GET /v1/deliveries",
            "GET /v1/deliveries/{id}",
        ],
    ),
    // An endpoint receives the results of all jobs.
    (
        &["submit", "read"],
        &[
            "POST /v1/endpoints",
            "PATCH /v1/endpoints/{id}",
            "DELETE /v1/endpoints/{id}",
            "POST /v1/endpoints/{id}/rotate",
            "POST /v1/endpoints/{id}/test",
            "GET /v1/webhooks/secret",
            "POST /v1/deliveries/{id}/resend",
            "POST /v1/deliveries/resend",
        ],
    ),
    (
        &["admin"],
        &[
            "POST /v1/keys",
            "GET /v1/keys",
            "DELETE /v1/keys/{id}",
            "POST /v1/keys/{id}/rotate",
            "POST /v1/tenants",
            "GET /v1/tenants",
            "GET /v1/tenants/{id}",
            "PATCH /v1/tenants/{id}",
            "GET /v1/audit",
            "GET /metrics",
        ],
    ),
];

const SCOPE_SETS: [&[&str]; 6] = [
    &["submit"],
    &["read"],
    &["work"],
    &["submit", "read"],
    &["submit", "read", "work"],
    &["admin"],
];

async fn documented(server: &TestServer) -> BTreeSet<String> {
    let document = server.get_json("/openapi.json").await;
    let mut operations = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().map(|method| method.to_uppercase());
        let methods = methods
            .filter(|method| ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str()));
        operations.extend(methods.map(|method| format!("{method} {path}")));
    }
    operations
}

#[tokio::test]
async fn every_operation_requires_its_scopes_and_no_others() {
    let (server, admin) = TestServer::with_keys().await;
    let listed: Vec<(&str, &[&str])> = OPERATIONS
        .iter()
        .flat_map(|(scopes, operations)| operations.iter().map(|operation| (*operation, *scopes)))
        .collect();
    let names: BTreeSet<String> = listed.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, documented(&server).await, "list new operations with their scopes");

    let mut keys = BTreeMap::new();
    for scopes in SCOPE_SETS {
        let wish = json!({"tenant": "default", "name": "x", "scopes": scopes});
        let made = server.post("/v1/keys").key(&admin).json(wish).send().await.json();
        keys.insert(scopes, made["key"].as_str().unwrap().to_owned());
    }
    for (operation, required) in listed {
        let (method, path) = operation.split_once(' ').unwrap();
        let path = path.replace("{id}", "x").replace("{name}", "x").replace("{kind}", "echo");
        for (scopes, key) in &keys {
            let request = server.request(Method::try_from(method).unwrap(), &path).key(key);
            let status = request.body("nonsense").send().await.status.as_u16();
            let is_allowed =
                *scopes == ["admin"] || required.iter().all(|one| scopes.contains(one));
            assert_eq!(status != 403, is_allowed, "{operation} with {scopes:?}: {status}");
        }
        // Stripe signs its events instead.
        if operation == "POST /v1/billing/stripe" {
            continue;
        }
        let without_key = server.request(Method::try_from(method).unwrap(), &path).send().await;
        assert_eq!(without_key.status.as_u16() == 401, !required.is_empty(), "{operation}");
    }
}

#[tokio::test]
async fn submit_scope_alone_allows_a_webhook_on_the_own_job() {
    let (server, admin) = TestServer::with_keys().await;
    let wish = json!({"tenant": "default", "name": "x", "scopes": ["submit"]});
    let made = server.post("/v1/keys").key(&admin).json(wish).send().await.json();
    let key = made["key"].as_str().unwrap();
    let body = json!({"kind": "echo", "input": 1, "webhook": {"url": "http://127.0.0.1:9/hook"}});
    let submitted = server.post("/v1/jobs").key(key).json(body).send().await;
    assert_eq!(submitted.status.as_u16(), 202, "{submitted:?}");
}
