//! A single call: URL, request, safe retries and response.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::root_cause;
use super::retry::{Backoff, chance};
use super::{Client, ClientError, Result};
use crate::wire::{Problem, RawJson};

/// Attempts of an idempotent call.
const ATTEMPTS_MAX: u32 = 3;
const FIRST_RETRY: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Timeout of a response, in addition to the requested wait.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// Permission to send a call again without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// The call is idempotent.
    Safe,
    /// The first request may have succeeded, and a second one would repeat the effect.
    Never,
}

/// Attempts of one call.
pub(super) struct Attempts {
    repeat: Repeat,
    failures: u32,
    backoff: Backoff,
}

impl Attempts {
    pub(super) fn new(repeat: Repeat) -> Self {
        Self { repeat, failures: 0, backoff: Backoff::new(FIRST_RETRY, RETRY_MAX) }
    }

    /// Waits until the call may be sent again, or returns the error.
    pub(super) async fn wait_after(&mut self, error: ClientError) -> Result<()> {
        self.failures += 1;
        let lost = matches!(error, ClientError::Unreachable { .. });
        if !lost || self.repeat == Repeat::Never || self.failures >= ATTEMPTS_MAX {
            return Err(error);
        }
        tokio::time::sleep(self.backoff.next(chance())).await;
        Ok(())
    }
}

pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<RawJson>,
    pub(super) repeat: Repeat,
    /// Requested wait of the server before its response.
    pub(super) hold: Duration,
}

impl Call {
    pub(super) fn get(url: Url) -> Self {
        Self::new(Method::GET, url, Repeat::Safe)
    }

    pub(super) fn new(method: Method, url: Url, repeat: Repeat) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: None, repeat, hold: Duration::ZERO }
    }

    pub(super) fn body(mut self, body: &impl Serialize) -> Result<Self> {
        let text = RawJson::from_value(body).map_err(|error| {
            ClientError::Invalid(format!("cannot serialize the request: {error}"))
        })?;
        self.body = Some(text);
        Ok(self)
    }
}

impl Client {
    /// Returns the URL of a path, each segment escaped.
    pub(super) fn url(&self, segments: &[&str]) -> Result<Url> {
        // The URL standard resolves dots, which would address another route.
        if let Some(odd) = segments.iter().find(|s| matches!(**s, "" | "." | "..")) {
            return Err(ClientError::Invalid(format!("{odd:?} is not an id or a name")));
        }
        let mut url = self.server.clone();
        url.path_segments_mut()
            .map_err(|()| ClientError::Invalid(format!("{} has no paths", self.server())))?
            .pop_if_empty()
            .extend(segments);
        Ok(url)
    }

