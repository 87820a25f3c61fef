//! Pages of a proxied target are served from the server's origin and must not act as its own pages.

use axum::http::Method;

use super::proxy_server::{ProxyServer, problem_of};
use crate::harness::{Backend, FakeHttpServer, Reply};

const PAGE: &str = "<script>fetch('/ui/jobs')</script>";
const APART: &str = "sandbox allow-scripts allow-forms";

#[tokio::test(flavor = "multi_thread")]
async fn proxied_pages_are_sandboxed() {
    let own = "Content-Type: text/html\r\nContent-Security-Policy: default-src 'self'\r\n";
    let target = FakeHttpServer::start(move |_, _| Reply::Answer(200, own, PAGE)).await;
    let server = ProxyServer::start(target.address, Backend::Sqlite).await;
    for dest in ["document", "iframe", "frame", "embed", "object"] {
        let page = server.request(Method::GET, "/sync").header("sec-fetch-dest", dest).send().await;
        let page = page.unwrap();
        let policies: Vec<_> = page.headers().get_all("content-security-policy").iter().collect();
        assert_eq!(policies, ["default-src 'self'", APART], "{dest}");
        assert_eq!(page.text().await.unwrap(), PAGE);
    }
    for dest in ["empty", "image", "script"] {
        let page = server.request(Method::GET, "/sync").header("sec-fetch-dest", dest).send().await;
        let page = page.unwrap();
        let policies: Vec<_> = page.headers().get_all("content-security-policy").iter().collect();
        assert_eq!(policies, ["default-src 'self'"], "{dest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxied_service_worker_is_rejected() {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, Backend::Sqlite).await;
    let asked =
        server.request(Method::GET, "/sync/sw.js").header("sec-fetch-dest", "serviceworker");
    assert_eq!(problem_of(asked).await, (403, "forbidden".to_owned()));
    assert_eq!(target.all().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_removes_the_session_cookie_in_both_directions() {
    let set = "Set-Cookie: __Host-longhaul=theirs; Path=/; Secure\r\nSet-Cookie: a=1\r\n";
    let target = FakeHttpServer::start(move |_, _| Reply::Answer(200, set, "")).await;
    let server = ProxyServer::start(target.address, Backend::Sqlite).await;
    let asked = server.post("/passing").header("cookie", "b=2; __Host-longhaul=sealed; c=3");
    let response = asked.body("x").send().await.unwrap();
    let set: Vec<_> = response.headers().get_all("set-cookie").iter().collect();
    assert_eq!(set, ["a=1"]);
    assert_eq!(target.first(1).await.remove(0).header("cookie"), "b=2; c=3");
}

/// Requests of a page of another site, as Chromium sends them.
const FOREIGN: [&[(&str, &str)]; 5] = [
    &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
    &[
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ],
    &[
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image"),
        ("referer", "https://evil.example/"),
    ],
    &[("origin", "null"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
    &[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")],
];

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_cannot_reach_a_proxied_path() {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, Backend::Sqlite).await;
    for path in ["/sync", "/sync/", "/reports/deep?x=1", "/once"] {
        for headers in FOREIGN {
            for method in [Method::GET, Method::POST] {
                let request = server.request(method.clone(), path);
                let request = headers
                    .iter()
                    .fold(request, |request, (name, value)| request.header(*name, *value));
                let problem = problem_of(request).await;
                assert_eq!(problem, (403, "cross-site".to_owned()), "{method} {path} {headers:?}");
            }
        }
    }
    assert_eq!(target.all().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_address_of_a_proxied_page_leads_to_an_origin_for_this_kind() {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, Backend::Sqlite).await;
    let port = server.address.port();
    let typed = |request: reqwest::RequestBuilder| {
        request.header("sec-fetch-site", "none").header("sec-fetch-dest", "document")
    };
    let page = typed(server.get("/sync/deep?x=1")).send().await.unwrap();
    assert_eq!(page.status(), 307);
    let address = format!("http://report.gateway.localhost:{port}/sync/deep?x=1");
    assert_eq!(page.headers()["location"], address);
    assert_eq!(target.all().len(), 0);

    let host = format!("report.gateway.localhost:{port}");
    let origin = format!("http://{host}");
    let at_host = |request: reqwest::RequestBuilder| request.header("host", &host);
    let page = at_host(typed(server.get("/sync/deep?x=1"))).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(!page.headers().contains_key("content-security-policy"));
    let form = at_host(server.post("/sync")).header("sec-fetch-site", "same-origin");
    let form = form.header("origin", &origin).body("a=1").send().await.unwrap();
    assert_eq!(form.status(), 200);
    for path in ["/own", "/v1/jobs", "/", "/ui/jobs", "/nowhere"] {
        let other = problem_of(at_host(server.get(path))).await;
        assert_eq!(other, (421, "host-not-allowed".to_owned()), "{path}");
    }
    let api = server.post("/v1/kinds/report/jobs").header("sec-fetch-site", "cross-site");
    assert_eq!(problem_of(api.header("origin", &origin).body("{}")).await.1, "cross-site");
}

#[tokio::test(flavor = "multi_thread")]
async fn proxied_response_is_for_its_own_origin_in_browsers_only() {
    let target = FakeHttpServer::good().await;
    let server = ProxyServer::start(target.address, Backend::Sqlite).await;
    let policy = "cross-origin-resource-policy";
    let browser = server.get("/sync").header("sec-fetch-dest", "image").send().await.unwrap();
    assert_eq!(browser.headers()[policy], "same-origin");
    let program = server.get("/sync").send().await.unwrap();
    assert!(!program.headers().contains_key(policy));
}
