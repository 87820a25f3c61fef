//! Texts that mean something to a database, a browser, a shell or a log, in every field that a
//! caller controls: each is kept as it is, or refused.

use axum::http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{TestRequest, TestResponse, TestServer, status_url};

const CANARIES: [&str; 14] = [
    "'; DROP TABLE jobs; --",
    "x' OR '1'='1",
    "\" OR \"\"=\"",
    "%_[]\\%",
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "a\r\nx-injected: 1\r\n\r\n<html>",
    "\n{\"level\":\"ERROR\",\"message\":\"forged\"}",
    "nul\0byte",
    "\u{1b}[31mred\u{202e}",
    "${jndi:ldap://x} {{7*7}} $(id) `id` %s%n",
    "../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "\u{feff}𝕏\u{0}\u{ffff}",
];

/// A text as a part of a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    bytes.concat()
}

fn with_header(ask: TestRequest, name: &str, canary: &str) -> Option<TestRequest> {
    HeaderValue::from_str(canary).ok().map(|_| ask.header(name, canary))
}

/// Checks the properties that every response must have.
fn assert_inert(response: &TestResponse, what: &str) {
    assert!(!response.status.is_server_error(), "{what}: {response:?}");
    assert!(!response.headers.contains_key("x-injected"), "{what}: {response:?}");
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    if !response.status.is_success() {
        response.problem();
    }
}

/// Asserts that each text was stored unchanged or rejected.
async fn assert_kept(server: &TestServer, response: &TestResponse, pointer: &str, canary: &str) {
    assert_inert(response, canary);
    if response.status.is_success() {
        let job = server.get(status_url(&response.json())).send().await.json();
        assert_eq!(job.pointer(pointer), Some(&json!(canary)), "{job}");
    }
}

#[tokio::test]
async fn hostile_names_of_kinds_queues_artifacts_and_jobs_are_rejected() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    for canary in CANARIES {
        let path = encoded(canary);
        let submit = |body: Value| server.post("/v1/jobs").json(body);
        for ask in [
            submit(json!({"kind": canary, "input": 1})),
            submit(json!({"kind": "echo", "queue": canary, "input": 1})),
            submit(json!({"kind": "echo", "input": 1, "runAt": canary})),
            submit(json!({"kind": "echo", "input": 1, "delay": canary})),
            submit(json!({"kind": "echo", "input": 1, canary: 1})),
            server.post(&format!("/v1/kinds/{path}/jobs")).json(json!(1)),
            server.post(&format!("/v1/queues/{path}/pause")),
            server.get(&format!("/v1/jobs/{path}")),
            server.get(&format!("{}/artifacts/{path}", status_url(&job))),
            server.get(&format!("/v1/jobs?cursor={path}")),
            server.get(&format!("/v1/jobs?status={path}")),
            server.get(&format!("/v1/jobs?createdAfter={path}")),
            server.get(&format!("/v1/jobs?{path}=1")),
            server.get(&format!("{}?wait={path}", status_url(&job))),
            server.post(&format!("{}/fork", status_url(&job))).json(json!({"fromStep": canary})),
        ] {
            let response = ask.send().await;
            assert_inert(&response, canary);
            assert!(response.status.is_client_error(), "{canary:?}: {response:?}");
        }
    }
    assert_eq!(server.get(status_url(&job)).send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn hostile_labels_and_inputs_are_stored_unchanged_and_searchable() {
    let server = TestServer::start().await;
    for canary in CANARIES {
        let pointer = format!("/labels/{}", canary.replace('~', "~0").replace('/', "~1"));
        let named = json!({"kind": "gated", "input": canary, "labels": {canary: canary}});
        let response = server.post("/v1/jobs").json(named).send().await;
        assert_kept(&server, &response, &pointer, canary).await;
        if !response.status.is_success() {
            continue;
        }
        let job = response.json();
        let input = server.get(&format!("{}/input", status_url(&job))).send().await;
        assert_eq!(input.json(), json!(canary));
        let query = format!("/v1/jobs?label.{}={}", encoded(canary), encoded(canary));
        let found = server.get(&query).send().await.json();
        let ids: Vec<&Value> =
            found["jobs"].as_array().unwrap().iter().map(|found| &found["jobId"]).collect();
        assert_eq!(ids, [&job["jobId"]], "{canary:?} finds its own job and no other");
        let bulk = json!({"filter": {"labels": {canary: canary}}});
        let cancelled = server.post("/v1/jobs/cancel").json(bulk).send().await;
        assert_eq!(cancelled.json()["count"], 1, "{cancelled:?}");
    }
}

#[tokio::test]
async fn hostile_idempotency_keys_are_stored_unchanged_or_rejected() {
    let server = TestServer::start().await;
    for canary in CANARIES {
        let body = || json!({"kind": "gated", "input": 1});
        if let Some(ask) = with_header(server.post("/v1/jobs"), "idempotency-key", canary) {
            let response = ask.json(body()).send().await;
            assert_kept(&server, &response, "/idempotencyKey", canary).await;
        }
        let mut job = body();
        job["idempotencyKey"] = canary.into();
        let response = server.post("/v1/jobs/batch").json(json!({"jobs": [job]})).send().await;
        assert_inert(&response, canary);
        let first = &response.json()[0];
        let kept = first["idempotencyKey"] == json!(canary);
        assert!(kept || first["code"] == "idempotency-key-invalid", "{first}");
    }
}

#[tokio::test]
async fn hostile_headers_are_parsed_ignored_or_rejected() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    for canary in CANARIES {
        for name in ["if-none-match", "last-event-id", "prefer", "range", "x-forwarded-for"] {
            for path in [status_url(&job).to_owned(), format!("{}/events", status_url(&job))] {
                if let Some(ask) = with_header(server.get(&path), name, canary) {
                    assert_inert(&ask.send().await, canary);
                }
            }
        }
        let Some(ask) = with_header(server.get("/nowhere"), "x-request-id", canary) else {
            continue;
        };
        let response = ask.send().await;
        assert_inert(&response, canary);
        let id = response.header("x-request-id").unwrap();
        assert!(id == canary || id.len() == 26, "{id}");
    }
}

