use axum::http::{Method, StatusCode};
use serde_json::json;

use super::browser::{Browser, id_of, run};
use crate::harness::TestServer;

#[tokio::test]
async fn failed_job_page_shows_the_error_and_resumes() {
    let server = TestServer::start().await;
    let id = id_of(&server.run("fails", json!({"a": "what went in"})).await);
    let browser = Browser::of(&server);
    let path = format!("/ui/jobs/{id}");
    let page = browser.page(&path).await;
    for said in [
        "the disk is made of cheese",
        "Attempt 1 failed. Not retryable. <code>cheese</code>",
        "what went in",
        "Attempt 1",
        "Resume…",
        "Purge…",
    ] {
        assert!(page.contains(said), "{said} in {page}");
    }
    assert!(!page.contains("Cancel…") && !page.contains("data-events"), "it has ended");
    let sent = browser.send(&path, &format!("{path}/resume"), &[]).await;
    assert_eq!(sent.header("location"), Some(format!("{path}?did=resume").as_str()));
    assert!(browser.follow(&sent).await.contains("Job queued"));
}

#[tokio::test]
async fn job_page_forks_from_a_chosen_step() {
    let server = TestServer::start().await;
    let id = id_of(&server.run("steps", json!(null)).await);
    let browser = Browser::of(&server);
    let path = format!("/ui/jobs/{id}");
    let page = browser.page(&path).await;
    assert!(page.contains("name=\"from-step\" value=\"two\""), "{page}");
    let sent = browser.send(&path, &format!("{path}/fork"), &[("from-step", "two")]).await;
    let fork = browser.follow(&sent).await;
    assert!(fork.contains("Job forked.") && fork.contains("Forked from"), "{fork}");
    assert!(fork.contains("Copied from the forked job"), "{fork}");
    let entry = server.get("/v1/audit").send().await.json()["entries"][0].clone();
    assert_eq!((&entry["action"], &entry["detail"]), (&json!("job.fork"), &json!("from \"two\"")));
    let unknown = browser.send(&path, &format!("{path}/fork"), &[("from-step", "three")]).await;
    assert_eq!(unknown.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(unknown.text().contains("step-unknown"));
}

#[tokio::test]
async fn pending_job_page_shows_the_wait_reason() {
    let server = TestServer::start().await;
    server.post("/v1/queues/mail/pause").send().await;
    let job = json!({"kind": "echo", "input": 1, "queue": "mail"});
    let id = id_of(&server.post("/v1/jobs").json(job).send().await.json());
    let page = Browser::of(&server).page(&format!("/ui/jobs/{id}")).await;
    assert!(page.contains("Waiting: queue <code>mail</code> is paused."), "{page}");
    assert!(page.contains("Not started · up to 3 attempts"), "{page}");
}

#[tokio::test]
async fn job_page_cancels_and_purges() {
    let server = TestServer::start().await;
    let job = server.submit("gated", json!(1)).await;
    server.until_running(&job).await;
    let browser = Browser::of(&server);
    let path = format!("/ui/jobs/{}", id_of(&job));
    let page = browser.page(&path).await;
    assert!(page.contains(&format!("data-events=\"{path}/events\"")) && page.contains("Cancel…"));
    assert!(!page.contains("Resume…") && !page.contains("Purge…"));
    let early = browser.send(&path, &format!("{path}/purge"), &[]).await;
    assert_eq!(early.status, StatusCode::CONFLICT);
    assert!(early.text().contains(&format!("<a href=\"{path}\">Back</a>")), "{}", early.text());
    let sent = browser.send(&path, &format!("{path}/cancel"), &[]).await;
    assert!(browser.follow(&sent).await.contains("Job cancelled."));
    server.until(&job, |job| job["status"] == "cancelled").await;
    let sent = browser.send(&path, &format!("{path}/purge"), &[]).await;
    assert!(browser.follow(&sent).await.contains("Job purged."));
    let gone = browser.get(&path).await;
    assert_eq!(gone.status, StatusCode::GONE);
    assert!(gone.text().contains("no longer exists") && gone.text().contains("Receipt"));
}

#[tokio::test]
async fn job_page_events_end_with_the_session() {
    let (server, admin) = TestServer::with_expiring_keys().await;
    let made = json!({"name": "n", "scopes": ["read"]});
    let made = server.post("/v1/keys").key(&admin).json(made).send().await.json();
    let submit = server.post("/v1/jobs").key(&admin).json(json!({"kind": "gated", "input": 1}));
    let id = id_of(&submit.send().await.json());
    let browser = Browser::signed_in(&server, made["key"].as_str().unwrap()).await;
    let mut events = browser.request(Method::GET, &format!("/ui/jobs/{id}/events")).open().await;
    assert_eq!(events.headers["content-type"], "text/event-stream");
    let (_, job) = events.event().await.unwrap();
    assert_eq!(job["jobId"], json!(id));
    let key = made["id"].as_str().unwrap();
    server.delete(&format!("/v1/keys/{key}")).key(&admin).send().await;
    let ended = tokio::spawn(async move { while events.event().await.is_some() {} });
    while !ended.is_finished() {
        server.state.clock.advance(std::time::Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn downloads_are_attachments() {
    let server = TestServer::with_payload_kinds().await;
    let sent = server.post("/v1/kinds/copy/jobs?mode=sync").header("content-type", "text/html");
    let job = sent.body("<script>1</script>").send().await.json();
    let browser = Browser::of(&server);
    let path = format!("/ui/jobs/{}", id_of(&job));
    let page = browser.page(&path).await;
    assert!(page.contains(&format!("{path}/artifacts/the%20copy.bin")), "{page}");
    assert!(page.contains("The payload is deleted"), "and so it is not offered to run again");
    assert!(!page.contains("Fork…") && !page.contains("Resume…"));
    for part in ["input", "result", "artifacts/the%20copy.bin"] {
        let response = browser.get(&format!("{path}/{part}")).await;
        assert_eq!(response.status, StatusCode::OK, "{part}");
        assert!(
            response.header("content-disposition").unwrap().starts_with("attachment"),
            "{part}"
        );
        assert_eq!(response.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    }
}

#[tokio::test]
async fn image_artifacts_have_previews() {
    let server = TestServer::with_payload_kinds().await;
    let sent = server.post("/v1/kinds/copy/jobs?mode=sync").header("content-type", "image/png");
    let job = sent.body("not really").send().await.json();
    let page = Browser::of(&server).page(&format!("/ui/jobs/{}", id_of(&job))).await;
    assert!(page.contains("<img src=\"/ui/jobs/"), "{page}");
    assert!(
        page.contains("Preview of the copy.bin")
            && page.contains("All stored data") | page.contains("Some stored data")
    );
}

#[tokio::test]
async fn pages_have_a_strict_content_security_policy() {
    let (server, admin) = TestServer::with_keys().await;
    let id = run(&server, &admin, "fails", json!(1)).await;
    let browser = Browser::signed_in(&server, &admin).await;
    let job = format!("/ui/jobs/{id}");
    for path in [
        "/",
        "/ui/jobs",
        &job,
        "/ui/submit",
        "/ui/submit/echo",
        "/ui/webhooks",
        "/ui/keys",
        "/ui/tenants",
        "/ui/usage",
        "/ui/audit",
        "/ui/sign-in",
        "/docs",
    ] {
        let response = browser.get(path).await;
        let policy = response.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(response.header("x-frame-options"), Some("DENY"), "{path}");
        for inline in ["<style", "style=", " onclick", "javascript:", "://"] {
            assert!(!response.text().contains(inline) || inline == "://", "{inline} in {path}");
        }
        assert_eq!(response.text().matches("<script").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn assets_are_cached_by_etag() {
    let server = TestServer::start().await;
    for (path, kind) in [
        ("/ui/style.css", "text/css"),
        ("/ui/app.js", "text/javascript"),
        ("/ui/icon.svg", "image/svg+xml"),
    ] {
        let response = server.get(path).send().await;
        assert!(response.header("content-type").unwrap().starts_with(kind), "{path}");
        let etag = response.header("etag").unwrap().to_owned();
        let again = server.get(path).header("if-none-match", &etag).send().await;
        assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
    }
}
