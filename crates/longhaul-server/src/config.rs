//! Configuration: defaults, a file, the environment and flags, checked once at the start.
//!
//! Nothing else reads the environment.

mod chat;
mod check;
mod document;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod http;
mod kinds;
mod layers;
mod parsers;
mod proxy;
mod queues;
mod schema;
mod settings;
mod sources;
mod table_reader;
mod units;
mod value;
mod variables;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::job::{Name, Retention};

use crate::api::ProxyRoute;
use crate::auth::OidcSettings;
use crate::listen::{ConnLimits, TlsFiles};
use crate::secret::Secret;
use crate::webhooks::WebhookSettings;
use layers::Layers;
use longhaul_net::egress::Policy;
use value::{ConfigEntry, Value};

pub use chat::{ChatConfig, ChatTarget};
pub use document::reference_page;
pub use error::{ConfigError, ConfigErrors, Origin, nearest};
pub use http::HttpKindConfig;
pub use kinds::{KindConfig, KindRunner, StepCommand};
pub use queues::QueueConfig;
pub use settings::{AuthConfig, HttpConfig, LeaseConfig, LimitsConfig, RenderConfig, WorkerConfig};
pub use sources::{Flags, Sources};
pub use units::parse_bytes;

/// Configuration of a server. The settings table documents each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// A loopback address unless authentication is required. Unused by a worker.
    pub listen: SocketAddr,
    pub metrics_listen: Option<SocketAddr>,
    pub data: PathBuf,
    pub database: Database,
    /// Time that a start waits for a Postgres server.
    pub wait_for_database: Duration,
    /// URL of the blob store.
    pub blobs: String,
    pub server_key: ServerKeySource,
    /// Parent of the working directories of running jobs.
    pub work: PathBuf,
    pub replica: Name,
    pub role: Role,
    pub require_idempotency_key: bool,
    pub sync_wait_max: Duration,
    pub auth: AuthConfig,
    pub oidc: Option<OidcSettings>,
    pub stripe_secret: Option<Secret>,
    pub log: LogConfig,
    pub retention: Retention,
    /// Longest time that a payload waits for its job to be claimed.
    pub payload_retention: Duration,
    pub lease: LeaseConfig,
    pub worker: WorkerConfig,
    pub limits: LimitsConfig,
    pub http: HttpConfig,
    pub egress: Policy,
    pub tls: Option<TlsFiles>,
    pub webhooks: WebhookSettings,
    pub chat: Option<ChatConfig>,
    pub render: Option<RenderConfig>,
    /// Declared kinds, without the built-in ones.
    pub kinds: BTreeMap<Name, KindConfig>,
    pub proxies: Vec<ProxyRoute>,
    /// Queues with limits.
    pub queues: BTreeMap<Name, QueueConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    Sqlite(PathBuf),
    /// Lost when the process ends.
    Memory,
    /// A URL, secret because it may contain a password.
    Postgres(Secret),
}

/// Source of the server keys, which encrypt the keys of payloads and artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerKeySource {
    /// A file, created if missing.
    File(PathBuf),
    /// The keys themselves, one per line.
    Inline(Secret),
}

/// Part of the work that a process does. The comments are the help of `--role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Serve HTTP and run jobs
    All,
    /// Only serve HTTP
    Api,
    /// Only run jobs
    Worker,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }

    pub fn serves_http(self) -> bool {
        match self {
            Self::All | Self::Api => true,
            Self::Worker => false,
        }
    }

    pub fn runs_jobs(self) -> bool {
        match self {
            Self::All | Self::Worker => true,
            Self::Api => false,
        }
    }
}

impl Database {
    /// Parses `memory`, `sqlite:PATH` or `postgres://…`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "memory" => Some(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Some(Self::Sqlite(path.into())),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Secret::new(text).map(Self::Postgres)
            }
            Some(_) | None => None,
        }
    }

    /// Returns whether several processes can use it at the same time.
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::Memory => false,
            Self::Postgres(_) => true,
        }
    }
}

/// Log output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    pub format: LogFormat,
    /// A level, or levels per module from `LONGHAUL_LOG`; see [`crate::logs`].
    pub filter: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty on a terminal, JSON elsewhere.
    Auto,
    Pretty,
    /// One object per line.
    Json,
}

impl Config {
    /// Reads and checks all layers. Also returns every value with its origin.
    pub fn load(sources: &Sources) -> Result<(Self, Vec<EffectiveSetting>), ConfigErrors> {
        let layers = Layers::of(sources);
        let settings = effective_settings(&layers);
        match check::check(layers, sources) {
            (Some(config), errors) if errors.is_empty() => Ok((config, settings)),
            (_, mut errors) => {
                errors.sort_by(|a, b| a.origin.cmp(&b.origin));
                Err(ConfigErrors(errors))
            }
        }
    }

    /// Returns the limits of [`crate::listen::serve`].
    pub fn conn_limits(&self) -> ConnLimits {
        ConnLimits {
            header_timeout: self.http.header_timeout,
            body_timeout: self.http.body_timeout,
            body_bytes_per_s_min: self.http.body_bytes_per_s_min,
            write_timeout: self.http.write_timeout,
            stop_grace: self.worker.stop_grace,
            connections_max: self.http.connections_max,
            uri_bytes_max: self.limits.uri_bytes_max,
            header_bytes_max: self.limits.header_bytes_max,
            headers_max: self.limits.headers_max,
        }
    }
}

/// A value in effect, for `longhaul doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// Dotted, for example `lease.duration`.
    pub key: String,
    /// Without secrets; of a program only its name, because arguments may be secrets.
    pub value: String,
    pub origin: Origin,
}

fn effective_settings(layers: &Layers) -> Vec<EffectiveSetting> {
    let secrets: Vec<&str> = settings::sections()
        .into_iter()
        .flat_map(|section| section.settings)
        .filter(|setting| setting.is_secret)
        .map(|setting| setting.key)
        .collect();
    let mut settings = Vec::new();
    let mut add = |key: &str, entry| add_settings(key, entry, &secrets, &mut settings);
    for (key, entry) in &layers.settings {
        let filter = layers.log_filter.as_ref().filter(|_| key == "log.level");
        add(key, filter.unwrap_or(entry));
    }
    for (name, entry) in &layers.kinds {
        add(&format!("kinds.{name}"), entry);
    }
    for (index, entry) in (1..).zip(&layers.proxies) {
        add(&format!("proxy.{index}"), entry);
    }
    for (name, entry) in &layers.queues {
        add(&format!("queues.{name}"), entry);
    }
    settings
}

fn add_settings(
    key: &str,
    entry: &ConfigEntry,
    secrets: &[&str],
    settings: &mut Vec<EffectiveSetting>,
) {
    let is_secret =
        secrets.contains(&key) || (key.starts_with("kinds.") && key.contains(".http.headers."));
    let value = match &entry.value {
        Value::Table(table) => {
            for (name, inner) in table {
                add_settings(&format!("{key}.{name}"), inner, secrets, settings);
            }
            return;
        }
        Value::List(items) => match items.as_slice() {
            [first, rest @ ..] if !rest.is_empty() => {
                format!("{} and {} more", first.value, rest.len())
            }
            [only] => only.value.to_string(),
            _ => "empty".to_owned(),
        },
        Value::Text(text) if is_secret && !text.is_empty() => "***".to_owned(),
        Value::Text(_) | Value::Whole(_) | Value::Switch(_) | Value::Other(_) => {
            entry.value.to_string()
        }
    };
    settings.push(EffectiveSetting { key: key.to_owned(), value, origin: entry.origin.clone() });
}

#[cfg(test)]
mod tests;
