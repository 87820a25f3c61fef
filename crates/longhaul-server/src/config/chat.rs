//! `[chat]`: servers with language models.

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul::job::{Limits, Name, Retry};
use longhaul_kinds::chat::{ModelServer, TargetApi};

use super::check::Check;
use super::error::ConfigError;
use super::schema::{count, name, one_of, span};
use super::settings::{ChatSettings, MOMENT};
use super::table_reader::read_table;
use super::value::ConfigEntry;
use super::variables::Variables;
use crate::secret::Secret;

const TARGETS: &str = "chat.targets";
const APIS: &[(&str, TargetApi)] = &[("ollama", TargetApi::Ollama), ("openai", TargetApi::OpenAi)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatConfig {
    /// At least one.
    pub targets: Vec<ChatTarget>,
    /// Signs requests to `state_webhook_url`.
    pub webhook_secret: Option<Secret>,
    pub retry: Retry,
    pub body_bytes_max: usize,
    /// Time for which a waiting caller waits for an unreachable target.
    pub unreachable_wait: Duration,
    /// Cancel calls without an idempotency key whose client disconnects.
    pub cancel_disconnected: bool,
}

/// A server with language models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTarget {
    /// Unique.
    pub name: Name,
    /// Without user name and password.
    pub url: String,
    pub api: TargetApi,
    /// Models of the server; requested from it if `None`.
    pub models: Option<Vec<String>>,
    /// Concurrent calls from this process.
    pub concurrency: u32,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
}

/// Returns `None` without any target.
pub(super) fn chat(
    check: &mut Check,
    settings: &ChatSettings,
    variables: &Variables<'_>,
) -> Option<ChatConfig> {
    let secret = variables.filled(&settings.webhook_secret, "chat.webhook_secret");
    let webhook_secret = check.take(secret).and_then(|text| Secret::new(&text));
    let retry = retry(check, &settings.retry);
    let mut names = BTreeSet::new();
    let mut targets = Vec::new();
    for entry in check.take(settings.targets.list(TARGETS))? {
        let Some(target) = target(check, entry, variables) else { continue };
        if !names.insert(target.name.clone()) {
            let message = format!("`{TARGETS}` has two named {:?}", target.name.as_str());
            check.error(&entry.origin, message);
        }
        targets.push(target);
    }
    let retry = retry?;
    (!targets.is_empty()).then_some(ChatConfig {
        targets,
        webhook_secret,
        retry,
        body_bytes_max: settings.body_bytes_max,
        unreachable_wait: settings.unreachable_wait,
        cancel_disconnected: settings.on_disconnect,
    })
}

fn retry(check: &mut Check, entry: &ConfigEntry) -> Option<Retry> {
    let limits = Limits::default();
    let delay = span(MOMENT..=limits.delay_max);
    read_table(check, "chat.retry", entry, |table| {
        let attempts = count(1..=limits.max_attempts_max);
        let retry = Retry {
            first: table.value("first", &delay).unwrap_or(Duration::from_secs(1)),
            max: table.value("max", &delay).unwrap_or(Duration::from_mins(1)),
            max_attempts: table.value("attempts", &attempts).unwrap_or(10),
        };
        if retry.first > retry.max {
            table.error("`chat.retry.max` is less than `chat.retry.first`".to_owned());
        }
        Some(retry)
    })
}

fn target(check: &mut Check, entry: &ConfigEntry, variables: &Variables<'_>) -> Option<ChatTarget> {
    read_table(check, TARGETS, entry, |table| {
        table.require(&["name", "url", "api"], &format!("a target in `{TARGETS}`"));
        let name = table.value("name", &name());
        let api = table.value("api", &one_of(APIS));
        let url = table.value_with("url", url);
        let models = table.value_with("models", models);
        let concurrency = table.value("concurrency", &count(1..=10_000)).unwrap_or(1);
        let api_key = table.value_with("api_key", |entry, key| api_key(entry, key, variables));
        Some(ChatTarget { name: name?, url: url?, api: api?, models, concurrency, api_key })
    })
}

/// Reads a key, or `${NAME}` from the environment. No error shows it.
fn api_key(
    entry: &ConfigEntry,
    key: &str,
    variables: &Variables<'_>,
) -> Result<Secret, ConfigError> {
    let text = variables.filled(entry, key)?;
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    let error = || entry.error(key, "expected visible ASCII characters, at least one");
    Secret::new(&text).filter(|_| is_visible).ok_or_else(error)
}

fn url(entry: &ConfigEntry, key: &str) -> Result<String, ConfigError> {
    let text = entry.text(key)?;
    if text.contains('@') {
        return Err(entry.refused(key, "credentials belong in `api_key`"));
    }
    let target = ModelServer::new("", text, TargetApi::Ollama).map(|_| text.to_owned());
    target.map_err(|error| entry.refused(key, error))
}

fn models(entry: &ConfigEntry, key: &str) -> Result<Vec<String>, ConfigError> {
    let items = entry.list(key)?;
    if items.is_empty() {
        return Err(
            entry.wrong(key, "at least one model; omit the key to request them from the server")
        );
    }
    let name = |item: &ConfigEntry| match item.text(key)? {
        "" => Err(item.wrong(key, "the name of a model")),
        name => Ok(name.to_owned()),
    };
    items.iter().map(name).collect()
}
