use axum::http::{Method, StatusCode};
use longhaul_server::auth::AuthSettings;
use serde_json::json;

use super::browser::{Browser, key};
use crate::harness::TestServer;

#[tokio::test]
async fn sign_in_redirects_back_to_the_requested_page() {
    let (server, admin) = TestServer::with_keys().await;
    let stranger = Browser::of(&server);
    let sent = stranger.get("/ui/jobs?status=failed").await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER);
    assert_eq!(sent.header("location"), Some("/ui/sign-in?next=%2Fui%2Fjobs%3Fstatus%3Dfailed"));
    let fields = [("key", admin.as_str()), ("next", "/ui/jobs?status=failed")];
    let sent = stranger.send("/ui/sign-in", "/ui/sign-in", &fields).await;
    assert_eq!(sent.header("location"), Some("/ui/jobs?status=failed"));
}

#[tokio::test]
async fn sign_in_redirects_to_own_pages_only() {
    let (server, admin) = TestServer::with_keys().await;
    let stranger = Browser::of(&server);
    for next in ["https://evil.example/", "//evil.example", "/\\evil.example", "/v1/jobs"] {
        let fields = [("key", admin.as_str()), ("next", next)];
        let sent = stranger.send("/ui/sign-in", "/ui/sign-in", &fields).await;
        assert_eq!(sent.header("location"), Some("/"), "{next}");
    }
}

#[tokio::test]
async fn session_cookie_is_secure_http_only_and_host_only() {
    let (server, admin) = TestServer::with_keys().await;
    let stranger = Browser::of(&server);
    let sent = stranger.send("/ui/sign-in", "/ui/sign-in", &[("key", &admin)]).await;
    let cookie = sent.header("set-cookie").unwrap();
    let parts: Vec<&str> = cookie.split("; ").collect();
    assert!(parts[0].starts_with("__Host-longhaul="), "{cookie}");
    assert_eq!(parts[1..], ["Path=/", "Secure", "HttpOnly", "SameSite=Strict", "Max-Age=43200"]);
    assert!(!cookie.contains(&admin), "the key is sealed");
}

#[tokio::test]
async fn sign_in_rejects_a_wrong_key_without_repeating_it() {
    let (server, _) = TestServer::with_keys().await;
    let stranger = Browser::of(&server);
    let wrong = "lh_0123456789abcdef_wrong_00000000";
    let sent = stranger.send("/ui/sign-in", "/ui/sign-in", &[("key", wrong)]).await;
    assert_eq!(sent.status, StatusCode::UNAUTHORIZED);
    assert!(sent.text().contains("This key is unknown"), "{}", sent.text());
    assert!(sent.header("set-cookie").is_none() && !sent.text().contains(wrong));
}

