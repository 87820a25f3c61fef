//! The targets of chats.

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul::job::{Limits, Name, Retry};
use longhaul_kinds::chat::{ModelServer, TargetApi};

use super::check::{Check, MOMENT};
use super::error::{ConfigError, hint, nearest};
use super::value::{Entry, Table};
use super::variables::Variables;
use crate::secret::Secret;

/// Keys of a target.
const KEYS: [&str; 6] = ["name", "url", "api", "models", "concurrency", "api_key"];
/// Keys of `retry`.
const RETRY_KEYS: [&str; 3] = ["first", "max", "attempts"];

/// Where chats go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatConfig {
    /// At least one.
    pub targets: Vec<ChatTarget>,
    /// What deliveries of states are signed with.
    pub webhook_secret: Option<Secret>,
    /// How often and how soon a chat is tried again.
    pub retry: Retry,
}

/// A server that has models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTarget {
    /// Unique.
    pub name: Name,
    /// Where it is, without a user or a password.
    pub url: String,
    /// What it speaks.
    pub api: TargetApi,
    /// What it has; asked of it if nobody says.
    pub models: Option<Vec<String>>,
    /// Calls at once, of this process.
    pub concurrency: u32,
    /// What it wants to be shown.
    pub api_key: Option<Secret>,
}

/// The inner `None` is no chat at all.
#[expect(clippy::option_option, reason = "wrong, none and one are three things")]
pub(super) fn chat(check: &mut Check, variables: &Variables<'_>) -> Option<Option<ChatConfig>> {
    let targets = check.read("chat.targets", |entry, key| entry.list(key).map(<[Entry]>::to_vec));
    let secret = check.read("chat.webhook_secret", |entry, key| {
        variables.filled(entry, key).map(|text| Secret::new(&text))
    });
    let retry = check.read("chat.retry", |entry, key| entry.table(key).map(|_| entry.clone()));
    let retry = retry.and_then(|entry| self::retry(check, &entry));
    let mut names = BTreeSet::new();
    let mut read = Vec::new();
    for entry in targets? {
        let found = check.take(entry.table(TARGETS)).cloned();
        let found = found
            .and_then(|table| Reader { check, entry: &entry, table: &table, variables }.target());
        if let Some(target) = &found
            && !names.insert(target.name.clone())
        {
            let why = format!("`{TARGETS}` has two named {:?}", target.name.as_str());
            check.error(&entry.origin, why);
        }
        read.push(found);
    }
    let (secret, retry) = (secret?, retry?);
    let targets: Vec<ChatTarget> = read.into_iter().collect::<Option<_>>()?;
    let is_on = !targets.is_empty();
    Some(is_on.then_some(ChatConfig { targets, webhook_secret: secret, retry }))
}

const TARGETS: &str = "chat.targets";

fn retry(check: &mut Check, entry: &Entry) -> Option<Retry> {
    let table = entry.table("chat.retry").ok()?;
    let mut retry =
        Retry { max_attempts: 10, first: Duration::from_secs(1), max: Duration::from_mins(1) };
    let limits = Limits::default();
    let wait = MOMENT..=limits.delay_max;
    for (name, entry) in table {
        let key = format!("chat.retry.{name}");
        match name.as_str() {
            "first" => retry.first = check.take(entry.duration(&key, wait.clone()))?,
            "max" => retry.max = check.take(entry.duration(&key, wait.clone()))?,
            "attempts" => {
                retry.max_attempts = check.take(entry.count(&key, 1..=limits.max_attempts_max))?;
            }
            _ => check.error(&entry.origin, unknown(&key, name, &RETRY_KEYS)),
        }
    }
    if retry.first > retry.max {
        check.error(&entry.origin, "`chat.retry.max` is less than `chat.retry.first`".to_owned());
    }
    Some(retry)
}

fn unknown(key: &str, name: &str, known: &'static [&'static str]) -> String {
    format!("unknown key `{key}`{}", hint(nearest(name, known.iter().copied())))
}

struct Reader<'a> {
    check: &'a mut Check,
    entry: &'a Entry,
    table: &'a Table,
    variables: &'a Variables<'a>,
}

impl Reader<'_> {
    fn target(&mut self) -> Option<ChatTarget> {
        for (name, entry) in self.table {
            if !KEYS.contains(&name.as_str()) {
                let key = format!("{TARGETS}.{name}");
                self.check.error(&entry.origin, unknown(&key, name, &KEYS));
            }
        }
        for needed in ["name", "url", "api"] {
            if !self.table.contains_key(needed) {
                let why = format!("a target in `{TARGETS}` needs `{needed}`");
                self.check.error(&self.entry.origin, why);
            }
        }
        let name = self.read("name", |entry, key| {
            Name::new(entry.text(key)?).map_err(|error| entry.refused(key, error))
        });
        let api = self.read("api", |entry, key| match entry.text(key)? {
            "ollama" => Ok(TargetApi::Ollama),
            "openai" => Ok(TargetApi::OpenAi),
            _ => Err(entry.wrong(key, "\"ollama\" or \"openai\"")),
        });
        let url = self.read("url", url);
        let models = self.read("models", models);
        let concurrency = self.read("concurrency", |entry, key| entry.count(key, 1..=10_000));
        let key = self.table.get("api_key").cloned().map(|entry| self.api_key(&entry));
        let key = match key {
            Some(key) => Some(key?),
            None => None,
        };
        Some(ChatTarget {
            name: name?,
            url: url?,
            api: api?,
            models,
            concurrency: concurrency.unwrap_or(1),
            api_key: key,
        })
    }

    /// Reads a key if it is there.
    fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Entry, &str) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let entry = self.table.get(name)?;
        self.check.take(read(entry, &format!("{TARGETS}.{name}")))
    }

    /// A key, or `${NAME}` for what the environment has under that name. No error shows it.
    fn api_key(&mut self, entry: &Entry) -> Option<Secret> {
        let key = format!("{TARGETS}.api_key");
        let wrong = |why: &str| ConfigError::new(&entry.origin, format!("`{key}`: {why}"));
        let found = self.variables.filled(entry, &key);
        let is_sent = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let secret = |text: String| Secret::new(&text).filter(|_| is_sent(&text));
        let unfit = || wrong("a key has visible ASCII characters, and at least one");
        let found = found.and_then(|text| secret(text).ok_or_else(unfit));
        self.check.take(found)
    }
}

fn url(entry: &Entry, key: &str) -> Result<String, ConfigError> {
    let text = entry.text(key)?;
    if text.contains('@') {
        return Err(entry.refused(key, "what proves who we are belongs into `api_key`"));
    }
    let built = ModelServer::new("", text, TargetApi::Ollama).map(|_| text.to_owned());
    built.map_err(|error| entry.refused(key, error))
}

fn models(entry: &Entry, key: &str) -> Result<Vec<String>, ConfigError> {
    let items = entry.list(key)?;
    if items.is_empty() {
        return Err(entry.wrong(key, "names of models, or to be left out"));
    }
    let name = |item: &Entry| match item.text(key)? {
        "" => Err(item.wrong(key, "a model's name")),
        name => Ok(name.to_owned()),
    };
    items.iter().map(name).collect()
}
