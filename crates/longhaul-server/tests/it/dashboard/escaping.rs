//! Every page escapes the texts of callers and handlers.

use longhaul::job::Json;
use longhaul::{Ctx, JobError, Kind, Retry};
use serde_json::{Value, json};

use super::browser::{Browser, id_of};
use crate::harness::{TestServer, status_url};

const CANARY: &str = "\"'><img src=x onerror=alert(1)><script>alert(1)</script>";

/// Says the canary in everything that a handler can say.
async fn says(ctx: Ctx, _: Json) -> Result<Value, JobError> {
    ctx.phase(CANARY).await?;
    ctx.progress_with(1, 2_u64, CANARY.to_owned());
    ctx.step(CANARY, || async { Ok::<_, JobError>(json!({CANARY: CANARY})) }).await?;
    Err(JobError::fatal(CANARY).with_code(CANARY))
}

async fn return_canary(_: Ctx, _: Json) -> Result<Value, JobError> {
    Ok(json!({CANARY: [CANARY, {"a": CANARY}]}))
}

fn assert_inert(page: &str, path: &str) {
    assert!(!page.contains("<img src=x"), "{path}: {page}");
    assert!(!page.contains("<script>"), "{path}: {page}");
    assert!(!page.contains("\"'>"), "{path}: {page}");
}

async fn server() -> TestServer {
    let kinds =
        [Kind::new("says", says).retry(Retry::times(1)), Kind::new("returns", return_canary)];
    TestServer::with_kinds(kinds).await
}

#[tokio::test]
async fn job_texts_are_escaped_on_every_page() {
    let server = server().await;
    let browser = Browser::of(&server);
    let submit = |kind: &str| {
        let body = json!({"kind": kind, "input": {CANARY: CANARY}, "labels": {CANARY: CANARY}});
        let key = format!("a{}", CANARY.replace(' ', ""));
        server
            .post("/v1/jobs?mode=sync")
            .header("idempotency-key", &format!("{key}{kind}"))
            .json(body)
    };
    let failed = submit("says").send().await.json();
    assert_eq!(failed["error"]["message"], CANARY, "{failed}");
    let done = submit("returns").send().await.json();
    let encoded = crate::api::hostile_texts::encoded(CANARY);
    let (failed, done) = (id_of(&failed), id_of(&done));
    for path in [
        "/".to_owned(),
        "/ui/jobs".to_owned(),
        format!("/ui/jobs?q={encoded}"),
        format!("/ui/jobs?label=a%3D{encoded}"),
        format!("/ui/jobs/{failed}"),
        format!("/ui/jobs/{done}"),
        "/ui/submit/says".to_owned(),
        "/ui/audit".to_owned(),
        format!("/ui/audit?target={encoded}"),
        format!("/ui/sign-in?next={encoded}&did={encoded}"),
    ] {
        let page = browser.page(&path).await;
        assert_inert(&page, &path);
        if path.contains(&failed) || path.contains(&done) || path == "/ui/jobs" {
            assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "{path} shows it: {page}");
        }
    }
    let fork = [("from-step", CANARY)];
    let sent = browser.send("/ui/jobs", &format!("/ui/jobs/{failed}/fork"), &fork).await;
    assert_inert(&browser.follow(&sent).await, "the fork");
    let audit = browser.page("/ui/audit").await;
    assert!(audit.contains("job.fork"), "{audit}");
    assert_inert(&audit, "audit");
}

#[tokio::test]
async fn error_pages_escape_request_texts() {
    let server = server().await;
    let browser = Browser::of(&server);
    let job = server.run("returns", json!(1)).await;
    let encoded = crate::api::hostile_texts::encoded(CANARY);
    for path in [
        format!("/ui/jobs?status={encoded}"),
        format!("/ui/jobs?kind={encoded}"),
        format!("/ui/jobs?{encoded}=1"),
        format!("/ui/jobs?cursor={encoded}"),
        format!("/ui/jobs?tenant={encoded}"),
        format!("/ui/jobs/{encoded}"),
        format!("/ui/submit/{encoded}"),
        format!("/ui/usage?span={encoded}"),
        format!("/ui/webhooks?status={encoded}"),
        format!("/ui/webhooks?cursor={encoded}"),
        format!("/ui/deliveries/{encoded}"),
        format!("/ui/{encoded}"),
        format!("/ui{}/artifacts/{encoded}", status_url(&job).strip_prefix("/v1").unwrap()),
    ] {
        let response = browser.get(&path).await;
        assert!(response.status.is_client_error(), "{path}: {}", response.status);
        assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        assert_inert(response.text(), &path);
    }
}

#[tokio::test]
async fn account_and_file_names_are_escaped() {
    let (server, admin) = TestServer::with_keys().await;
    let browser = Browser::signed_in(&server, &admin).await;
    let key = json!({"name": CANARY, "scopes": ["read"]});
    server.post("/v1/keys").key(&admin).json(key).send().await;
    let tenant = json!({"id": "acme", "name": CANARY});
    server.post("/v1/tenants").key(&admin).json(tenant).send().await;
    let endpoint = json!({"url": format!("http://127.0.0.1:9/{}", CANARY.replace(' ', "/")), "description": CANARY});
    let made = server.post("/v1/endpoints").key(&admin).json(endpoint);
    let made = server.pass_time(made).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    for path in ["/ui/keys", "/ui/tenants", "/ui/webhooks", "/ui/audit"] {
        let page = browser.page(path).await;
        assert_inert(&page, path);
        assert!(page.contains("onerror=alert(1)&gt;"), "{path} shows it");
    }
}