#[tokio::test]
async fn hostile_upload_names_are_stored_unchanged_or_rejected() {
    let server = TestServer::with_payload_kinds().await;
    for canary in CANARIES {
        let file = canary.replace('\\', "\\\\").replace('"', "\\\"");
        let body = format!(
            "--X\r\ncontent-disposition: form-data; name=\"job\"\r\n\r\n\
             {{\"kind\":\"copy\",\"input\":1}}\r\n\
             --X\r\ncontent-disposition: form-data; name=\"payload\"; filename=\"{file}\"\r\n\
             content-type: text/plain\r\n\r\nhello\r\n--X--\r\n"
        );
        let ask = server.post("/v1/jobs").header("content-type", "multipart/form-data; boundary=X");
        let response = ask.body(body).send().await;
        assert_inert(&response, canary);
        if response.status.is_success() {
            let job = server.until(&response.json(), |job| job["completedAt"].is_string()).await;
            assert_eq!(job["status"], "completed", "{canary:?}: {job}");
            let receipt = server.get(&format!("{}/receipt", status_url(&job))).send().await;
            assert_inert(&receipt, canary);
            for artifact in job["artifacts"].as_array().unwrap() {
                let got = server.get(artifact["url"].as_str().unwrap()).send().await;
                // A line break ends the part's head, which is its sender's own affair.
                assert!(got.status == StatusCode::OK && got.text().ends_with("hello"), "{got:?}");
            }
        }
    }
}

#[tokio::test]
async fn hostile_methods_are_rejected() {
    let server = TestServer::start().await;
    for canary in ["<SCRIPT>", "GET/../", "'OR'1", "PROPFIND", "TRACE"] {
        let Ok(method) = Method::from_bytes(canary.as_bytes()) else { continue };
        let response = server.request(method, "/v1/jobs").send().await;
        assert_eq!(response.problem(), (405, "method-not-allowed".to_owned()), "{canary}");
    }
}
