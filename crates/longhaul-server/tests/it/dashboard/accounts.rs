use axum::http::StatusCode;
use serde_json::json;

use super::browser::{Browser, run};
use crate::harness::TestServer;

#[tokio::test]
async fn dashboard_creates_a_key_shows_it_once_and_revokes_it() {
    let (server, admin) = TestServer::with_keys().await;
    let browser = Browser::signed_in(&server, &admin).await;
    let fields = [("name", "for <reading>"), ("scope", "read"), ("lasts", "90d")];
    let made = browser.send("/ui/keys", "/ui/keys", &fields).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text());
    let (_, rest) = made.text().split_once("id=\"new-secret\">").unwrap();
    let key = rest.split('<').next().unwrap().to_owned();
    Browser::signed_in(&server, &key).await.page("/ui/jobs").await;
    let page = browser.page("/ui/keys").await;
    assert!(!page.contains(&key) && page.contains("for &lt;reading&gt;"), "{page}");
    let id = key.split('_').nth(1).unwrap();
    let sent = browser.send("/ui/keys", &format!("/ui/keys/{id}/revoke"), &[]).await;
    assert!(browser.follow(&sent).await.contains("Key revoked."));
    let refused = server.get("/v1/jobs").key(&key).send().await;
    assert_eq!(refused.problem(), (401, "unauthorized".to_owned()));
    for wrong in [vec![("name", "x")], vec![("name", "x"), ("scope", "read"), ("lasts", "soon")]] {
        let sent = browser.send("/ui/keys", "/ui/keys", &wrong).await;
        assert_eq!(sent.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    let sent = browser.send("/ui/keys", "/ui/keys/nothing/revoke", &[]).await;
    assert_eq!(sent.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn dashboard_creates_and_suspends_a_tenant() {
    let (server, admin) = TestServer::with_keys().await;
    let browser = Browser::signed_in(&server, &admin).await;
    let sent =
        browser.send("/ui/tenants", "/ui/tenants", &[("id", "acme"), ("name", "Acme")]).await;
    assert!(browser.follow(&sent).await.contains("/ui/jobs?tenant=acme"));
    let twice = browser.send("/ui/tenants", "/ui/tenants", &[("id", "acme")]).await;
    assert_eq!(twice.status, StatusCode::CONFLICT);
    let path = "/ui/tenants/acme/subscription";
    let sent = browser.send("/ui/tenants", path, &[("subscription", "suspended")]).await;
    assert!(browser.follow(&sent).await.contains("Subscription changed"));
    let tenant = server.get("/v1/tenants/acme").key(&admin).send().await.json();
    assert_eq!(tenant["subscription"], "suspended");
    let wrong = browser.send("/ui/tenants", path, &[("subscription", "free")]).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let audit = browser.page("/ui/audit?target=acme").await;
    assert!(audit.contains("tenant.create") && audit.contains("tenant.change"), "{audit}");
    assert!(!browser.page("/ui/audit?target=nobody").await.contains("tenant.create"));
    assert!(!browser.page("/ui/keys?tenant=acme").await.contains("first admin key"));
}

#[tokio::test]
async fn dashboard_creates_tests_disables_and_deletes_an_endpoint() {
    let server = TestServer::start().await;
    let browser = Browser::of(&server);
    assert!(browser.page("/ui/webhooks").await.contains("longhaul endpoints create"));
    let fields = [
        ("url", "http://127.0.0.1:9/hook"),
        ("events", "job.failed, job.completed"),
        ("description", "<i>ours</i>"),
    ];
    let made = server.pass_time(browser_post(&browser, "/ui/webhooks", &fields).await).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text());
    assert!(made.text().contains("whsec_"), "{}", made.text());
    let page = browser.page("/ui/webhooks").await;
    assert!(!page.contains("whsec_") && page.contains("&lt;i&gt;ours&lt;/i&gt;"), "{page}");
    let list = server.get("/v1/endpoints").send().await.json();
    let endpoint = list["endpoints"][0].clone();
    assert_eq!(endpoint["events"], json!(["job.completed", "job.failed"]));
    let of = |what: &str| format!("/ui/webhooks/{}/{what}", endpoint["id"].as_str().unwrap());
    let sent = browser.send("/ui/webhooks", &of("test"), &[]).await;
    assert!(browser.follow(&sent).await.contains("/ui/deliveries/"));
    for (what, enabled) in [("off", false), ("on", true)] {
        let sent = server.pass_time(browser_post(&browser, &of(what), &[]).await).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER);
        let list = server.get("/v1/endpoints").send().await.json();
        assert_eq!(list["endpoints"][0]["enabled"], enabled);
    }
    let sent = server.pass_time(browser_post(&browser, &of("delete"), &[]).await).await;
    assert_eq!(sent.header("location"), Some("/ui/webhooks?did=endpoint-gone"));
}

/// A form that is answered once time has passed.
async fn browser_post(
    browser: &Browser<'_>,
    path: &str,
    fields: &[(&str, &str)],
) -> crate::harness::TestRequest {
    let token = browser.token("/ui/webhooks").await;
    let mut body = url::form_urlencoded::Serializer::new(String::new());
    body.append_pair("token", &token).extend_pairs(fields);
    let ask = browser.request(axum::http::Method::POST, path);
    ask.header("content-type", "application/x-www-form-urlencoded").body(body.finish())
}

#[tokio::test]
async fn dashboard_shows_and_resends_a_failed_delivery() {
    let (server, admin) = TestServer::with_keys().await;
    let browser = Browser::signed_in(&server, &admin).await;
    let webhook = json!({"url": "http://127.0.0.1:9/hook", "events": ["job.completed"]});
    let body = json!({"kind": "echo", "input": 1, "webhook": webhook});
    let job = server.post("/v1/jobs?mode=sync").key(&admin).json(body).send().await.json();
    let id = job["jobId"].as_str().unwrap();
    let page = browser.page(&format!("/ui/jobs/{id}")).await;
    assert!(page.contains("job.completed") && page.contains("http://127.0.0.1:9/hook"), "{page}");
    let list = server.get(&format!("/v1/jobs/{id}/deliveries")).key(&admin).send().await.json();
    let delivery = list["deliveries"][0]["deliveryId"].as_str().unwrap();
    let page = browser.page(&format!("/ui/deliveries/{delivery}")).await;
    assert!(page.contains(">Attempts<"), "{page}");
    let path = format!("/ui/jobs/{id}/deliveries/{delivery}/resend");
    let sent = browser.send("/ui/webhooks", &path, &[]).await;
    assert_eq!(sent.header("location"), Some(format!("/ui/jobs/{id}?did=resend").as_str()));
    let sent =
        browser.send("/ui/webhooks", &format!("/ui/deliveries/{delivery}/resend"), &[]).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER);
    let entries = server.get("/v1/audit").key(&admin).send().await.json();
    assert_eq!(entries["entries"][0]["action"], "delivery.resend");
    let unknown = browser.get("/ui/deliveries/nothing").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    run(&server, &admin, "echo", json!(1)).await;
}
