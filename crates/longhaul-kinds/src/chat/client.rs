//! Calls to targets. Their URLs are the operator's, so they may be anywhere.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use super::error::ChatError;
use super::target::ModelServer;
use longhaul_net::http_client;

/// For what a target knows without thinking: its models, and which of them are loaded.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of what is asked like this, and of an error.
const ASKED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The client of all targets.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Made when first needed: reading the machine's certificates takes time and memory.
    http: OnceLock<reqwest::Client>,
}

impl Client {
    /// Asks for something that is answered at once.
    pub(super) async fn get(&self, target: &ModelServer, path: &str) -> Result<Value, ChatError> {
        let request = self.http(target)?.get(target.at(path)).timeout(ASK_TIMEOUT);
        asked(target, checked(target, send(target, request).await?).await?).await
    }

    /// The same with a body.
    pub(super) async fn ask(
        &self,
        target: &ModelServer,
        path: &str,
        body: String,
    ) -> Result<Value, ChatError> {
        let request = self.http(target)?.post(target.at(path)).timeout(ASK_TIMEOUT);
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        asked(target, checked(target, send(target, request).await?).await?).await
    }

    /// Begins a call whose answer comes bit by bit.
    pub(super) async fn call(
        &self,
        target: &ModelServer,
        path: &str,
        body: String,
    ) -> Result<Response, ChatError> {
        let request = self.http(target)?.post(target.at(path));
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        checked(target, send(target, request).await?).await
    }

    fn http(&self, target: &ModelServer) -> Result<&reqwest::Client, ChatError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let client = http_client::build(http_client::bare, None);
        let client = client.map_err(|error| ChatError::Unreachable {
            target: target.name.clone(),
            why: error.to_string(),
        })?;
        Ok(self.http.get_or_init(|| client))
    }
}

async fn send(target: &ModelServer, request: RequestBuilder) -> Result<Response, ChatError> {
    let request = match &target.key {
        Some(key) => request.header(AUTHORIZATION, key.clone()),
        None => request,
    };
    request.send().await.map_err(|error| unreachable(target, &error))
}

/// The answer, if it is one.
async fn checked(target: &ModelServer, mut response: Response) -> Result<Response, ChatError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = asked.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let mut said = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        said.extend_from_slice(&bytes);
        if said.len() > ASKED_BYTES_MAX {
            break;
        }
    }
    Err(ChatError::answered(&target.name, status.as_u16(), &said, retry_after))
}

async fn asked(target: &ModelServer, mut response: Response) -> Result<Value, ChatError> {
    let mut said = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| unreachable(target, &error))? {
        said.extend_from_slice(&bytes);
        if said.len() > ASKED_BYTES_MAX {
            return Err(failed(target, "it says more than it was asked"));
        }
    }
    serde_json::from_slice(&said).map_err(|_| failed(target, "what it says is no JSON"))
}

fn failed(target: &ModelServer, message: &str) -> ChatError {
    ChatError::Failed { target: target.name.clone(), message: message.to_owned() }
}

fn unreachable(target: &ModelServer, error: &reqwest::Error) -> ChatError {
    ChatError::Unreachable { target: target.name.clone(), why: reason(error) }
}

/// What went wrong, without the URL, which may have a password in it.
pub(super) fn reason(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(cause) = source.source() {
        source = cause;
    }
    // The innermost has no URL; the outermost has, if it is the only one.
    let is_alone = std::error::Error::source(error).is_none();
    if is_alone { "the request could not be sent".to_owned() } else { source.to_string() }
}
