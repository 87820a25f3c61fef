//! From given values to a [`Config`], collecting everything that is wrong.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::job::{Limits as JobLimits, Name, Retention};
use longhaul::store::FlowLimit;
use longhaul_kinds::chat::CHAT;

use super::error::{ConfigError, Origin};
use super::layers::Layers;
use super::value::{Entry, Table};
use super::variables::Variables;
use super::{
    AuthConfig, Config, Database, Http, Lease, Limits, Log, LogFormat, PostgresUrl, Role,
    ServerKey, Sources, Worker, chat, kinds, network, oidc, proxy, queues, render,
};

use crate::secret::Secret;
use crate::webhooks::WebhookSettings;

/// The least that a timeout may be.
pub(super) const MOMENT: Duration = Duration::from_millis(1);
/// How many jobs at once a limit over all replicas may name.
pub(super) const RUNNING_MAX: RangeInclusive<u32> = 1..=1_000_000;
const DAY: Duration = Duration::from_hours(24);
const MIB: u64 = 1 << 20;

/// The values and the list of what is wrong with them. A reader returns `None` after it has put
/// its error on the list, so that the others still get their turn.
pub(super) struct Check {
    settings: Table,
    pub(super) read: BTreeSet<&'static str>,
    pub(super) errors: Vec<ConfigError>,
}

impl Check {
    pub(super) fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    pub(super) fn error(&mut self, origin: &Origin, message: String) {
        self.errors.push(ConfigError::new(origin, message));
    }

    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Entry, &str) -> Result<T, ConfigError>,
    ) -> Option<T> {
        self.read.insert(key);
        // Always there: a key that the default file lacks is caught by a test.
        let result = read(self.settings.get(key)?, key);
        self.take(result)
    }

    pub(super) fn duration(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        self.read(key, |entry, key| entry.duration(key, range))
    }

    pub(super) fn bytes(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.read(key, |entry, key| entry.bytes(key, range))
    }

    pub(super) fn size(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<usize> {
        self.bytes(key, range).and_then(|bytes| usize::try_from(bytes).ok())
    }

    pub(super) fn count(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<usize> {
        self.read(key, |entry, key| entry.count(key, range)).and_then(|n| usize::try_from(n).ok())
    }
}

/// The whole configuration, or everything that is wrong with it.
pub(super) fn check(layers: Layers, sources: &Sources) -> (Option<Config>, Check) {
    let Layers { settings, kinds: tables, queues: queue_tables, proxies, log_filter, errors } =
        layers;
    let mut check = Check { settings, read: BTreeSet::new(), errors };
    let c = &mut check;
    // Every section gets its turn before the first `?`.
    let (auth, oidc) = (auth(c), oidc::oidc(c));
    let may_be_reached = auth.is_none_or(|auth| auth.require_keys);
    let listen = c.read("listen", |entry, key| listen(entry, key, may_be_reached));
    let data = c.read("data", |entry, key| non_empty(entry, key).map(PathBuf::from));
    let database = c.read("database", database);
    let blobs = c.read("blobs", |entry, key| entry.text(key).map(str::to_owned));
    let work = c.read("work", |entry, key| entry.text(key).map(str::to_owned));
    let key_file = c.read("server_key_file", |entry, key| entry.text(key).map(str::to_owned));
    let server_key = c.read("server_key", |entry, key| entry.text(key).map(str::to_owned));
    let stripe = c.read("billing.stripe_secret", |e, key| e.text(key).map(Secret::new));
    let payload_retention = c.duration("retention.payload", MOMENT..=DAY * 7);
    let replica = c.read("replica", |entry, key| replica_name(entry, key, &sources.replica));
    let metrics_listen = c.read("metrics_listen", metrics_listen);
    let role = c.read("role", role);
    let role = match (&database, role) {
        (Some(database), Some(role)) => {
            let is_shared = database.as_ref().is_some_and(Database::is_shared);
            c.read("role", |entry, key| allowed(entry, key, role, is_shared))
        }
        (None, role) | (_, role @ None) => role,
    };
    let require_idempotency_key = c.read("require_idempotency_key", Entry::switch);
    let sync_wait_max = c.duration("sync_wait_max", Duration::ZERO..=DAY);
    let (log, retention, lease) = (log(c, log_filter.as_ref()), retention(c), lease(c));
    let (worker, limits, http) = (worker(c), limits(c), http(c));
    let egress = c.read("egress.allow", network::egress);
    let (tls, webhooks) = (network::tls(c), webhooks(c));
    // Who only passes jobs on needs nobody's secrets.
    let variables = Variables::of(&sources.env, role.is_none_or(Role::runs_jobs));
    let concurrency = worker.map_or(1, |worker| worker.concurrency);
    let chat = chat::chat(c, &variables);
    let render = render::render(c);
    let mut built_in = vec![kinds::DEMO];
    built_in.extend(matches!(chat, Some(Some(_))).then_some(CHAT));
    built_in.extend(matches!(render, Some(Some(_))).then_some(kinds::RENDER));
    let kinds = kinds::kinds(c, &tables, &built_in, concurrency, &variables);
    let proxies = proxy::proxies(c, &proxies, &tables, &kinds);
    let queues = queues::queues(c, &queue_tables);
    let config = || {
        let data = data?;
        Some(Config {
            listen: listen?,
            auth: auth?,
            oidc: oidc?,
            stripe_secret: stripe?,
            metrics_listen: metrics_listen?,
            blobs: match (blobs?, &database) {
                (given, _) if !given.is_empty() => given,
                (_, Some(Some(Database::Memory))) => "memory:".to_owned(),
                (_, _) => format!("file:{}", data.join("blobs").display()),
            },
            server_key: match (server_key?, key_file?) {
                (given, _) if !given.is_empty() => ServerKey::Given(given),
                (_, file) if !file.is_empty() => ServerKey::File(file.into()),
                (_, _) => ServerKey::File(data.join("server.key")),
            },
            work: match work? {
                given if !given.is_empty() => given.into(),
                _ => data.join("work"),
            },
            database: database?.unwrap_or_else(|| Database::Sqlite(data.join("longhaul.db"))),
            data,
            replica: replica?,
            role: role?,
            require_idempotency_key: require_idempotency_key?,
            sync_wait_max: sync_wait_max?,
            log: log?,
            retention: retention?,
            payload_retention: payload_retention?,
            lease: lease?,
            worker: worker?,
            limits: limits?,
            http: http?,
            egress: egress?,
            tls: tls?,
            webhooks: webhooks?,
            chat: chat?,
            render: render?,
            kinds,
            proxies,
            queues,
        })
    };
    (config(), check)
}

fn non_empty<'a>(entry: &'a Entry, key: &str) -> Result<&'a str, ConfigError> {
    let text = entry.text(key)?;
    if text.is_empty() { Err(entry.wrong(key, "a path")) } else { Ok(text) }
}

