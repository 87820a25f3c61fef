//! Security headers of responses.

use serde_json::json;

use crate::harness::{TestServer, status_url};

#[tokio::test]
async fn every_response_has_nosniff_and_a_referrer_policy() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    for path in
        ["/", "/docs", "/ui/app.js", "/openapi.json", "/livez", "/nowhere", status_url(&job)]
    {
        let response = server.get(path).send().await;
        // Our own pages tell each other where a form comes from.
        let policy = if ["/", "/docs"].contains(&path) { "same-origin" } else { "no-referrer" };
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(response.header("referrer-policy"), Some(policy), "{path}");
        assert_eq!(response.header("strict-transport-security"), None, "{path}");
    }
}

#[tokio::test]
async fn tenant_data_is_not_cached() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    let of = |part: &str| format!("{}{part}", status_url(&job));
    for path in [of(""), of("/input"), of("/result"), of("/events"), of("/nowhere"), "/".to_owned()]
    {
        let response = server.get(&path).send().await;
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
    }
    let style = server.get("/ui/style.css").send().await;
    assert_eq!(style.header("cache-control"), Some("no-cache"), "kept, and asked about each time");
}

#[tokio::test]
async fn pages_cannot_be_framed() {
    let server = TestServer::start().await;
    for path in ["/", "/docs"] {
        let response = server.get(path).send().await;
        assert_eq!(response.header("x-frame-options"), Some("DENY"));
        let policy = response.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        // What the policy would break, the pages do not use.
        for inline in ["<style", "style=", "onclick", "javascript:"] {
            assert!(!response.text().contains(inline), "{inline} in {path}");
        }
    }
}

#[tokio::test]
async fn uploaded_html_is_sandboxed() {
    let server = TestServer::with_payload_kinds().await;
    let page = "<script>alert(document.domain)</script>";
    let sent = server
        .post("/v1/kinds/copy/jobs?mode=sync")
        .header("content-type", "text/html")
        .body(page.to_owned())
        .send()
        .await
        .json();
    let artifact = sent["artifacts"][0]["url"].as_str().unwrap();
    let response = server.get(artifact).send().await;
    assert_eq!((response.text(), response.header("content-type")), (page, Some("text/html")));
    let disposition = response.header("content-disposition").unwrap();
    assert!(disposition.starts_with("attachment;"), "{disposition}");
    assert_eq!(response.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(response.header("x-frame-options"), Some("DENY"));
    assert_eq!(response.header("cache-control"), Some("private, no-cache"));
}
