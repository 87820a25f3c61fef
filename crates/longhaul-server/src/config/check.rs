//! Conversion of the merged layers to a [`Config`], which collects all errors.

use std::path::PathBuf;

use longhaul::job::{Name, Retention};
use longhaul_kinds::chat::CHAT;

use super::error::{ConfigError, Origin};
use super::layers::Layers;
use super::parsers;
use super::schema::{ValueType, one_of, text};
use super::settings::{
    AuthConfig, BillingConfig, ChatSettings, EgressConfig, HttpConfig, LeaseConfig, LimitsConfig,
    LogSettings, OidcConfig, ProcessConfig, RenderConfig, RetentionConfig, TlsConfig,
    WebhookConfig, WorkerConfig,
};
use super::value::{ConfigEntry, Table};
use super::variables::Variables;
use super::{
    Config, Database, LogConfig, Role, ServerKeySource, Sources, chat, kinds, proxy, queues,
};
use crate::auth::OidcSettings;
use crate::listen::TlsFiles;
use crate::secret::Secret;
use crate::webhooks::WebhookSettings;

/// Values of all settings, and the errors found so far. A reader records its error and returns
/// `None`, so that the remaining settings are still checked; with any error, the result is not used.
pub(super) struct Check {
    settings: Table,
    pub(super) errors: Vec<ConfigError>,
}

impl Check {
    /// Records the error of a result.
    pub(super) fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    pub(super) fn error(&mut self, origin: &Origin, message: String) {
        self.errors.push(ConfigError::new(origin, message));
    }

    pub(super) fn setting<T>(&mut self, key: &str, value_type: &ValueType<T>) -> Option<T> {
        let value = value_type.parse(self.settings.get(key)?, key);
        self.take(value)
    }

    /// Returns a value for a check against other values; its own errors are recorded elsewhere.
    fn peek<T>(&self, key: &str, value_type: &ValueType<T>) -> Option<T> {
        value_type.parse(self.settings.get(key)?, key).ok()
    }

    /// Records that a well-formed value contradicts another one.
    fn refuse(&mut self, key: &str, reason: &str) {
        if let Some(error) = self.settings.get(key).map(|entry| entry.refused(key, reason)) {
            self.errors.push(error);
        }
    }
}

pub(super) fn check(layers: Layers, sources: &Sources) -> (Option<Config>, Vec<ConfigError>) {
    let Layers { settings, kinds: tables, queues: queue_tables, proxies, log_filter, errors } =
        layers;
    let mut check = Check { settings, errors };
    let c = &mut check;
    // Every section is read before the first `?`, so that all errors are found.
    let process = ProcessConfig::read(c);
    let (auth, oidc, billing) = (AuthConfig::read(c), OidcConfig::read(c), BillingConfig::read(c));
    let (log, webhooks) = (log(c, log_filter.as_ref()), WebhookConfig::read(c));
    let (retention, lease) = (RetentionConfig::read(c), LeaseConfig::read(c));
    let (worker, limits) = (WorkerConfig::read(c), LimitsConfig::read(c));
    let (http, egress) = (HttpConfig::read(c), EgressConfig::read(c));
    let (tls, render) = (TlsConfig::read(c), RenderConfig::read(c));
    let replica = replica_name(c, &sources.replica);
    let role = c.peek("role", &one_of(parsers::ROLES));
    check_listen(c, auth.as_ref().is_none_or(|auth| auth.require_keys));
    check_role(c, role);
    check_audience(c);
    if lease.as_ref().is_some_and(|lease| lease.renew * 2 >= lease.duration) {
        let reason =
            "it must be less than half of lease.duration, or one lost renewal costs the job";
        c.refuse("lease.renew", reason);
    }
    let (oidc, tls) = (oidc.and_then(issuer), tls.and_then(|tls| tls_files(c, tls)));
    let render = render.filter(RenderConfig::is_available);

    // A process that runs no jobs does not need the secrets of kinds.
    let variables = Variables::of(&sources.env, role.is_none_or(Role::runs_jobs));
    let chat = ChatSettings::read(c).and_then(|chat| chat::chat(c, &chat, &variables));
    let mut built_in = vec![kinds::DEMO];
    built_in.extend(chat.as_ref().map(|_| CHAT));
    built_in.extend(render.as_ref().map(|_| kinds::RENDER));
    let concurrency = worker.as_ref().map_or(1, |worker| worker.concurrency);
    let kinds = kinds::kinds(c, &tables, &built_in, concurrency, &variables);
    let proxies = proxy::proxies(c, &proxies, &tables, &kinds);
    let queues = queues::queues(c, &queue_tables);
    let config = || {
        let (process, retention, webhooks) = (process?, retention?, webhooks?);
        let data = PathBuf::from(&process.data);
        let path = |path: &str, default| match path {
            "" => data.join(default),
            path => path.into(),
        };
        Some(Config {
            listen: process.listen,
            metrics_listen: process.metrics_listen,
            blobs: match (process.blobs, &process.database) {
                (blobs, _) if !blobs.is_empty() => blobs,
                (_, Some(Database::Memory)) => "memory:".to_owned(),
                (_, _) => format!("file:{}", data.join("blobs").display()),
            },
            server_key: match Secret::new(&process.server_key) {
                Some(keys) => ServerKeySource::Inline(keys),
                None => ServerKeySource::File(path(&process.server_key_file, "server.key")),
            },
            work: path(&process.work, "work"),
            database: process
                .database
                .unwrap_or_else(|| Database::Sqlite(data.join("longhaul.db"))),
            wait_for_database: process.wait_for_database,
            replica: replica?,
            role: process.role,
            require_idempotency_key: process.require_idempotency_key,
            sync_wait_max: process.sync_wait_max,
            auth: auth?,
            oidc,
            stripe_secret: Secret::new(&billing?.stripe_secret),
            log: log?,
            retention: Retention { completed: retention.completed, failed: retention.failed },
            payload_retention: retention.payload,
            lease: lease?,
            worker: worker?,
            limits: limits?,
            http: http?,
            egress: egress?.allow,
            tls,
            webhooks: WebhookSettings {
                first_retry: webhooks.first_retry,
                timeout: webhooks.timeout,
                concurrency: webhooks.concurrency,
            },
            chat,
            render,
            kinds,
            proxies,
            queues,
            data,
        })
    };
    (config(), check.errors)
}