    /// Fetches a JSON document.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<T> {
        let mut url = self.url(path)?;
        append_query(&mut url, query);
        self.json(Call::get(url)).await
    }

    /// Sends a body that must not arrive twice, and parses the JSON response.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T> {
        self.json(self.call(Method::POST, path, Repeat::Never)?.body(body)?).await
    }

    pub(super) fn call(&self, method: Method, path: &[&str], repeat: Repeat) -> Result<Call> {
        Ok(Call::new(method, self.url(path)?, repeat))
    }

    /// Sends a call and parses its JSON response.
    pub(super) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let body = self.bytes(call).await?;
        self.parse(&body)
    }

    /// Sends a call and returns the body of its response.
    pub(super) async fn bytes(&self, call: Call) -> Result<Vec<u8>> {
        let mut attempts = Attempts::new(call.repeat);
        loop {
            match self.send(&call).await {
                Ok(body) => return Ok(body),
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    /// Sends a call without a response body.
    pub(super) async fn done(&self, call: Call) -> Result<()> {
        self.bytes(call).await.map(drop)
    }

    /// Deletes a resource. If it no longer exists at a further attempt, an earlier one whose response was lost has
    /// deleted it.
    pub(super) async fn delete(&self, url: Url) -> Result<()> {
        let call = Call::new(Method::DELETE, url, Repeat::Safe);
        let mut attempts = Attempts::new(call.repeat);
        loop {
            match self.send(&call).await {
                Ok(_) => return Ok(()),
                Err(error) if attempts.failures > 0 && is_missing(&error) => return Ok(()),
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    async fn send(&self, call: &Call) -> Result<Vec<u8>> {
        let mut request = self
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone())
            .header(ACCEPT, "application/json")
            .timeout(call.hold.saturating_add(RESPONSE_TIMEOUT));
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| self.connection_failed(&error))?;
        self.read(response).await
    }

    pub(super) fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.api_key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        }
    }

    pub(super) async fn read(&self, response: Response) -> Result<Vec<u8>> {
        let response = self.accepted(response).await?;
        let body = response.bytes().await.map_err(|error| self.connection_failed(&error))?;
        Ok(body.into())
    }

    /// Returns a 2xx response, or the error of any other.
    pub(super) async fn accepted(&self, response: Response) -> Result<Response> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_redirection() {
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let target = target.unwrap_or("another address").to_owned();
            return Err(self.unexpected_status(status, format!("redirects to {target}")));
        }
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let body = response.bytes().await.map_err(|error| self.connection_failed(&error))?;
        Err(match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => ClientError::Refused(Box::new(problem)),
            Err(_) if is_gateway_error(status) => {
                let reason = format!("returned {status}, which is not from a Longhaul server");
                self.unexpected_status(status, reason)
            }
            Err(_) => {
                let content_type = content_type.as_ref().and_then(|value| value.to_str().ok());
                let content_type = content_type.unwrap_or("no content type");
                let code = status.as_u16();
                let reason = format!("is not a Longhaul server ({code}, {content_type})");
                self.unexpected_status(status, reason)
            }
        })
    }

    fn unexpected_status(&self, status: StatusCode, reason: String) -> ClientError {
        let server = self.server().to_owned();
        ClientError::Protocol { server, status: Some(status.as_u16()), reason }
    }

    pub(super) fn connection_failed(&self, error: &reqwest::Error) -> ClientError {
        let reason = root_cause(error);
        // rustls reports this when the server does not use TLS.
        if reason.contains("InvalidContentType") {
            let address = self.server().replacen("https://", "http://", 1);
            return self.unreachable(format!("the server speaks plain HTTP; use {address}"));
        }
        self.unreachable(reason)
    }

    /// Error for a missing or incomplete response.
    pub(super) fn unreachable(&self, reason: impl Into<String>) -> ClientError {
        ClientError::Unreachable { server: self.server().to_owned(), reason: reason.into() }
    }

    /// Error for a response that does not match the API.
    pub(super) fn bad_response(&self, reason: impl Into<String>) -> ClientError {
        let server = self.server().to_owned();
        let reason = format!("returned an unexpected response: {}", reason.into());
        ClientError::Protocol { server, status: None, reason }
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T> {
        serde_json::from_slice(body).map_err(|error| {
            if error.is_data() {
                return self.bad_response(error.to_string());
            }
            let reason = "is not a Longhaul server (its response is not JSON)".to_owned();
            ClientError::Protocol { server: self.server().to_owned(), status: None, reason }
        })
    }
}

fn is_missing(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem) if matches!(problem.status, 404 | 410))
}

fn is_gateway_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