fn listen(entry: &Entry, key: &str, may_be_reached: bool) -> Result<SocketAddr, ConfigError> {
    let address = entry.text(key)?.parse::<SocketAddr>();
    let address = address
        .map_err(|_| entry.wrong(key, "an IP address and a port, such as \"127.0.0.1:8080\""))?;
    if may_be_reached || address.ip().to_canonical().is_loopback() {
        return Ok(address);
    }
    let why = "others could reach this address and run jobs without a key; set auth.require_keys = \
               true, or listen on 127.0.0.1 or [::1]";
    Err(entry.refused(key, why))
}

fn auth(check: &mut Check) -> Option<AuthConfig> {
    let require_keys = check.read("auth.require_keys", Entry::switch);
    let past_due_grace = check.duration("auth.past_due_grace", Duration::ZERO..=DAY * 366);
    let per_s = check
        .read("limits.requests_per_s_per_tenant", |entry, key| entry.count(key, 0..=1_000_000));
    Some(AuthConfig {
        require_keys: require_keys?,
        past_due_grace: past_due_grace?,
        requests_per_s: Some(per_s?).filter(|per_s| *per_s > 0),
    })
}

/// `None` is the file in the data folder.
fn database(entry: &Entry, key: &str) -> Result<Option<Database>, ConfigError> {
    const EXPECTED: &str =
        "\"\" (a file in the data folder), \"sqlite:PATH\", \"postgres://…\" or \"memory\"";
    match entry.text(key)? {
        "" => Ok(None),
        "memory" => Ok(Some(Database::Memory)),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(Some(Database::Postgres(PostgresUrl::new(url))))
        }
        text => match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(Some(Database::Sqlite(path.into()))),
            Some(_) | None => Err(entry.wrong(key, EXPECTED)),
        },
    }
}

