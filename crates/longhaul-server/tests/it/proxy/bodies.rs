//! Bodies of any type and size in both directions.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::routing::any;
use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

use super::proxy_server::{ProxyServer, id_of};
use crate::harness::{Backend, on_both_backends};

const PIECE: usize = 64 << 10;
const PIECES: usize = 800;

/// Starts a target that echoes the body in chunks, and responds to HEAD with a length.
async fn echo() -> SocketAddr {
    let echo = |request: Request| async move {
        let (parts, body) = request.into_parts();
        let mut response = axum::response::Response::new(body);
        let content_type = parts.headers.get("content-type").cloned();
        if let Some(content_type) = content_type {
            response.headers_mut().insert("content-type", content_type);
        }
        if parts.method == Method::HEAD {
            *response.body_mut() = Body::from("seven b");
        }
        response
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/own", any(echo)).route("/own/{*below}", any(echo));
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

/// Bytes that are no text and compress badly, the same each time.
fn pieces() -> impl Iterator<Item = Bytes> {
    (0..PIECES).map(|number| {
        let mut seed = u64::try_from(number).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes = (0..PIECE).map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()[0]
        });
        bytes.collect()
    })
}

async fn proxy_streams_fifty_megabytes_both_ways(backend: Backend) {
    let server = ProxyServer::start(echo().await, backend).await;
    let body = stream::iter(pieces().map(Ok::<_, std::io::Error>));
    // Without a length: it is sent in chunks.
    let asked = server.request(Method::PUT, "/sync/big.bin").header("content-type", "image/odd");
    let response = asked.body(reqwest::Body::wrap_stream(body)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "image/odd");
    assert_eq!(response.headers()["content-length"], (PIECE * PIECES).to_string().as_str());
    let id = id_of(&response);
    let mut came = response.bytes_stream();
    let mut hash = Sha256::new();
    while let Some(piece) = came.next().await {
        hash.update(piece.unwrap());
    }
    let mut sent = Sha256::new();
    pieces().for_each(|piece| sent.update(&piece));
    assert_eq!(hash.finalize(), sent.finalize());
    let job = server.job(&id).await;
    assert_eq!(job["result"]["encoding"], "artifact");
    assert_eq!(job["artifacts"][0]["name"], "body");
    assert_eq!(job["artifacts"][0]["contentType"], "image/odd");
}

async fn proxy_returns_small_bodies_unchanged(backend: Backend) {
    let server = ProxyServer::start(echo().await, backend).await;
    for (content_type, body) in [
        ("application/json", &b"\n [1e5 , \"\\u00e9\"] "[..]),
        ("application/json", b"not json"),
        ("application/octet-stream", b"\xff\0\xfe"),
        ("text/plain", "\u{fc}\0".as_bytes()),
    ] {
        let asked = server.post("/sync").header("content-type", content_type).body(body);
        let response = asked.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], content_type);
        assert_eq!(response.bytes().await.unwrap(), body);
    }
    let none = server.request(Method::HEAD, "/sync").send().await.unwrap();
    assert_eq!(none.headers()["content-length"], "7", "of what is not sent");
}

async fn http_kind_sends_input_or_payload_of_api_jobs(backend: Backend) {
    let server = ProxyServer::start(echo().await, backend).await;
    let run = async |kind_path: &str, content_type: &str, body: &'static str| {
        let asked = server.post(kind_path).header("content-type", content_type).body(body);
        let job: serde_json::Value = asked.send().await.unwrap().json().await.unwrap();
        server.finished(job["jobId"].as_str().unwrap()).await["result"].clone()
    };
    let of_input = run("/v1/kinds/report/jobs", "application/json", r#"{"a":1}"#).await;
    assert_eq!(of_input["body"], serde_json::json!({"a": 1}));
    assert_eq!(of_input["headers"][0], serde_json::json!(["content-type", "application/json"]));
    let of_payload = run("/v1/kinds/report/jobs", "text/csv", "a;b").await;
    assert_eq!((&of_payload["body"], &of_payload["encoding"]), (&"a;b".into(), &"text".into()));
    let described = r#"{"$request":{"method":"PUT","path":"/x","headers":[["Content-Type","text/x"]],"body":7}}"#;
    let described = run("/v1/kinds/report/jobs", "application/json", described).await;
    assert_eq!((&described["body"], &described["headers"][0][1]), (&"7".into(), &"text/x".into()));
    let escaping = r#"{"$request":{"path":"/../../admin"}}"#;
    let job = server.post("/v1/kinds/report/jobs").header("content-type", "application/json");
    let job: serde_json::Value = job.body(escaping).send().await.unwrap().json().await.unwrap();
    let job = server.finished(job["jobId"].as_str().unwrap()).await;
    assert_eq!((&job["error"]["code"], &job["attempt"]), (&"bad-input".into(), &1.into()));
}

on_both_backends! {
    proxy_streams_fifty_megabytes_both_ways,
    proxy_returns_small_bodies_unchanged,
    http_kind_sends_input_or_payload_of_api_jobs,
}
