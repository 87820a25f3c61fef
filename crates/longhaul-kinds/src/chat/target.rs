//! Model server configuration.

use std::fmt;

use reqwest::Url;
use reqwest::header::HeaderValue;

use super::error::ChatError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetApi {
    Ollama,
    /// The API of `OpenAI`, which many servers implement.
    OpenAi,
}

/// Server with language models, a target of calls.
#[derive(Clone)]
pub struct ModelServer {
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) api: TargetApi,
    pub(super) models: Option<Vec<String>>,
    pub(super) concurrency: usize,
    pub(super) key: Option<HeaderValue>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelServerError {
    #[error("not an http:// or https:// URL")]
    Url,
    #[error("the key contains characters that are not allowed in a header")]
    Key,
}

impl ModelServer {
    /// Creates a server that lists its own models and runs one call at a time.
    pub fn new(
        name: impl Into<String>,
        url: &str,
        api: TargetApi,
    ) -> Result<Self, ModelServerError> {
        let mut url = Url::parse(url).map_err(|_| ModelServerError::Url)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(ModelServerError::Url);
        }
        url.set_query(None);
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/');
        let path = match api {
            // The base URL may include the version, as OpenAI's clients expect, or not.
            TargetApi::OpenAi if !path.ends_with("/v1") => format!("{path}/v1"),
            TargetApi::OpenAi | TargetApi::Ollama => path.to_owned(),
        };
        url.set_path(&path);
        Ok(Self { name: name.into(), url, api, models: None, concurrency: 1, key: None })
    }

    /// Sets the models, in place of the list of the server.
    #[must_use]
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.models = Some(models.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the number of concurrent calls. Defaults to 1.
    #[must_use]
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// Sets the API key, sent as a bearer token.
    pub fn key(mut self, key: &str) -> Result<Self, ModelServerError> {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ModelServerError::Key)?;
        value.set_sensitive(true);
        self.key = Some(value);
        Ok(self)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn unreachable(&self, why: String) -> ChatError {
        ChatError::Unreachable { target: self.name.clone(), why }
    }

    pub(super) fn broke_off(&self, why: String) -> ChatError {
        ChatError::BrokeOff { target: self.name.clone(), why }
    }

    pub(super) fn failed(&self, message: &str) -> ChatError {
        ChatError::Failed { target: self.name.clone(), message: message.to_owned() }
    }

    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url.as_str().trim_end_matches('/'))
    }

    /// Compares a listed model with a requested one. In Ollama, a name without a tag means `latest`.
    pub(super) fn is_same_model(&self, listed: &str, requested: &str) -> bool {
        let plain = |name: &str| name.strip_suffix(":latest").unwrap_or(name).to_owned();
        match self.api {
            TargetApi::Ollama => plain(listed) == plain(requested),
            TargetApi::OpenAi => listed == requested,
        }
    }
}

/// Omits the key and a password in the URL.
impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer")
            .field("name", &self.name)
            .field("origin", &self.url.origin().ascii_serialization())
            .field("api", &self.api)
            .field("models", &self.models)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_url_may_omit_the_version() {
        let at = |url| ModelServer::new("t", url, TargetApi::OpenAi).unwrap().at("/models");
        for url in ["http://host:1", "http://host:1/", "http://host:1/v1", "http://host:1/v1/"] {
            assert_eq!(at(url), "http://host:1/v1/models");
        }
        assert_eq!(at("https://host/some/where"), "https://host/some/where/v1/models");
        let ollama = ModelServer::new("t", "http://host:11434/", TargetApi::Ollama).unwrap();
        assert_eq!(ollama.at("/api/chat"), "http://host:11434/api/chat");
    }

    #[test]
    fn debug_output_hides_keys_and_passwords() {
        let target = ModelServer::new("t", "http://me:hunter2@host", TargetApi::OpenAi).unwrap();
        let shown = format!("{:?}", target.key("sk-secret").unwrap());
        assert!(!shown.contains("hunter2") && !shown.contains("sk-secret"), "{shown}");
        for url in ["ftp://x", "nonsense", "data:x"] {
            assert_eq!(
                ModelServer::new("t", url, TargetApi::Ollama).err(),
                Some(ModelServerError::Url)
            );
        }
    }

    #[test]
    fn ollama_model_without_a_tag_is_latest() {
        let ollama = ModelServer::new("t", "http://host", TargetApi::Ollama).unwrap();
        assert!(ollama.is_same_model("llama3.2:latest", "llama3.2"));
        assert!(!ollama.is_same_model("llama3.2:1b", "llama3.2"));
        let other = ModelServer::new("t", "http://host", TargetApi::OpenAi).unwrap();
        assert!(!other.is_same_model("llama3.2:latest", "llama3.2"));
    }
}
