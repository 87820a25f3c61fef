use axum::http::{Method, StatusCode};
use serde_json::json;

use super::browser::{Browser, id_of, run};
use crate::harness::{TestRequest, TestServer};

/// Every address that changes something.
fn changes(id: &str) -> Vec<String> {
    let of_job = ["cancel", "resume", "fork", "purge"].map(|what| format!("/ui/jobs/{id}/{what}"));
    let bulk = ["cancel", "resume", "purge"].map(|what| format!("/ui/jobs/bulk/{what}"));
    let others = [
        "/ui/submit/echo",
        "/ui/queues/default/pause",
        "/ui/queues/default/resume",
        "/ui/webhooks",
        "/ui/webhooks/ep_1/test",
        "/ui/webhooks/ep_1/on",
        "/ui/webhooks/ep_1/off",
        "/ui/webhooks/ep_1/delete",
        "/ui/deliveries/01ARZ3NDEKTSV4RRFFQ69G5FAV/resend",
        "/ui/keys",
        "/ui/keys/abc/revoke",
        "/ui/tenants",
        "/ui/tenants/acme/subscription",
        "/ui/sign-out",
        "/ui/sign-in",
    ];
    let resend = format!("/ui/jobs/{id}/deliveries/01ARZ3NDEKTSV4RRFFQ69G5FAV/resend");
    let others = others.map(str::to_owned);
    of_job.into_iter().chain(bulk).chain(others).chain([resend]).collect()
}

fn form(ask: TestRequest, path: &str, token: &str) -> TestRequest {
    // Submitting is sent in parts, because it may bring a file.
    if path.starts_with("/ui/submit") {
        let body = format!(
            "--x\r\ncontent-disposition: form-data; name=\"token\"\r\n\r\n{token}\r\n--x--\r\n"
        );
        return ask.header("content-type", "multipart/form-data; boundary=x").body(body);
    }
    let ask = ask.header("content-type", "application/x-www-form-urlencoded");
    ask.body(format!("token={token}&job=x&which=selected"))
}

#[tokio::test]
async fn form_token_of_another_session_is_rejected_on_every_form() {
    let (server, admin) = TestServer::with_keys().await;
    let id = run(&server, &admin, "echo", json!(1)).await;
    let one = Browser::signed_in(&server, &admin).await;
    let other = Browser::signed_in(&server, &admin).await;
    let theirs = other.token("/").await;
    assert_ne!(theirs, one.token("/").await);
    for path in changes(&id) {
        for token in ["", "x", theirs.as_str()] {
            let response = form(one.request(Method::POST, &path), &path, token).send().await;
            assert_eq!(
                response.status,
                StatusCode::FORBIDDEN,
                "{path} {token}: {}",
                response.text()
            );
            assert!(
                response.text().contains("not from this session"),
                "{path}: {}",
                response.text()
            );
        }
    }
    let entries = server.get("/v1/audit").key(&admin).send().await.json();
    assert_eq!(entries["entries"].as_array().unwrap().len(), 1, "only the first key: {entries}");
}

#[tokio::test]
async fn cross_site_forms_are_rejected() {
    let hosts = vec!["jobs.example".to_owned()];
    let server = TestServer::with_state(|state| state.hosts = hosts).await;
    let job = server.run("echo", json!(1)).await;
    let token = Browser::of(&server).token("/ui/jobs").await;
    let id = id_of(&job);
    let bare = |path: &str| {
        server.post(path).header("accept", "text/html").header("host", "jobs.example:8080")
    };
    for path in changes(&id) {
        for site in ["cross-site", "same-site", "none"] {
            let ask = bare(&path).header("sec-fetch-site", site);
            let response = form(ask, &path, &token).send().await;
            assert_eq!(response.status, StatusCode::FORBIDDEN, "{path} {site}");
        }
        for origin in ["https://evil.example", "null", "https://jobs.example", "jobs.example:8080"]
        {
            let ask = bare(&path).header("origin", origin);
            let response = form(ask, &path, &token).send().await;
            assert_eq!(response.status, StatusCode::FORBIDDEN, "{path} {origin}");
        }
        let response = form(bare(&path), &path, &token).send().await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{path} without either");
    }
    // An older browser sends only the origin.
    let path = format!("/ui/jobs/{id}/fork");
    let ask = bare(&path).header("origin", "http://jobs.example:8080");
    assert_eq!(form(ask, &path, &token).send().await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn read_only_key_sees_no_actions_and_cannot_perform_them() {
    let (server, admin) = TestServer::with_keys().await;
    let id = run(&server, &admin, "fails", json!(1)).await;
    let reader = Browser::with_scopes(&server, &admin, &["read"]).await;
    for path in ["/", "/ui/jobs", &format!("/ui/jobs/{id}"), "/ui/webhooks", "/ui/usage"] {
        let page = reader.page(path).await;
        for offer in [
            "Cancel…",
            "Resume…",
            "Purge…",
            "Fork…",
            "Pause",
            ">Create ",
            ">Submit<",
            ">Keys<",
            ">Audit<",
            "type=\"checkbox\" name=\"job\"",
        ] {
            assert!(!page.contains(offer), "{offer} on {path}");
        }
    }
    let token = reader.token("/").await;
    for path in changes(&id).iter().filter(|path| !path.starts_with("/ui/sign")) {
        let response = form(reader.request(Method::POST, path), path, &token).send().await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{path}");
        assert!(
            response.text().contains("requires a key or token with scope"),
            "{path}: {}",
            response.text()
        );
    }
    for path in ["/ui/submit", "/ui/submit/echo", "/ui/keys", "/ui/tenants", "/ui/audit"] {
        assert_eq!(reader.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}