fn check_listen(check: &mut Check, requires_keys: bool) {
    let listen = check.peek("listen", &parsers::address());
    if !requires_keys && listen.is_some_and(|listen| !listen.ip().to_canonical().is_loopback()) {
        let reason = "any client that reaches this address could run jobs without authentication; set \
                      auth.require_keys = true, or listen on 127.0.0.1 or [::1]";
        check.refuse("listen", reason);
    }
}

fn check_role(check: &mut Check, role: Option<Role>) {
    let database = check.peek("database", &parsers::database());
    let is_shared = |database: Option<Database>| database.is_some_and(|it| it.is_shared());
    if role.is_some_and(|role| role != Role::All) && database.is_some_and(|it| !is_shared(it)) {
        let reason = "SQLite and memory belong to one process, which has to do everything; separate \
                      roles need a database that replicas can share: postgres://…";
        check.refuse("role", reason);
    }
}

fn check_audience(check: &mut Check) {
    let issuer = check.peek("oidc.issuer", &parsers::issuer()).flatten();
    if issuer.is_some() && check.peek("oidc.audience", &text()).is_some_and(|it| it.is_empty()) {
        let reason = "without it, a token that the issuer made for any other service would be valid \
                      here; set it to the name of this service at the issuer";
        check.refuse("oidc.audience", reason);
    }
}

fn replica_name(check: &mut Check, default: &str) -> Option<Name> {
    let name = check.peek("replica", &text())?;
    let name = if name.is_empty() { default } else { &name };
    Name::new(name).map_err(|error| check.refuse("replica", &error.to_string())).ok()
}

fn issuer(oidc: OidcConfig) -> Option<OidcSettings> {
    Some(OidcSettings {
        issuer: oidc.issuer?,
        audience: oidc.audience,
        tenant_claim: oidc.tenant_claim,
        scope_claim: oidc.scope_claim,
        scope_prefix: oidc.scope_prefix,
        jwks_url: oidc.jwks_url,
        lifetime_max: oidc.lifetime_max,
    })
}

fn tls_files(check: &mut Check, TlsConfig { cert, key }: TlsConfig) -> Option<TlsFiles> {
    match (cert.is_empty(), key.is_empty()) {
        (true, true) => {}
        (false, false) => return Some(TlsFiles { cert: cert.into(), key: key.into() }),
        (false, true) => check.refuse("tls.cert", "it needs `tls.key`, the file with its key"),
        (true, false) => {
            check.refuse("tls.key", "it needs `tls.cert`, the file with its certificate");
        }
    }
    None
}

fn log(check: &mut Check, filter: Option<&ConfigEntry>) -> Option<LogConfig> {
    let log = LogSettings::read(check);
    let filter = filter.map(|entry| {
        let filter = entry.text(super::layers::LOG_VARIABLE)?;
        crate::logs::check_filter(filter)
            .map_err(|error| ConfigError::new(&entry.origin, error.to_string()))?;
        Ok(filter.to_owned())
    });
    let filter = filter.map(|filter| check.take(filter));
    let LogSettings { format, level } = log?;
    Some(LogConfig { format, filter: filter.unwrap_or_else(|| Some(level.to_owned()))? })
}