/// Adds the query parameters that have a value.
pub(super) fn append_query(url: &mut Url, pairs: &[(&str, Option<&str>)]) {
    for (name, value) in pairs {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SubmitOptions;
    use super::super::testing::{Server, job, json, problem};
    use super::*;
    use crate::wire::{Status, SubmitRequest};

    #[tokio::test]
    async fn read_is_retried_without_a_response() {
        let server = Server::start(vec![String::new(), json("200 OK", &job(1, "running"))]).await;
        let job = server.client().job("01KA", None).await.unwrap();
        assert_eq!(job.status, Status::Running);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert!(requests[0].contains("authorization: Bearer lh_key\r\n"), "{}", requests[0]);
    }

    #[tokio::test]
    async fn submission_is_retried_only_with_a_key() {
        let accepted = json("202 Accepted", &job(1, "pending"));
        let request = SubmitRequest::new("demo", &()).unwrap();

        let server = Server::start(vec![String::new(), accepted.clone()]).await;
        let refused = server.client().submit(&request, &SubmitOptions::default()).await;
        assert!(matches!(refused, Err(ClientError::Unreachable { .. })), "{refused:?}");
        assert_eq!(server.requests().len(), 1);

        let server = Server::start(vec![String::new(), accepted]).await;
        let wait = Some(Duration::from_millis(1500));
        let keyed = SubmitOptions { idempotency_key: Some("k".to_owned()), wait };
        server.client().submit(&request, &keyed).await.unwrap();
        for sent in server.requests() {
            assert!(sent.contains("idempotency-key: k\r\n"), "{sent}");
            assert!(sent.contains("prefer: wait=2\r\n"), "{sent}");
            assert!(sent.ends_with(r#"{"kind":"demo","input":null}"#), "{sent}");
        }
    }

    #[tokio::test]
    async fn call_without_a_response_body_is_attempted_three_times() {
        let lost = String::new;
        let server = Server::start(vec![lost(), lost(), json("200 OK", "{}")]).await;
        server.client().pause_queue("mail").await.unwrap();
        assert_eq!(server.requests().len(), 3);

        let server = Server::start(vec![lost(), lost(), lost(), json("200 OK", "{}")]).await;
        let error = server.client().revoke_key("k").await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
        assert_eq!(server.requests().len(), 3);
    }

    #[tokio::test]
    async fn deletion_whose_response_was_lost_succeeds() {
        for (missing, code) in [(410, "job-gone"), (404, "job-not-found")] {
            let server = Server::start(vec![String::new(), problem(missing, code)]).await;
            server.client().purge("01KA").await.unwrap();
            assert_eq!(server.requests().len(), 2);
            let server = Server::start(vec![problem(missing, code)]).await;
            let error = server.client().delete_endpoint("ep").await.unwrap_err();
            assert!(matches!(error, ClientError::Refused(_)), "{error}");
        }
        let server = Server::start(vec![String::new(), problem(409, "job-not-finished")]).await;
        let error = server.client().purge("01KA").await.unwrap_err();
        assert!(matches!(error, ClientError::Refused(_)), "{error}");
    }

    #[tokio::test]
    async fn rejection_carries_the_problem_and_is_not_retried() {
        let server = Server::start(vec![problem(404, "job-not-found")]).await;
        let error = server.client().job("01KA", None).await.unwrap_err();
        insta::assert_snapshot!(error, @"d (404 job-not-found)");
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn response_of_another_server_is_a_protocol_error() {
        for (response, reason) in [
            (
                json("502 Bad Gateway", "<html>"),
                "returned 502 Bad Gateway, which is not from a Longhaul server",
            ),
            (json("200 OK", "[]"), "invalid length 0, expected struct Job"),
            (json("404 Not Found", "page"), "is not a Longhaul server (404, application/json)"),
            (json("200 OK", "<html>"), "is not a Longhaul server (its response is not JSON)"),
            (
                "HTTP/1.1 301 Moved\r\nlocation: https://x/\r\n\r\n".to_owned(),
                "redirects to https://x/",
            ),
        ] {
            let server = Server::start(vec![response]).await;
            let error = server.client().job("01KA", None).await.unwrap_err();
            assert!(matches!(&error, ClientError::Protocol { .. }), "{error}");
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[tokio::test]
    async fn unreachable_server_error_names_the_address() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let error = client.kinds().await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot reach http://127.0.0.1:1: Connection refused"), "{text}");
    }
}
