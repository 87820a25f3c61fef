//! Calls from other origins' pages.

use axum::http::{HeaderValue, Method, StatusCode};
use serde_json::json;

use crate::harness::{TestRequest, TestResponse, TestServer};

const APP: &str = "https://app.example";

async fn allowing(origins: &[&'static str]) -> TestServer {
    let origins = origins.iter().map(|origin| HeaderValue::from_static(origin)).collect();
    TestServer::with_state(|state| state.origins = origins).await
}

fn preflight(server: &TestServer, origin: &str) -> TestRequest {
    server
        .request(Method::OPTIONS, "/v1/jobs")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,idempotency-key")
}

fn cors_headers(response: &TestResponse) -> Vec<String> {
    let names = response.headers.keys().map(ToString::to_string);
    names.filter(|name| name.starts_with("access-control-")).collect()
}

#[tokio::test]
async fn cors_denies_other_origins_by_default() {
    let server = TestServer::start().await;
    let asked = preflight(&server, APP).send().await;
    assert_eq!(asked.problem(), (403, "cross-site".to_owned()));
    let (server, key) = TestServer::with_keys().await;
    let asked = preflight(&server, APP).key(&key).send().await;
    assert_eq!(asked.problem(), (405, "method-not-allowed".to_owned()));
    let read = server.get("/v1/jobs").key(&key).header("origin", APP).send().await;
    assert_eq!(read.status, StatusCode::OK);
    assert!(cors_headers(&asked).is_empty() && cors_headers(&read).is_empty());
    assert_eq!(read.header("vary"), None);
}

#[tokio::test]
async fn cors_allows_a_configured_origin_and_exposes_headers() {
    let server = allowing(&[APP, "http://localhost:3000"]).await;
    let asked = preflight(&server, APP).send().await;
    assert_eq!(asked.status, StatusCode::OK);
    assert_eq!(asked.header("access-control-allow-origin"), Some(APP));
    assert!(asked.header("access-control-allow-methods").unwrap().contains("POST"));
    let allowed = asked.header("access-control-allow-headers").unwrap();
    for name in ["authorization", "x-api-key", "idempotency-key", "content-type", "prefer"] {
        assert!(allowed.contains(name), "{allowed}");
    }
    assert!(asked.header("x-request-id").is_some());

    let body = json!({"kind": "echo", "input": 1});
    let made = server.post("/v1/jobs").header("origin", APP).json(body).send().await;
    assert_eq!(made.status, StatusCode::ACCEPTED);
    assert_eq!(made.header("access-control-allow-origin"), Some(APP));
    let exposed = made.header("access-control-expose-headers").unwrap();
    for name in ["location", "retry-after", "etag", "x-request-id", "ratelimit-policy"] {
        assert!(exposed.contains(name), "{exposed}");
    }
    let refused = server.get("/v1/jobs/x").header("origin", APP).send().await;
    assert_eq!(refused.header("access-control-allow-origin"), Some(APP), "errors can be read too");
    for response in [asked, made, refused] {
        assert_eq!(response.header("access-control-allow-credentials"), None);
        assert!(response.header("vary").unwrap().contains("origin"));
    }
}

#[tokio::test]
async fn cors_denies_origins_that_are_not_configured() {
    let server = allowing(&[APP]).await;
    for origin in ["https://app.example.evil", "https://evil.example", "http://app.example", "null"]
    {
        let asked = preflight(&server, origin).send().await;
        assert_eq!(asked.header("access-control-allow-origin"), None, "{origin}");
    }
}

#[tokio::test]
async fn cors_wildcard_allows_all_origins_without_credentials() {
    let server = allowing(&["*"]).await;
    let asked = preflight(&server, "https://anybody.example").send().await;
    assert_eq!(asked.header("access-control-allow-origin"), Some("*"));
    assert_eq!(asked.header("access-control-allow-credentials"), None);
}
