//! The configuration: a documented default file, a file, the environment and flags, checked once
//! at the start and handed down as real types. Nothing else reads the environment.

mod chat;
mod check;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod http;
mod kinds;
mod layers;
mod network;
mod oidc;
mod proxy;
mod queues;
mod render;
mod sources;
mod units;
mod value;
mod variables;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::job::{Name, Retention};
use longhaul::store::FlowLimit;

use crate::api::{Origins, ProxyRoute};
use crate::auth::OidcSettings;
use crate::listen::{ConnLimits, TlsFiles, TrustedProxies};
use crate::secret::Secret;
use crate::webhooks::WebhookSettings;
use layers::Layers;
use longhaul_net::egress::Policy;
use value::{Entry, Value};

pub use chat::{ChatConfig, ChatTarget};
pub use error::{ConfigError, ConfigErrors, Origin};
pub use http::HttpTarget;
pub use kinds::{Kind, Run, StepCommand};
pub use queues::QueueConfig;
pub use render::RenderConfig;
pub use sources::{Flags, Sources};

/// What the server runs by. `config.default.toml` says what each means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// A loopback address, unless everybody needs a key or a token. A worker has no use for it.
    pub listen: SocketAddr,
    /// Who may call.
    pub auth: AuthConfig,
    /// Whose tokens are good beside keys.
    pub oidc: Option<OidcSettings>,
    /// Where health and metrics alone are answered, if anywhere.
    pub metrics_listen: Option<SocketAddr>,
    /// The folder for everything that is kept.
    pub data: PathBuf,
    /// What the payment provider signs its events with.
    pub stripe_secret: Option<Secret>,
    /// Where jobs are kept.
    pub database: Database,
    /// Where payloads and artifacts are kept.
    pub blobs: String,
    /// What seals their keys.
    pub server_key: ServerKey,
    /// Where running jobs have their folders.
    pub work: PathBuf,
    /// This process's name.
    pub replica: Name,
    /// What this process does.
    pub role: Role,
    /// Whether a submission needs an Idempotency-Key.
    pub require_idempotency_key: bool,
    /// The longest that a call may wait for its job.
    pub sync_wait_max: Duration,
    /// What is logged and how.
    pub log: Log,
    /// How long finished jobs are kept.
    pub retention: Retention,
    /// How long a payload waits for its job to be claimed.
    pub payload_retention: Duration,
    /// How jobs are held and found again.
    pub lease: Lease,
    /// How jobs are run.
    pub worker: Worker,
    /// What one request may take.
    pub limits: Limits,
    /// What one connection may take.
    pub http: Http,
    /// Where webhooks and other URLs of callers may lead.
    pub egress: Policy,
    /// What TLS is spoken with, if it is.
    pub tls: Option<TlsFiles>,
    /// How deliveries to webhooks are made.
    pub webhooks: WebhookSettings,
    /// Where chats go, if anywhere.
    pub chat: Option<ChatConfig>,
    /// What diagrams may cost, if there are any.
    pub render: Option<RenderConfig>,
    /// The declared kinds; `demo` is not among them.
    pub kinds: BTreeMap<Name, Kind>,
    /// The paths that lead to kinds.
    pub proxies: Vec<ProxyRoute>,
    /// The queues that have limits.
    pub queues: BTreeMap<Name, QueueConfig>,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthConfig {
    /// Whether everybody needs a key or a token.
    pub require_keys: bool,
    /// How long a tenant whose payment is due may go on.
    pub past_due_grace: Duration,
    /// Requests a second of each tenant that has no limit of its own.
    pub requests_per_s: Option<u32>,
}

/// Where jobs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A file.
    Sqlite(PathBuf),
    /// Nowhere: gone with the process.
    Memory,
    /// A Postgres database, by its address.
    Postgres(PostgresUrl),
}

/// Where the keys are that seal the keys of payloads and artifacts.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerKey {
    /// In this file, which is made if it is not there.
    File(PathBuf),
    /// Here, one a line.
    Given(String),
}

impl std::fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Given(_) => f.write_str("Given(***)"),
        }
    }
}

/// The address of a Postgres database. It may hold a password, and so shows none of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl PostgresUrl {
    /// Takes an address as it was given.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The address, for whoever connects.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("postgres://***")
    }
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Answers callers and runs jobs.
    All,
    /// Answers callers and runs nothing.
    Api,
    /// Runs jobs and answers nobody.
    Worker,
}

impl Role {
    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }

    /// Whether it takes requests.
    pub fn answers(self) -> bool {
        match self {
            Self::All | Self::Api => true,
            Self::Worker => false,
        }
    }

    /// Whether it runs jobs.
    pub fn runs_jobs(self) -> bool {
        match self {
            Self::All | Self::Worker => true,
            Self::Api => false,
        }
    }
}

