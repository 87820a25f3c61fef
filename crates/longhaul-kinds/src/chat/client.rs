//! HTTP client for targets. Not subject to the egress policy, because the operator configures the URLs.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use super::error::ChatError;
use super::target::ModelServer;
use longhaul_net::http_client::{self, LazyClient};

/// Timeout of requests that run no model.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of their responses and of errors.
const QUERY_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct TargetClient {
    http: LazyClient,
}

impl TargetClient {
    pub(super) async fn get(&self, target: &ModelServer, path: &str) -> Result<Value, ChatError> {
        let request = self.http(target)?.get(target.at(path)).timeout(QUERY_TIMEOUT);
        query(target, request).await
    }

    pub(super) async fn post(
        &self,
        target: &ModelServer,
        path: &str,
        body: String,
    ) -> Result<Value, ChatError> {
        query(target, self.json_request(target, path, body)?.timeout(QUERY_TIMEOUT)).await
    }

    /// Starts a call with a streamed response.
    pub(super) async fn call(
        &self,
        target: &ModelServer,
        path: &str,
        body: String,
    ) -> Result<Response, ChatError> {
        send(target, self.json_request(target, path, body)?).await
    }

    fn json_request(
        &self,
        target: &ModelServer,
        path: &str,
        body: String,
    ) -> Result<RequestBuilder, ChatError> {
        let request = self.http(target)?.post(target.at(path));
        Ok(request.header(CONTENT_TYPE, "application/json").body(body))
    }

    fn http(&self, target: &ModelServer) -> Result<&reqwest::Client, ChatError> {
        let client = self.http.get(http_client::bare, None);
        client.map_err(|error| target.unreachable(error.to_string()))
    }
}

/// Sends a request that runs no model, so that every failure of the connection or of a gateway means that the target
/// is unreachable.
async fn query(target: &ModelServer, request: RequestBuilder) -> Result<Value, ChatError> {
    let reply = async { read_json(target, send(target, request).await?).await };
    reply.await.map_err(|failure| match failure {
        ChatError::BrokeOff { why, .. } => target.unreachable(why),
        ChatError::Unavailable { message, .. } => target.unreachable(message),
        ChatError::Unreachable { .. }
        | ChatError::Silent { .. }
        | ChatError::Busy { .. }
        | ChatError::Failed { .. }
        | ChatError::TooLong { .. }
        | ChatError::Refused { .. } => failure,
    })
}

/// Returns a successful response, or else its error.
async fn send(target: &ModelServer, request: RequestBuilder) -> Result<Response, ChatError> {
    let request = match &target.key {
        Some(key) => request.header(AUTHORIZATION, key.clone()),
        None => request,
    };
    let response = request.send().await;
    let mut response = response.map_err(|error| {
        let why = reason(&error);
        if error.is_connect() { target.unreachable(why) } else { target.broke_off(why) }
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after =
        retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() > QUERY_BYTES_MAX {
            break;
        }
    }
    Err(ChatError::from_response(&target.name, status.as_u16(), &body, retry_after))
}

async fn read_json(target: &ModelServer, mut response: Response) -> Result<Value, ChatError> {
    let mut body = Vec::new();
    while let Some(bytes) =
        response.chunk().await.map_err(|error| target.broke_off(reason(&error)))?
    {
        body.extend_from_slice(&bytes);
        if body.len() > QUERY_BYTES_MAX {
            return Err(target.failed("the response is too long"));
        }
    }
    serde_json::from_slice(&body).map_err(|_| target.failed("the response is not JSON"))
}

/// Returns the cause of an error without the URL, which may contain a password.
pub(super) fn reason(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(cause) = source.source() {
        source = cause;
    }
    // Only the outermost error contains the URL.
    let is_outermost = std::error::Error::source(error).is_none();
    if is_outermost { "the request could not be sent".to_owned() } else { source.to_string() }
}