fn replica_name(entry: &Entry, key: &str, fallback: &str) -> Result<Name, ConfigError> {
    let text = match entry.text(key)? {
        "" => fallback,
        given => given,
    };
    Name::new(text).map_err(|error| entry.refused(key, error))
}

/// Any address: it shows no job and takes none.
fn metrics_listen(entry: &Entry, key: &str) -> Result<Option<SocketAddr>, ConfigError> {
    const EXPECTED: &str = "\"\" (nowhere) or an IP address and a port, such as \"0.0.0.0:9090\"";
    match entry.text(key)? {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| entry.wrong(key, EXPECTED)),
    }
}

fn role(entry: &Entry, key: &str) -> Result<Role, ConfigError> {
    match entry.text(key)? {
        "all" => Ok(Role::All),
        "api" => Ok(Role::Api),
        "worker" => Ok(Role::Worker),
        _ => Err(entry.wrong(key, "\"all\", \"api\" or \"worker\"")),
    }
}

/// A process that does only half of the work needs another one, and a store to share with it.
fn allowed(entry: &Entry, key: &str, role: Role, is_shared: bool) -> Result<Role, ConfigError> {
    match role {
        Role::Api | Role::Worker if !is_shared => {
            let why = "SQLite and memory belong to one process, which has to do everything; split \
                       roles need a database that several share: postgres://…";
            Err(entry.refused(key, why))
        }
        Role::All | Role::Api | Role::Worker => Ok(role),
    }
}

