//! A browser: keeps a cookie, sends `Sec-Fetch-Site`, and submits forms.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{TestRequest, TestResponse, TestServer};

pub(super) struct Browser<'a> {
    pub(super) server: &'a TestServer,
    pub(super) cookie: Option<String>,
}

impl<'a> Browser<'a> {
    pub(super) fn of(server: &'a TestServer) -> Self {
        Self { server, cookie: None }
    }

    /// Returns a browser that has signed in with this key.
    pub(super) async fn signed_in(server: &'a TestServer, key: &str) -> Self {
        let mut browser = Self::of(server);
        let response = browser.send("/ui/sign-in", "/ui/sign-in", &[("key", key)]).await;
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{response:?}");
        let set = response.header("set-cookie").unwrap();
        browser.cookie = Some(set.split(';').next().unwrap().to_owned());
        browser
    }

    /// Returns a browser that has signed in with a new key of these scopes.
    pub(super) async fn with_scopes(server: &'a TestServer, admin: &str, scopes: &[&str]) -> Self {
        let key = key(server, admin, "default", scopes).await;
        Self::signed_in(server, &key).await
    }

    pub(super) fn request(&self, method: Method, path: &str) -> TestRequest {
        let ask = self.server.request(method, path).header("accept", "text/html,*/*;q=0.8");
        let ask = ask.header("host", "127.0.0.1:8080").header("sec-fetch-site", "same-origin");
        match &self.cookie {
            Some(cookie) => ask.header("cookie", &format!("other=1; {cookie}")),
            None => ask,
        }
    }

    pub(super) async fn get(&self, path: &str) -> TestResponse {
        self.request(Method::GET, path).send().await
    }

    /// Returns a page that must exist.
    pub(super) async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.text());
        response.text().to_owned()
    }

    /// Submits a form to `path` with the token of the page `of`.
    pub(super) async fn send(&self, of: &str, path: &str, fields: &[(&str, &str)]) -> TestResponse {
        let token = self.token(of).await;
        let fields: Vec<(&str, &str)> =
            [("token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        self.post(path, &fields).await
    }

    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> TestResponse {
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let ask = self.request(Method::POST, path);
        ask.header("content-type", "application/x-www-form-urlencoded").body(body).send().await
    }

    /// Returns the token of a page's forms.
    pub(super) async fn token(&self, page: &str) -> String {
        let page = self.page(page).await;
        let (_, rest) = page.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Follows a redirect and returns the page.
    pub(super) async fn follow(&self, response: &TestResponse) -> String {
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", response.text());
        self.page(response.header("location").unwrap()).await
    }
}

/// Creates an API key.
pub(super) async fn key(server: &TestServer, admin: &str, tenant: &str, scopes: &[&str]) -> String {
    let wish = json!({"tenant": tenant, "name": "of a test", "scopes": scopes});
    let made = server.post("/v1/keys").key(admin).json(wish).send().await.json();
    made["key"].as_str().unwrap().to_owned()
}

/// Submits a job and returns its id once it has finished.
pub(super) async fn run(server: &TestServer, key: &str, kind: &str, input: Value) -> String {
    let body = json!({"kind": kind, "input": input});
    let ended = server.post("/v1/jobs?mode=sync").key(key).json(body).send().await.json();
    assert!(ended["completedAt"].is_string(), "{ended}");
    ended["jobId"].as_str().unwrap().to_owned()
}

pub(super) fn id_of(job: &Value) -> String {
    job["jobId"].as_str().unwrap().to_owned()
}
