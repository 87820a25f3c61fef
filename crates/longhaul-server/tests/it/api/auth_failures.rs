//! The limit on failed authentication attempts of a client address.

use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use longhaul_server::auth::AuthSettings;
use serde_json::json;

use crate::harness::{TestResponse, TestServer};

/// Starts a server that requires keys and allows three failures per minute, by a clock that the test moves.
async fn start() -> (TestServer, String) {
    let settings = AuthSettings {
        require_keys: true,
        failures_per_minute: Some(3),
        ..AuthSettings::default()
    };
    let builder = TestServer::builder().auth(settings).expire_keys_by_request_clock();
    builder.start_with_key().await
}

/// Sends a well-formed key that the server does not know.
async fn attempt(server: &TestServer, admin: &str, address: &str) -> TestResponse {
    let body = admin.rsplit_once('_').unwrap().0;
    let (body, last) = body.split_at(body.len() - 1);
    let body = format!("{body}{}", if last == "0" { "1" } else { "0" });
    let unknown = format!("{body}_{:08x}", crc32fast::hash(body.as_bytes()));
    server.get("/v1/jobs").key(&unknown).client_address(address).send().await
}

#[tokio::test]
async fn invalid_credentials_get_429_above_the_limit_in_every_header() {
    let (server, admin) = start().await;
    let basic = format!("Basic {}", BASE64_STANDARD.encode("user:lh_wrong"));
    let headers = [
        ("authorization", "Bearer lh_wrong"),
        ("authorization", basic.as_str()),
        ("authorization", "Digest x"),
        ("x-api-key", "lh_wrong"),
    ];
    for (place, (name, value)) in headers.into_iter().enumerate() {
        let address = format!("192.0.2.{place}");
        let ask = || server.get("/v1/jobs").client_address(&address);
        for _ in 0..3 {
            let rejected = ask().header(name, value).send().await;
            assert_eq!(rejected.problem(), (401, "unauthorized".to_owned()), "{name}: {value}");
        }
        let limited = ask().header(name, value).send().await;
        assert_eq!(limited.problem(), (429, "too-many-requests".to_owned()), "{name}: {value}");
        assert_eq!(limited.header("retry-after"), Some("20"));
        let accepted = ask().key(&admin).send().await;
        assert_eq!(accepted.status, StatusCode::OK, "a valid key is accepted: {accepted:?}");
        let without = ask().send().await;
        assert_eq!(without.problem(), (401, "unauthorized".to_owned()), "no attempt");
    }
}

#[tokio::test]
async fn failure_limit_recovers_with_time() {
    let (server, admin) = start().await;
    let attempt = async || attempt(&server, &admin, "192.0.2.1").await.status.as_u16();
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(attempt().await);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    server.state.clock.advance(Duration::from_secs(20));
    assert_eq!([attempt().await, attempt().await], [401, 429]);
}

#[tokio::test]
async fn failures_are_counted_by_client_network() {
    let (server, admin) = start().await;
    for address in ["192.0.2.1", "2001:db8:0:1::1"] {
        for _ in 0..3 {
            assert_eq!(attempt(&server, &admin, address).await.status.as_u16(), 401);
        }
    }
    for (address, status) in [
        ("192.0.2.1", 429),
        ("::ffff:192.0.2.1", 429),
        ("192.0.2.2", 401),
        ("2001:db8:0:1:ffff::2", 429),
        ("2001:db8:0:2::1", 401),
    ] {
        assert_eq!(attempt(&server, &admin, address).await.status.as_u16(), status, "{address}");
    }
}

#[tokio::test]
async fn new_key_is_accepted_from_a_limited_address() {
    let (server, admin) = start().await;
    for _ in 0..100 {
        attempt(&server, &admin, "192.0.2.1").await;
    }
    let wish = json!({"name": "x", "scopes": ["read"]});
    let made = server.post("/v1/keys").key(&admin).json(wish).send().await.json();
    let key = made["key"].as_str().unwrap();
    let accepted = server.get("/v1/jobs").key(key).client_address("192.0.2.1").send().await;
    assert_eq!(accepted.status, StatusCode::OK, "{accepted:?}");
    assert_eq!(attempt(&server, &admin, "192.0.2.1").await.status.as_u16(), 429);
}

#[tokio::test]
async fn failures_are_not_limited_where_no_key_is_required() {
    let settings = AuthSettings { failures_per_minute: Some(1), ..AuthSettings::default() };
    let server = TestServer::builder().auth(settings).start().await;
    for _ in 0..3 {
        let accepted =
            server.get("/v1/jobs").key("lh_wrong").client_address("192.0.2.1").send().await;
        assert_eq!(accepted.status, StatusCode::OK);
    }
}
