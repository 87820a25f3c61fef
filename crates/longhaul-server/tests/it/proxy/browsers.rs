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