fn log(check: &mut Check, filter: Option<&Entry>) -> Option<Log> {
    let format = check.read("log.format", |entry, key| match entry.text(key)? {
        "auto" => Ok(LogFormat::Auto),
        "pretty" => Ok(LogFormat::Pretty),
        "json" => Ok(LogFormat::Json),
        _ => Err(entry.wrong(key, "\"auto\", \"pretty\" or \"json\"")),
    });
    let level = check.read("log.level", |entry, key| match entry.text(key)? {
        level @ ("error" | "warn" | "info" | "debug" | "trace") => Ok(level.to_owned()),
        _ => Err(entry.wrong(key, "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"")),
    });
    let filter = filter.map(|entry| {
        let text = entry.text(super::layers::LOG_VARIABLE)?;
        crate::logs::check_filter(text)
            .map_err(|error| ConfigError::new(&entry.origin, error.to_string()))?;
        Ok(text.to_owned())
    });
    let filter = match filter {
        Some(filter) => check.take(filter),
        None => level,
    };
    Some(Log { format: format?, filter: filter? })
}

fn retention(check: &mut Check) -> Option<Retention> {
    let range = Duration::ZERO..=JobLimits::default().retention_max;
    let completed = check.duration("retention.completed", range.clone());
    let failed = check.duration("retention.failed", range);
    Some(Retention { completed: completed?, failed: failed? })
}

fn lease(check: &mut Check) -> Option<Lease> {
    let range = Duration::from_millis(10)..=DAY;
    let duration = check.duration("lease.duration", range.clone());
    let renew = check.duration("lease.renew", range.clone());
    let sweep = check.duration("lease.sweep", range);
    let lease = Lease { duration: duration?, renew: renew?, sweep: sweep? };
    check.read("lease.renew", |entry, key| {
        let why = "it must be less than half of lease.duration, or one lost renewal costs the job";
        let is_soon = lease.renew * 2 < lease.duration;
        is_soon.then_some(lease).ok_or_else(|| entry.refused(key, why))
    })
}

fn worker(check: &mut Check) -> Option<Worker> {
    let concurrency = check.read("worker.concurrency", |entry, key| entry.count(key, 1..=10_000));
    let stop_grace = check.duration("worker.stop_grace", Duration::ZERO..=DAY);
    let cancel_grace = check.duration("worker.cancel_grace", Duration::ZERO..=DAY);
    Some(Worker { concurrency: concurrency?, stop_grace: stop_grace?, cancel_grace: cancel_grace? })
}

fn webhooks(check: &mut Check) -> Option<WebhookSettings> {
    let first_retry = check.duration("webhooks.first_retry", MOMENT..=Duration::from_hours(1));
    let timeout = check.duration("webhooks.timeout", MOMENT..=Duration::from_mins(5));
    let concurrency = check.count("webhooks.concurrency", 1..=10_000);
    Some(WebhookSettings {
        first_retry: first_retry?,
        timeout: timeout?,
        concurrency: concurrency?,
    })
}

fn limits(check: &mut Check) -> Option<Limits> {
    let input = check.size("limits.input_bytes_max", 1..=64 * MIB);
    let result = check.size("limits.result_bytes_max", 1..=64 * MIB);
    let step = check.size("limits.step_bytes_max", 1..=64 * MIB);
    let payload = check.bytes("limits.payload_bytes_max", 1..=1 << 40);
    let per_tenant = check.bytes("limits.payload_bytes_per_tenant_max", 1..=1 << 60);
    let pending = check
        .read("limits.pending_per_tenant_max", |entry, key| entry.count(key, 1..=1_000_000_000));
    let running = check.read("limits.running_per_tenant_max", |entry, key| {
        entry.count(key, 0..=*RUNNING_MAX.end())
    });
    let rate = check.read("limits.rate_per_tenant", queues::opt_rate);
    let batch_jobs_max = check.count("limits.batch_jobs_max", 1..=10_000);
    let batch_bytes_max = check.size("limits.batch_bytes_max", 1..=1024 * MIB);
    let list_limit_max = check.count("limits.list_limit_max", 1..=10_000);
    // hyper takes no more.
    let uri_bytes_max = check.size("limits.uri_bytes_max", 256..=65_534);
    // hyper cannot do with less than 8 KiB.
    let header_bytes_max = check.size("limits.header_bytes_max", 8 << 10..=MIB);
    let headers_max = check.count("limits.headers_max", 1..=10_000);
    let requests_in_flight_max = check.count("limits.requests_in_flight_max", 10..=1_000_000);
    Some(Limits {
        job: JobLimits {
            input_bytes_max: input?,
            result_bytes_max: result?,
            step_bytes_max: step?,
            payload_bytes_max: payload?,
            payload_bytes_per_tenant_max: per_tenant?,
            pending_per_tenant_max: u64::from(pending?),
            ..JobLimits::default()
        },
        tenants: FlowLimit { running_max: Some(running?).filter(|max| *max > 0), rate: rate? },
        batch_jobs_max: batch_jobs_max?,
        batch_bytes_max: batch_bytes_max?,
        list_limit_max: list_limit_max?,
        uri_bytes_max: uri_bytes_max?,
        header_bytes_max: header_bytes_max?,
        headers_max: headers_max?,
        requests_in_flight_max: requests_in_flight_max?,
    })
}

fn http(check: &mut Check) -> Option<Http> {
    let header_timeout = check.duration("http.header_timeout", MOMENT..=DAY);
    let body_timeout = check.duration("http.body_timeout", MOMENT..=DAY);
    let body_bytes_per_s_min = check.bytes("http.body_bytes_per_s_min", 1..=1024 * MIB);
    let write_timeout = check.duration("http.write_timeout", MOMENT..=DAY);
    let connections_max = check.count("http.connections_max", 1..=1_000_000);
    let trusted_proxies = check.read("http.trusted_proxies", network::proxies);
    let cors_origins = check.read("http.cors_origins", network::origins);
    Some(Http {
        header_timeout: header_timeout?,
        body_timeout: body_timeout?,
        body_bytes_per_s_min: body_bytes_per_s_min?,
        write_timeout: write_timeout?,
        connections_max: connections_max?,
        trusted_proxies: trusted_proxies?,
        cors_origins: cors_origins?,
    })
}
