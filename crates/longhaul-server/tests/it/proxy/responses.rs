//! Waiting callers get exactly the target's response.

use axum::http::Method;
use serde_json::json;

use super::proxy_server::{ProxyServer, id_of, json_of};
use crate::harness::{Backend, FakeHttpServer, Reply, on_both_backends};

const ODD: &str = "Content-Type: application/json\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
                   X-Odd: schl\u{fc}ssel \u{2713}\r\nServer: theirs\r\nCache-Control: max-age=9\r\n\
                   X-Request-Id: the-targets-own\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
                   Keep-Alive: timeout=5\r\nTrailer: x\r\n";
const SPACED: &str = " {\"n\": 1.50,  \"n\": 2}\r\n";

async fn synchronous_proxy_response_is_the_targets_response(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Answer(201, ODD, SPACED)).await;
    let server = ProxyServer::start(target.address, backend).await;
    let asked = server
        .request(Method::PUT, "/reports/7%20x;v=1?a=%2F&mode=sync&b")
        .header("content-type", "text/csv")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("x-forwarded-for", "1.2.3.4")
        .header("prefer", "wait=55")
        .header("cookie", "session=secret")
        .body("a;b\n1;2\n");
    let response = asked.send().await.unwrap();
    assert_eq!(response.status(), 201);
    let headers = response.headers().clone();
    let all = |name: &str| -> Vec<Vec<u8>> {
        headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect()
    };
    assert_eq!(all("set-cookie"), [b"a=1", b"b=2"]);
    assert_eq!(all("x-odd"), ["schl\u{fc}ssel \u{2713}".as_bytes()]);
    assert_eq!(all("server"), [b"theirs"]);
    assert_eq!(all("cache-control"), [b"max-age=9"]);
    assert_eq!(all("x-request-id"), [b"the-targets-own"]);
    assert_eq!(all("preference-applied"), [b"wait=55"]);
    for none in ["x-hop", "keep-alive", "trailer", "x-content-type-options", "referrer-policy"] {
        assert_eq!(all(none), [b""; 0], "{none}");
    }
    let id = id_of(&response);
    assert_eq!(response.bytes().await.unwrap(), SPACED);

    let got = target.first(1).await.remove(0);
    assert!(got.head.starts_with("PUT /own/7%20x;v=1?k=1&a=%2F&b HTTP/1.1\r\n"), "{}", got.head);
    assert_eq!(got.body, b"a;b\n1;2\n");
    for (name, value) in [
        ("host", target.address.to_string().as_str()),
        ("content-type", "text/csv"),
        ("content-length", "8"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("idempotency-key", &id),
        ("longhaul-job-id", &id),
        ("longhaul-attempt", "1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", &server.address.to_string()),
    ] {
        assert_eq!(got.header(name), value, "{name}");
    }
    for none in ["prefer:", "cookie:", "transfer-encoding:"] {
        assert!(!got.head.to_ascii_lowercase().contains(none), "{none} in {}", got.head);
    }

    let job = server.job(&id).await;
    assert_eq!((job["status"].as_str(), job["attempt"].as_u64()), (Some("completed"), Some(1)));
    let result = server.get(&format!("/v1/jobs/{id}/result")).send().await.unwrap();
    let result = result.text().await.unwrap();
    assert!(result.contains(r#""body":{"n": 1.50,  "n": 2}"#), "{result}");
}

async fn asynchronous_proxy_request_returns_the_job(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Answer(200, "", "done")).await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server.post("/reports").body("x").send().await.unwrap();
    assert_eq!(response.status(), 202);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    assert!(response.headers().contains_key("retry-after"));
    let job: serde_json::Value = response.json().await.unwrap();
    assert_eq!(job["statusUrl"], location);
    let id = job["jobId"].as_str().unwrap();
    let job = server.finished(id).await;
    let result = json_of(server.get(&format!("/v1/jobs/{id}/result"))).await;
    assert_eq!(job["result"], result);
    assert_eq!(result, json!({"status": 200, "headers": [], "body": "done", "encoding": "text"}));

    // A caller can opt out of waiting on a synchronous route.
    let unasked = server.post("/sync?mode=async").body("x").send().await.unwrap();
    assert_eq!(unasked.status(), 202);
    let preferred = server.post("/sync").header("prefer", "respond-async").body("x").send().await;
    assert_eq!(preferred.unwrap().status(), 202);
}

async fn proxy_returns_the_job_after_the_wait_timeout(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Hang).await;
    let server = ProxyServer::start(target.address, backend).await;
    let asked = server.post("/reports").header("prefer", "wait=1").body("x");
    let response = asked.send().await.unwrap();
    assert_eq!(response.status(), 202);
    assert_eq!(response.headers()["preference-applied"], "wait=1");
    assert!(!response.headers().contains_key("longhaul-job-id"));
    assert_eq!(response.json::<serde_json::Value>().await.unwrap()["completedAt"], json!(null));
}

async fn proxy_returns_redirects_and_empty_responses_unchanged(backend: Backend) {
    let target = FakeHttpServer::start(|number, got| match number {
        0 => Reply::Answer(302, "Location: http://169.254.169.254/\r\n", "over there"),
        1 => Reply::Answer(304, "ETag: \"x\"\r\n", ""),
        2 => Reply::Answer(200, "Content-Type: text/html\r\n", "<script>1</script>"),
        _ => {
            assert!(got.head.starts_with("DELETE "), "{}", got.head);
            Reply::Answer(200, "", "")
        }
    })
    .await;
    let server = ProxyServer::start(target.address, backend).await;
    let moved = server.get("/sync").send().await.unwrap();
    assert_eq!(
        (moved.status().as_u16(), &moved.headers()["location"]),
        (302, &"http://169.254.169.254/".parse().unwrap())
    );
    assert_eq!(moved.text().await.unwrap(), "over there");
    let unchanged = server.get("/sync").header("if-none-match", "\"x\"").send().await.unwrap();
    assert_eq!(
        (unchanged.status().as_u16(), &unchanged.headers()["etag"]),
        (304, &"\"x\"".parse().unwrap())
    );
    let page = server.get("/sync/").send().await.unwrap();
    assert!(!page.headers().contains_key("content-security-policy"), "a page is the target's own");
    assert_eq!(page.text().await.unwrap(), "<script>1</script>");
    let empty = server.request(Method::DELETE, "/sync/1").send().await.unwrap();
    assert_eq!(empty.headers()["content-length"], "0");
}

/// Events, webhooks, lists: a proxied request is a job like any other.
async fn proxied_job_has_ordinary_events(backend: Backend) {
    let target = FakeHttpServer::start(|_, _| Reply::Answer(200, "", "done")).await;
    let server = ProxyServer::start(target.address, backend).await;
    let response = server.post("/sync").body("x").send().await.unwrap();
    let events = server.get(&format!("/v1/jobs/{}/events", id_of(&response)));
    let text = events.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("event: job\n") && text.contains("\"status\":\"completed\""), "{text}");
}

on_both_backends! {
    synchronous_proxy_response_is_the_targets_response,
    asynchronous_proxy_request_returns_the_job,
    proxy_returns_the_job_after_the_wait_timeout,
    proxy_returns_redirects_and_empty_responses_unchanged,
    proxied_job_has_ordinary_events,
}
