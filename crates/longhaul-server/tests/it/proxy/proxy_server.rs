//! A test server on a real socket whose proxy routes and kinds lead to one target.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use longhaul::Retry;
use longhaul_kinds::http::{HttpKind, TargetUrl};
use longhaul_server::api::{CallerUrls, ProxyRoute, ProxyRoutes, router};
use longhaul_server::listen::{ListenerConfig, serve};
use reqwest::redirect;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::harness::raw_http::{self, RawResponse};
use crate::harness::{Backend, TestServer};
use crate::listen::server::PATIENT;

/// Timeout of the target of `/once`: less than a lease, so that the clock can jump by it.
pub(super) const TARGET_TIMEOUT: Duration = Duration::from_secs(5);
/// The header that the operator configured for the target of `/own`.
pub(super) const OPERATOR_AUTHORIZATION: &str = "Bearer the-operators-own";
const ATTEMPTS: Retry =
    Retry { max_attempts: 3, first: Duration::from_millis(1), max: Duration::from_millis(1) };

#[derive(Debug, Clone, Copy)]
pub(super) struct ProxyOptions {
    pub(super) require_keys: bool,
    /// Allows URLs of callers to lead to this machine.
    pub(super) loopback: bool,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self { require_keys: false, loopback: true }
    }
}

pub(super) struct ProxyServer {
    server: TestServer,
    pub(super) address: SocketAddr,
    pub(super) client: reqwest::Client,
    /// Sent with every request if set.
    key: Option<String>,
    stop: CancellationToken,
}

impl Deref for ProxyServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl ProxyServer {
    pub(super) async fn start(target: SocketAddr, backend: Backend) -> Self {
        Self::start_with(target, backend, ProxyOptions::default()).await
    }

    pub(super) async fn start_with(
        target: SocketAddr,
        backend: Backend,
        options: ProxyOptions,
    ) -> Self {
        let mut builder = TestServer::builder().backend(backend).ticking_clock();
        if options.require_keys {
            builder = builder.require_keys();
        }
        if !options.loopback {
            builder = builder.deny_loopback();
        }
        let (clock, keyring, egress) = (builder.clock(), builder.keyring(), builder.egress());
        let kind = |name: &str| {
            let target = TargetUrl::parse(&format!("http://{target}/own?k=1")).unwrap();
            HttpKind::new(name, target).clock(clock.clone()).keyring(keyring.clone())
        };
        let mut own = HeaderMap::new();
        own.insert("authorization", HeaderValue::from_static(OPERATOR_AUTHORIZATION));
        let server = builder
            .kind(kind("report").build().retry(ATTEMPTS))
            .kind(kind("own").headers(own.clone()).build().retry(ATTEMPTS))
            .kind(kind("once").timeout(TARGET_TIMEOUT).build().retry(Retry::NEVER))
            .kind(kind("anywhere").headers(own).caller_urls(egress).build().retry(ATTEMPTS))
            .start_with(|state| {
                state.caller_urls = CallerUrls::of(["anywhere".to_owned()]);
                state.proxies = ProxyRoutes::new(routes(), keyring.clone());
            })
            .await;
        let first_key = if options.require_keys {
            server.state.auth.create_first_key().await.unwrap()
        } else {
            None
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let router = router(server.state.clone());
        tokio::spawn(serve(listener, router, ListenerConfig::plain(PATIENT), stop.clone()));
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().redirect(redirect::Policy::none()).no_proxy();
        Self {
            server,
            address,
            client: client.build().unwrap(),
            key: first_key.map(|key| key.text.to_string()),
            stop,
        }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        match &self.key {
            Some(key) => request.header("x-api-key", key),
            None => request,
        }
    }

    pub(super) fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(super) fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.request(Method::POST, path)
    }

    /// Sends a request that a client library would correct.
    pub(super) async fn raw_request(&self, call: &str, headers: &[(&str, &str)]) -> RawResponse {
        raw_http::send(self.address, call, headers, "").await.unwrap()
    }

    /// Submits a job with `POST /v1/jobs`.
    pub(super) async fn submit(&self, kind: &str, input: Value) -> Value {
        let body = json!({"kind": kind, "input": input});
        json_of(self.post("/v1/jobs").json(&body)).await
    }

    pub(super) async fn job(&self, id: &str) -> Value {
        json_of(self.get(&format!("/v1/jobs/{id}"))).await
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn routes() -> Vec<ProxyRoute> {
    let route = |path: &str, kind: &str, sync: bool, pass: &[&'static str]| ProxyRoute {
        path: path.to_owned(),
        kind: kind.to_owned(),
        sync,
        pass: pass.iter().map(|name| HeaderName::from_static(name)).collect(),
    };
    vec![
        route("/reports", "report", false, &[]),
        route("/sync", "report", true, &[]),
        route("/own", "own", true, &["authorization"]),
        route("/passing", "report", true, &["authorization", "cookie", "x-token"]),
        route("/once", "once", true, &[]),
    ]
}

/// Sends the request and returns the JSON body.
pub(super) async fn json_of(request: reqwest::RequestBuilder) -> Value {
    request.send().await.unwrap().json().await.unwrap()
}

/// Sends the request and returns the status and the problem's code.
pub(super) async fn problem_of(request: reqwest::RequestBuilder) -> (u16, String) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let problem: Value = response.json().await.unwrap();
    (status, problem["code"].as_str().unwrap_or_else(|| panic!("{problem}")).to_owned())
}

pub(super) fn id_of(response: &reqwest::Response) -> String {
    response.headers()["longhaul-job-id"].to_str().unwrap().to_owned()
}