#[tokio::test]
async fn session_ends_with_its_key_at_once() {
    let (server, admin) = TestServer::with_keys().await;
    let made = json!({"name": "n", "scopes": ["read"]});
    let made = server.post("/v1/keys").key(&admin).json(made).send().await.json();
    let browser = Browser::signed_in(&server, made["key"].as_str().unwrap()).await;
    browser.page("/ui/jobs").await;
    let id = made["id"].as_str().unwrap();
    server.delete(&format!("/v1/keys/{id}")).key(&admin).send().await;
    let refused = browser.get("/ui/jobs").await;
    assert_eq!(refused.status, StatusCode::SEE_OTHER);
    let location = refused.header("location").unwrap();
    assert!(location.contains("did=ended"), "{location}");
    assert!(refused.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert!(browser.page(location).await.contains("Your session has ended"));
}

#[tokio::test]
async fn session_ends_after_twelve_hours() {
    let (server, admin) = TestServer::with_expiring_keys().await;
    let browser = Browser::signed_in(&server, &admin).await;
    server.state.clock.advance(std::time::Duration::from_secs(12 * 3_600 - 1));
    browser.page("/ui/jobs").await;
    server.state.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(browser.get("/ui/jobs").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn session_cookie_does_not_authenticate_the_api() {
    let (server, admin) = TestServer::with_keys().await;
    let browser = Browser::signed_in(&server, &admin).await;
    browser.page("/").await;
    for api in ["/v1/jobs", "/metrics"] {
        let response = browser.get(api).await;
        assert_eq!(response.problem(), (401, "unauthorized".to_owned()), "{api}");
    }
    // And a key in a header is not for pages.
    let response = server.get("/ui/jobs").key(&admin).header("accept", "text/html").send().await;
    assert_eq!(response.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn forged_session_cookie_is_rejected() {
    let (server, admin) = TestServer::with_keys().await;
    let mut browser = Browser::signed_in(&server, &admin).await;
    let mut text = browser.cookie.take().unwrap();
    let last = if text.pop() == Some('A') { 'B' } else { 'A' };
    text.push(last);
    for cookie in [text, "__Host-longhaul=".to_owned(), format!("__Host-longhaul={admin}")] {
        browser.cookie = Some(cookie);
        assert_eq!(browser.get("/ui/jobs").await.status, StatusCode::SEE_OTHER);
    }
}

#[tokio::test]
async fn sign_out_deletes_the_session_cookie() {
    let (server, admin) = TestServer::with_keys().await;
    let browser = Browser::signed_in(&server, &admin).await;
    let out = browser.send("/", "/ui/sign-out", &[]).await;
    assert_eq!(out.header("location"), Some("/ui/sign-in?did=signed-out"));
    let cookie = out.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-longhaul=;") && cookie.contains("Max-Age=0"), "{cookie}");
}

#[tokio::test]
async fn dashboard_needs_no_sign_in_if_keys_are_not_required() {
    let server = TestServer::start().await;
    let page = Browser::of(&server).page("/").await;
    assert!(
        page.contains("Local access · tenant: default") && !page.contains("Sign out"),
        "{page}"
    );
}

#[tokio::test]
async fn failed_sign_ins_are_limited() {
    let settings = AuthSettings {
        require_keys: true,
        failures_per_minute: Some(5),
        ..AuthSettings::default()
    };
    let builder = TestServer::builder().auth(settings).expire_keys_by_request_clock();
    let (server, admin) = builder.start_with_key().await;
    let stranger = Browser::of(&server);
    let token = stranger.token("/ui/sign-in").await;
    let fields = [("token", token.as_str()), ("key", "lh_wrong")];
    for _ in 0..5 {
        assert_eq!(stranger.post("/ui/sign-in", &fields).await.status, StatusCode::UNAUTHORIZED);
    }
    let refused = stranger.post("/ui/sign-in", &fields).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("retry-after"), Some("12"));
    let browser = Browser::signed_in(&server, &admin).await;
    browser.page("/ui/jobs").await;
}

#[tokio::test]
async fn cross_site_link_keeps_the_session() {
    let (server, _) = TestServer::with_keys().await;
    let asked = server.get("/ui/jobs?kind=demo").header("accept", "text/html");
    let response = asked.header("sec-fetch-site", "cross-site").send().await;
    assert_eq!(response.status, StatusCode::OK);
    // A cross-site link brings no strict cookie, so the page reloads itself once.
    let again = "<meta http-equiv=\"refresh\" content=\"0; url=/ui/jobs?kind=demo\">";
    assert!(response.text().contains(again), "{}", response.text());
    let stranger = Browser::of(&server);
    assert_eq!(stranger.get("/ui/jobs?kind=demo").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn errors_are_problems_for_programs_and_pages_for_browsers() {
    let (server, admin) = TestServer::with_keys().await;
    assert_eq!(server.get("/").send().await.problem(), (401, "unauthorized".to_owned()));
    let browser = Browser::signed_in(&server, &admin).await;
    let gone = browser.get("/ui/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV").await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    assert_eq!(gone.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(gone.text().contains("job-not-found") && gone.text().contains("Back"));
    let nowhere = browser.get("/ui/nowhere").await;
    assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
    assert!(nowhere.text().contains("No page at this address"));
}

#[tokio::test]
async fn suspended_tenant_may_view_and_cancel_but_not_read_jobs() {
    let (server, admin) = TestServer::with_keys().await;
    let tenant = json!({"id": "acme", "name": "Acme"});
    server.post("/v1/tenants").key(&admin).json(tenant).send().await;
    let key = key(&server, &admin, "acme", &["submit", "read"]).await;
    let browser = Browser::signed_in(&server, &key).await;
    browser.page("/ui/jobs").await;
    let change = server.request(Method::PATCH, "/v1/tenants/acme").key(&admin);
    change.json(json!({"subscription": "suspended"})).send().await;
    let refused = browser.get("/ui/jobs").await;
    assert_eq!(refused.status, StatusCode::PAYMENT_REQUIRED);
    assert!(refused.text().contains("subscription-inactive"));
    let overview = browser.page("/").await;
    assert!(!overview.contains("Failing kinds") && !overview.contains(">Submit<"), "{overview}");
}
