//! Long responses to callers that lose their permission meanwhile.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use longhaul_server::secret::Secret;
use serde_json::{Value, json};

use crate::harness::{ResponseStream, TestRequest, TestServer, status_url};

/// A tenant's job that runs until the gate opens, and the key that it was submitted with.
struct Case {
    server: TestServer,
    admin: String,
    key: String,
    key_id: String,
    job: Value,
}

impl Case {
    async fn new() -> Self {
        let (server, admin) = TestServer::with_expiring_keys().await;
        server.post("/v1/tenants").key(&admin).json(json!({"id": "acme"})).send().await;
        let ends_at = server.state.clock.now().after(Duration::from_hours(1)).to_string();
        let wish = json!({
            "tenant": "acme", "name": "a", "scopes": ["submit", "read"], "expiresAt": ends_at,
        });
        let made = server.post("/v1/keys").key(&admin).json(wish).send().await.json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let (key, key_id) = (text("key"), text("id"));
        let submit = server.post("/v1/jobs").key(&key);
        let job = submit.json(json!({"kind": "gated", "input": 7})).send().await.json();
        let mut case = Self { server, admin, key, key_id, job };
        while case.job["status"] != "running" {
            let tag = format!("\"{}\"", case.job["version"]);
            let held = case.get(&format!("{}?wait=60", status_url(&case.job)));
            let response = held.header("if-none-match", &tag).send().await;
            case.job = response.json();
        }
        case
    }

    fn get(&self, path: &str) -> TestRequest {
        self.server.get(path).key(&self.key)
    }

    fn events(&self) -> TestRequest {
        self.get(self.job["eventsUrl"].as_str().unwrap())
    }

    /// Opens a stream and reads the current state.
    async fn watched(&self) -> ResponseStream {
        let mut stream = self.events().open().await;
        assert_eq!(stream.event().await.unwrap().1["status"], "running");
        stream
    }

    async fn revoke(&self) {
        let path = format!("/v1/keys/{}", self.key_id);
        let revoked = self.server.delete(&path).key(&self.admin).send().await;
        assert!(revoked.status.is_success(), "{revoked:?}");
    }

    async fn suspend(&self) {
        let patch = self.server.request(Method::PATCH, "/v1/tenants/acme").key(&self.admin);
        let patched = patch.json(json!({"subscription": "suspended"})).send().await;
        assert_eq!(patched.status, StatusCode::OK, "{patched:?}");
    }

    /// Returns the rest of a stream while time passes.
    async fn rest(&self, mut stream: ResponseStream) -> Vec<String> {
        let read = tokio::spawn(async move {
            let mut pieces = Vec::new();
            while let Some(piece) = stream.chunk().await {
                pieces.push(piece);
            }
            pieces
        });
        while !read.is_finished() {
            self.server.state.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        read.await.unwrap()
    }

    /// Asserts that the stream has ended without a further event, and that a new request gets the reason.
    async fn is_shut_out(&self, stream: ResponseStream, status: u16, code: &str) {
        assert_eq!(self.rest(stream).await, [""; 0]);
        assert_eq!(self.events().send().await.problem(), (status, code.to_owned()));
    }
}

#[tokio::test]
async fn event_stream_ends_soon_after_its_key_is_revoked() {
    let case = Case::new().await;
    let stream = case.watched().await;
    case.revoke().await;
    case.is_shut_out(stream, 401, "unauthorized").await;
}

#[tokio::test]
async fn all_event_streams_of_a_key_end_soon_after_it_is_revoked() {
    let case = Case::new().await;
    let (one, other) = (case.watched().await, case.watched().await);
    case.revoke().await;
    case.is_shut_out(one, 401, "unauthorized").await;
    case.is_shut_out(other, 401, "unauthorized").await;
}

#[tokio::test]
async fn event_stream_ends_soon_after_its_tenant_is_suspended() {
    let case = Case::new().await;
    let stream = case.watched().await;
    case.suspend().await;
    case.is_shut_out(stream, 402, "subscription-inactive").await;
}

#[tokio::test]
async fn event_stream_ends_when_its_key_expires() {
    let case = Case::new().await;
    let stream = case.watched().await;
    case.server.state.clock.advance(Duration::from_hours(1));
    case.is_shut_out(stream, 401, "unauthorized").await;
}

#[tokio::test]
async fn event_stream_hides_transitions_after_its_key_expired() {
    let case = Case::new().await;
    let stream = case.watched().await;
    case.revoke().await;
    case.server.state.clock.advance(Duration::from_secs(2));
    case.server.open_gate();
    case.is_shut_out(stream, 401, "unauthorized").await;
}

#[tokio::test]
async fn event_stream_of_an_authorized_caller_lasts_for_hours() {
    let case = Case::new().await;
    let mut stream = case.watched().await;
    for _ in 0..3 {
        let read = tokio::spawn(async move { (stream.chunk().await, stream) });
        while !read.is_finished() {
            case.server.state.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        let piece;
        (piece, stream) = read.await.unwrap();
        assert_eq!(piece.as_deref(), Some(": keep-alive\n\n"));
    }
    case.server.open_gate();
    assert_eq!(stream.event().await.unwrap().1["status"], "completed");
}

#[tokio::test]
async fn long_poll_returns_nothing_to_a_key_revoked_meanwhile() {
    let case = Case::new().await;
    let tag = format!("\"{}\"", case.job["version"]);
    let held =
        case.get(&format!("{}?wait=60", status_url(&case.job))).header("if-none-match", &tag);
    let held = tokio::spawn(held.send());
    // The revocation may also come first; the response is the same.
    tokio::task::yield_now().await;
    case.revoke().await;
    case.server.open_gate();
    assert_eq!(held.await.unwrap().problem(), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn waiting_caller_that_is_suspended_gets_the_job_without_its_result() {
    let case = Case::new().await;
    let ask = case.server.post("/v1/jobs").key(&case.key).header("prefer", "wait=60");
    let body = json!({"kind": "gated", "input": "a secret"});
    let held = tokio::spawn(ask.json(body).send());
    while case.server.runs() < 2 {
        tokio::task::yield_now().await;
    }
    case.suspend().await;
    case.server.open_gate();
    case.server.open_gate();
    let told = held.await.unwrap();
    assert_eq!(told.status, StatusCode::ACCEPTED, "{told:?}");
    assert_eq!(told.json()["status"], "pending");
    assert!(!told.text().contains("a secret"), "{told:?}");
}

/// A stream keeps its credential for later checks; `Debug` must not print it.
#[test]
fn credential_is_not_printed_by_debug() {
    let shown = Secret::new("lh_a_b_c").unwrap();
    assert_eq!(format!("{shown:?}"), "***");
}
