//! Where chats go: one server that has models.

use std::fmt;

use reqwest::Url;
use reqwest::header::HeaderValue;

/// In which API a target api.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetApi {
    /// Ollama's own.
    Ollama,
    /// That of `OpenAI`, which many servers have.
    OpenAi,
}

/// A server that has models.
#[derive(Clone)]
pub struct ModelServer {
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) api: TargetApi,
    pub(super) models: Option<Vec<String>>,
    pub(super) concurrency: usize,
    pub(super) key: Option<HeaderValue>,
}

/// What is wrong with the description of a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelServerError {
    /// It cannot be called there.
    #[error("it is no http:// or https:// URL")]
    Url,
    /// It cannot be sent.
    #[error("the key has characters that no header may have")]
    Key,
}

impl ModelServer {
    /// A target that is asked which models it has and serves one call at a time.
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
            // People write the base URL of OpenAI's API with its version, as its clients take it, or without.
            TargetApi::OpenAi if !path.ends_with("/v1") => format!("{path}/v1"),
            TargetApi::OpenAi | TargetApi::Ollama => path.to_owned(),
        };
        url.set_path(&path);
        Ok(Self { name: name.into(), url, api, models: None, concurrency: 1, key: None })
    }

    /// It has these models, and is not asked.
    #[must_use]
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.models = Some(models.into_iter().map(Into::into).collect());
        self
    }

    /// It serves so many calls at once.
    #[must_use]
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// It wants this key as a bearer's token.
    pub fn key(mut self, key: &str) -> Result<Self, ModelServerError> {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ModelServerError::Key)?;
        value.set_sensitive(true);
        self.key = Some(value);
        Ok(self)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where something of it is.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url.as_str().trim_end_matches('/'))
    }

    /// Whether a model that it lists is the one that is asked for: in Ollama a name without a tag is its newest.
    pub(super) fn is_called(&self, listed: &str, asked: &str) -> bool {
        let plain = |name: &str| name.strip_suffix(":latest").unwrap_or(name).to_owned();
        match self.api {
            TargetApi::Ollama => plain(listed) == plain(asked),
            TargetApi::OpenAi => listed == asked,
        }
    }
}

/// Without the key, and without a password that may be in the URL.
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
    fn version_of_openais_api_may_be_in_the_url_or_not() {
        let at = |url| ModelServer::new("t", url, TargetApi::OpenAi).unwrap().at("/models");
        for url in ["http://host:1", "http://host:1/", "http://host:1/v1", "http://host:1/v1/"] {
            assert_eq!(at(url), "http://host:1/v1/models");
        }
        assert_eq!(at("https://host/some/where"), "https://host/some/where/v1/models");
        let ollama = ModelServer::new("t", "http://host:11434/", TargetApi::Ollama).unwrap();
        assert_eq!(ollama.at("/api/chat"), "http://host:11434/api/chat");
    }

    #[test]
    fn keys_and_passwords_are_not_shown() {
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
    fn newest_is_what_has_no_tag() {
        let ollama = ModelServer::new("t", "http://host", TargetApi::Ollama).unwrap();
        assert!(ollama.is_called("llama3.2:latest", "llama3.2"));
        assert!(!ollama.is_called("llama3.2:1b", "llama3.2"));
        let other = ModelServer::new("t", "http://host", TargetApi::OpenAi).unwrap();
        assert!(!other.is_called("llama3.2:latest", "llama3.2"));
    }
}
