//! Requests to a test server and their responses.

use std::borrow::Borrow;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::HOST;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use longhaul_server::listen::{ClientInfo, Scheme};
use serde_json::Value;
use tower::ServiceExt;

/// A request that has not been sent yet.
pub(crate) struct TestRequest {
    router: Router,
    request: axum::http::request::Builder,
    body: Body,
}

impl TestRequest {
    pub(super) fn new(router: Router, method: Method, path: &str) -> Self {
        let request = Request::builder().method(method).uri(path);
        Self { router, request, body: Body::empty() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Sets the client's address, which the listener determines for real connections.
    pub(crate) fn client_address(mut self, address: &str) -> Self {
        let client = ClientInfo { address: address.parse().unwrap(), scheme: Scheme::Http };
        self.request = self.request.extension(client);
        self
    }

    /// Authenticates with an API key.
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn json(self, body: impl Borrow<Value>) -> Self {
        self.json_text(body.borrow().to_string())
    }

    /// Sets a body with the content type of JSON, which it may not be.
    pub(crate) fn json_text(self, body: impl Into<Body>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// Sets a body without a content type.
    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) async fn send(self) -> TestResponse {
        let stream = self.open().await;
        let body = stream.body.collect().await.unwrap().to_bytes();
        TestResponse { status: stream.status, headers: stream.headers, body }
    }

    /// Sends the request and returns the status and the JSON body, `null` if there is none.
    pub(crate) async fn fetch(self) -> (u16, Value) {
        let response = self.send().await;
        let body = if response.body.is_empty() { Value::Null } else { response.json() };
        (response.status.as_u16(), body)
    }

    /// Sends the request and leaves the body to be read chunk by chunk.
    pub(crate) async fn open(self) -> ResponseStream {
        let mut request = self.request.body(self.body).unwrap();
        request.headers_mut().entry(HOST).or_insert(HeaderValue::from_static("localhost"));
        let (parts, body) = self.router.oneshot(request).await.unwrap().into_parts();
        ResponseStream { status: parts.status, headers: parts.headers, body }
    }
}

#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl TestResponse {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns the problem's status and code, after checking the fields that all problems have.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        assert_eq!(problem["requestId"].as_str(), self.header("x-request-id"));
        for key in ["type", "title", "detail"] {
            assert!(!problem[key].as_str().unwrap().is_empty(), "{key} in {problem}");
        }
        (self.status.as_u16(), problem["code"].as_str().unwrap().to_owned())
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }

    /// Returns the id of the job that a compatibility API or the proxy created.
    pub(crate) fn job_id(&self) -> String {
        self.header("longhaul-job-id").unwrap().to_owned()
    }
}

/// A response whose body is read chunk by chunk.
pub(crate) struct ResponseStream {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl ResponseStream {
    /// Returns the next chunk, or `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        let frame = self.body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().into()).unwrap())
    }

    /// Returns the id and the job of the next server-sent event.
    pub(crate) async fn event(&mut self) -> Option<(u64, Value)> {
        loop {
            let chunk = self.chunk().await?;
            if let Some(event) = chunk.strip_prefix("event: job\nid: ") {
                let (id, data) = event.split_once("\ndata: ").unwrap();
                let job: Value = serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap();
                return Some((id.parse().unwrap(), job));
            }
        }
    }

    pub(crate) fn job_id(&self) -> String {
        self.headers["longhaul-job-id"].to_str().unwrap().to_owned()
    }

    /// Returns all remaining chunks except keep-alive comments.
    pub(crate) async fn rest(mut self) -> Vec<String> {
        let mut chunks = Vec::new();
        while let Some(chunk) = self.chunk().await {
            if !chunk.starts_with(':') {
                chunks.push(chunk);
            }
        }
        chunks
    }
}
