//! Web pages of other sites at a server that requires no keys, with the headers that browsers send.

use axum::http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{TestRequest, TestResponse, TestServer};

const EVIL: &str = "https://evil.example";

/// Headers of requests that Chromium sends for a page of another site.
const FORM: &[(&str, &str)] = &[
    ("origin", EVIL),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
];
const SANDBOXED_FORM: &[(&str, &str)] = &[
    ("origin", "null"),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
];
const FETCH: &[(&str, &str)] = &[
    ("origin", EVIL),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-mode", "no-cors"),
    ("sec-fetch-dest", "empty"),
];
const IMAGE: &[(&str, &str)] =
    &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
const FRAME: &[(&str, &str)] = &[
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "iframe"),
];
const OTHER_PORT: &[(&str, &str)] = &[
    ("origin", "http://localhost:3000"),
    ("sec-fetch-site", "same-site"),
    ("sec-fetch-mode", "cors"),
    ("sec-fetch-dest", "empty"),
];
/// A browser that does not send `Sec-Fetch-Site`.
const OLD_BROWSER: &[(&str, &str)] = &[("origin", "http://evil.example")];
const LINK: &[(&str, &str)] = &[
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-user", "?1"),
];

fn with(request: TestRequest, headers: &[(&str, &str)]) -> TestRequest {
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// Returns every documented operation, with its parameters filled in.
async fn operations(server: &TestServer) -> Vec<(Method, String)> {
    let document = server.get_json("/openapi.json").await;
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let path: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        for method in item.as_object().unwrap().keys() {
            let Ok(method) = Method::try_from(method.to_uppercase().as_str()) else { continue };
            operations.push((method, path.join("/")));
        }
    }
    assert!(operations.len() > 40, "{}", operations.len());
    operations
}

fn is_probe(path: &str) -> bool {
    ["/livez", "/readyz"].contains(&path)
}

async fn job_count(server: &TestServer) -> usize {
    server.get_json("/v1/jobs").await["jobs"].as_array().unwrap().len()
}