impl Database {
    /// Whether several processes may have it open.
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::Memory => false,
            Self::Postgres(_) => true,
        }
    }
}

/// What is logged and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// For people or for machines.
    pub format: LogFormat,
    /// A level, or what `LONGHAUL_LOG` says, which [`crate::logs`] understands.
    pub filter: String,
}

/// For people or for machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty on a terminal, else JSON.
    Auto,
    /// For people.
    Pretty,
    /// One object a line.
    Json,
}

/// How jobs are held and found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// How long a silent worker keeps a job.
    pub duration: Duration,
    /// How often a lease is renewed; less than half of the duration.
    pub renew: Duration,
    /// How often the store is looked through for what is due.
    pub sweep: Duration,
}

/// How jobs are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    /// Jobs at once, per kind that does not say otherwise.
    pub concurrency: u32,
    /// For jobs and answers to finish at the stop.
    pub stop_grace: Duration,
    /// For a cancelled program to end by itself.
    pub cancel_grace: Duration,
}

/// What one request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What a job may take.
    pub job: longhaul::job::Limits,
    /// What each tenant's jobs may do, over all replicas.
    pub tenants: FlowLimit,
    /// Jobs in one batch.
    pub batch_jobs_max: usize,
    /// Bytes of a batch's body.
    pub batch_bytes_max: usize,
    /// Jobs in one page of a list.
    pub list_limit_max: usize,
    /// Bytes of a request's path and query.
    pub uri_bytes_max: usize,
    /// Bytes of a request's head.
    pub header_bytes_max: usize,
    /// Fields in a request's head.
    pub headers_max: usize,
    /// Requests that are being answered at once.
    pub requests_in_flight_max: usize,
}

/// What one connection may take; [`ConnLimits`] says what each means.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the same fields as ConnLimits, ListenerConfig and AppState have")]
pub struct Http {
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub body_bytes_per_s_min: u64,
    pub write_timeout: Duration,
    pub connections_max: usize,
    pub trusted_proxies: TrustedProxies,
    pub cors_origins: Origins,
}

impl Config {
    /// Reads and checks all layers. The second part tells where each value came from.
    pub fn load(sources: &Sources) -> Result<(Self, Vec<Setting>), ConfigErrors> {
        let layers = Layers::of(sources);
        let settings = settings(&layers);
        match check::check(layers, sources) {
            (Some(config), check) if check.errors.is_empty() => Ok((config, settings)),
            (_, mut check) => {
                // In the order in which somebody goes through them.
                check.errors.sort_by(|a, b| a.origin.cmp(&b.origin));
                Err(ConfigErrors(check.errors))
            }
        }
    }

    /// What [`crate::listen::serve`] needs of it.
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

/// One value as it was given, for `longhaul doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Dotted: `lease.duration`.
    pub key: String,
    /// As text, without passwords; of programs only the name, as arguments may be secrets.
    pub value: String,
    /// Where it was given.
    pub origin: Origin,
}

/// The settings that are secrets as a whole.
const SECRETS: [&str; 3] = ["server_key", "billing.stripe_secret", "chat.webhook_secret"];

/// Also what is sent to a kind's target: it may be written down in the file itself.
fn is_secret(key: &str) -> bool {
    SECRETS.contains(&key) || (key.starts_with("kinds.") && key.contains(".http.headers."))
}

fn settings(layers: &Layers) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (key, entry) in &layers.settings {
        let over = layers.log_filter.as_ref().filter(|_| key == "log.level");
        list_settings(key, over.unwrap_or(entry), &mut settings);
    }
    for (name, entry) in &layers.kinds {
        list_settings(&format!("kinds.{name}"), entry, &mut settings);
    }
    for (place, entry) in (1..).zip(&layers.proxies) {
        list_settings(&format!("proxy.{place}"), entry, &mut settings);
    }
    for (name, entry) in &layers.queues {
        list_settings(&format!("queues.{name}"), entry, &mut settings);
    }
    settings
}

fn list_settings(key: &str, entry: &Entry, settings: &mut Vec<Setting>) {
    let value = match &entry.value {
        Value::Table(table) => {
            for (name, inner) in table {
                list_settings(&format!("{key}.{name}"), inner, settings);
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
        Value::Text(text) if is_secret(key) && !text.is_empty() => "***".to_owned(),
        Value::Text(_) | Value::Whole(_) | Value::Switch(_) | Value::Other(_) => {
            entry.value.to_string()
        }
    };
    settings.push(Setting { key: key.to_owned(), value, origin: entry.origin.clone() });
}

#[cfg(test)]
mod tests;