#[tokio::test]
async fn foreign_host_is_rejected_by_every_operation() {
    let server = TestServer::start().await;
    let pages = ["/", "/ui/jobs", "/docs", "/render", "/jobs", "/api/chat", "/d/x", "/nowhere"];
    let pages = pages.map(|path| (Method::GET, path.to_owned()));
    for (method, path) in operations(&server).await.into_iter().chain(pages) {
        let sent = server.request(method.clone(), &path).header("host", "evil.example:8080");
        let response = sent.send().await;
        if is_probe(&path) {
            assert_eq!(response.status, StatusCode::OK, "{path}");
        } else {
            let expected = (421, "host-not-allowed".to_owned());
            assert_eq!(response.problem(), expected, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn loopback_names_are_the_only_hosts() {
    let server = TestServer::start().await;
    let status = async |host: &str| server.get("/v1/jobs").header("host", host).send().await.status;
    for good in [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "app.localhost:1",
        "127.0.0.1",
        "127.0.0.1:9",
        "127.1.2.3:8080",
        "[::1]",
        "[::1]:8080",
        "[::ffff:127.0.0.1]",
    ] {
        assert_eq!(status(good).await, StatusCode::OK, "{good}");
    }
    for bad in [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evillocalhost",
        "0.0.0.0:8080",
        "10.0.0.1",
        "[::]",
        "[::ffff:10.0.0.1]",
        "localhost@evil.example",
        "evil.example@localhost",
        "127.0.0.1:8080:1",
        "::1",
        "local host",
    ] {
        assert_eq!(status(bad).await, StatusCode::MISDIRECTED_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn every_host_of_a_request_is_checked() {
    let server = TestServer::start().await;
    let twice = server.get("/v1/jobs").header("host", "localhost").header("host", "evil.example");
    assert_eq!(twice.send().await.problem().0, 421);
    let absolute = server.get("http://evil.example/v1/jobs").header("host", "localhost");
    assert_eq!(absolute.send().await.problem().0, 421);
    let absolute = server.get("http://localhost:1/v1/jobs").header("host", "evil.example");
    assert_eq!(absolute.send().await.problem().0, 421);
    let absolute = server.get("http://localhost:1/v1/jobs").header("host", "localhost:1");
    assert_eq!(absolute.send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn configured_host_is_accepted() {
    let server = TestServer::with_state(|state| state.hosts = vec!["jobs.internal".into()]).await;
    for host in ["jobs.internal", "Jobs.Internal:8443", "localhost"] {
        let response = server.get("/v1/jobs").header("host", host).send().await;
        assert_eq!(response.status, StatusCode::OK, "{host}");
    }
    let other = server.get("/v1/jobs").header("host", "other.jobs.internal").send().await;
    assert_eq!(other.problem().0, 421);
}

#[tokio::test]
async fn requests_of_other_sites_are_rejected_by_every_operation() {
    let server = TestServer::start().await;
    for (method, path) in operations(&server).await {
        for headers in [FORM, SANDBOXED_FORM, FETCH, IMAGE, FRAME, OTHER_PORT, OLD_BROWSER] {
            let response = with(server.request(method.clone(), &path), headers).send().await;
            if is_probe(&path) {
                assert_eq!(response.status, StatusCode::OK, "{path}");
            } else {
                let expected = (403, "cross-site".to_owned());
                assert_eq!(response.problem(), expected, "{method} {path} {headers:?}");
            }
        }
    }
}

#[tokio::test]
async fn other_sites_cannot_start_pause_cancel_or_fork() {
    let server = TestServer::start().await;
    let job = server.run("echo", json!(1)).await;
    let fork = format!("/v1/jobs/{}/fork", job["jobId"].as_str().unwrap());
    let bodies = [
        ("text/plain", r#"{"kind":"echo","input":1}"#),
        ("application/x-www-form-urlencoded", "a=1"),
        ("multipart/form-data; boundary=x", "--x--"),
        ("application/json", r#"{"kind":"echo","input":1}"#),
    ];
    let paths = ["/v1/jobs", "/v1/kinds/echo/jobs", "/v1/queues/default/pause", &fork, "/render"];
    for path in paths {
        for headers in [FORM, SANDBOXED_FORM, FETCH, OTHER_PORT, OLD_BROWSER] {
            let empty = with(server.post(path), headers).send().await;
            assert_eq!(empty.problem(), (403, "cross-site".to_owned()), "{path} {headers:?}");
            for (content_type, body) in bodies {
                let sent = server.post(path).header("content-type", content_type).body(body);
                let response = with(sent, headers).send().await;
                assert_eq!(response.problem().1, "cross-site", "{path} {content_type} {headers:?}");
            }
        }
    }
    assert_eq!(job_count(&server).await, 1);
    let queues = server.get_json("/v1/queues").await;
    assert!(!queues.to_string().contains("\"paused\":true"), "{queues}");
}

#[tokio::test]
async fn links_of_other_sites_open_pages() {
    let server = TestServer::start().await;
    for path in ["/", "/ui/jobs", "/docs", "/openapi.json", "/v1/jobs"] {
        assert_eq!(with(server.get(path), LINK).send().await.status, StatusCode::OK, "{path}");
    }
    let posted = with(server.post("/v1/kinds/echo/jobs"), LINK).send().await;
    assert_eq!(posted.problem().1, "cross-site");
}

#[tokio::test]
async fn own_pages_and_typed_addresses_are_served() {
    let server = TestServer::start().await;
    let own = [("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")];
    let submit = server.post("/v1/kinds/echo/jobs").header("host", "localhost:8080");
    assert_eq!(with(submit.json(json!(1)), &own).send().await.status, StatusCode::ACCEPTED);
    let other_port = server.post("/v1/kinds/echo/jobs").header("host", "localhost:8081");
    assert_eq!(with(other_port.json(json!(1)), &own).send().await.problem().1, "cross-site");
    let behind_tls = server.get("/v1/jobs").header("origin", "https://localhost");
    assert_eq!(behind_tls.send().await.status, StatusCode::OK);
    let typed = server.get("/v1/jobs").header("sec-fetch-site", "none").send().await;
    assert_eq!(typed.status, StatusCode::OK);
    let program = server.post("/v1/kinds/echo/jobs").json(json!(1)).send().await;
    assert_eq!(program.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn configured_origins_may_call_the_api() {
    let app = "https://app.example";
    let server = TestServer::with_state(|state| {
        state.origins = vec![HeaderValue::from_static("https://app.example")];
    })
    .await;
    let headers = [("origin", app), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")];
    let preflight = server
        .request(Method::OPTIONS, "/v1/jobs")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type");
    assert_eq!(with(preflight, &headers).send().await.status, StatusCode::OK);
    let submit = server.post("/v1/kinds/echo/jobs").json(json!(1));
    assert_eq!(with(submit, &headers).send().await.status, StatusCode::ACCEPTED);
    let other = with(server.get("/v1/jobs"), FETCH).send().await;
    assert_eq!(other.problem().1, "cross-site");
    assert_eq!(other.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn server_with_keys_serves_every_host_and_origin() {
    let (server, key) = TestServer::with_keys().await;
    let request = server.get("/v1/jobs").key(&key).header("host", "jobs.example");
    assert_eq!(with(request, FETCH).send().await.status, StatusCode::OK);
    let without_key = server.get("/v1/jobs").header("host", "jobs.example").send().await;
    assert_eq!(without_key.problem(), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn every_response_is_for_its_own_origin_only() {
    let server = TestServer::start().await;
    for path in ["/", "/docs", "/ui/app.js", "/openapi.json", "/livez", "/nowhere", "/v1/jobs"] {
        let response = server.get(path).send().await;
        let policy = response.header("cross-origin-resource-policy");
        assert_eq!(policy, Some("same-origin"), "{path}");
    }
}

/// Sends a request with each form of a credential that is not valid here.
async fn with_invalid_credentials(server: &TestServer) -> Vec<TestResponse> {
    let forged =
        "lh_01ARZ3NDEKTSV4RRFFQ69G5FAV_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_00000000";
    let bearers = ["sk-anything", "ollama", forged, "a.b.c", ""];
    let mut requests: Vec<TestRequest> =
        bearers.iter().map(|text| server.get("/v1/jobs").key(text)).collect();
    requests.push(server.get("/v1/jobs").header("authorization", "Basic dXNlcjpwYXNz"));
    requests.push(server.get("/v1/jobs").header("authorization", "nonsense"));
    requests.push(server.get("/v1/jobs").header("x-api-key", forged));
    let mut responses = Vec::new();
    for request in requests {
        responses.push(request.send().await);
    }
    responses
}

#[tokio::test]
async fn invalid_credentials_are_ignored_while_keys_are_not_required() {
    let server = TestServer::start().await;
    for response in with_invalid_credentials(&server).await {
        assert_eq!(response.status, StatusCode::OK, "{response:?}");
    }
    let (server, _) = TestServer::with_keys().await;
    for response in with_invalid_credentials(&server).await {
        assert_eq!(response.problem(), (401, "unauthorized".to_owned()));
    }
}

#[tokio::test]
async fn valid_key_decides_the_tenant_while_keys_are_not_required() {
    let server = TestServer::start().await;
    server.post("/v1/tenants").json(json!({"id": "acme"})).send().await;
    let wish = json!({"tenant": "acme", "name": "a", "scopes": ["submit", "read"]});
    let made: Value = server.post("/v1/keys").json(wish).send().await.json();
    let key = made["key"].as_str().unwrap();
    server.run("echo", json!(1)).await;
    let listed = server.get("/v1/jobs").key(key).send().await.json();
    assert_eq!(listed["jobs"], json!([]));
    let admin = server.get("/v1/tenants").key(key).send().await;
    assert_eq!(admin.problem(), (403, "forbidden".to_owned()));
}
