//! The table of settings: key, type, default, allowed values and documentation, each once.
//!
//! `config.default.toml` and `docs/configuration.md` are generated from it; a test compares them.

use std::net::SocketAddr;
use std::time::Duration;

use longhaul::job::{Limits as JobLimits, Rate};
use longhaul::store::FlowLimit;

use super::check::Check;
use super::parsers;
use super::schema::{
    Setting, SettingsSection, ValueType, count, limit_up_to, one_of, optional, rate, settings,
    size, span, switch, text, unparsed,
};
use super::value::ConfigEntry;
use super::{Database, LogFormat, Role};
use crate::api::{HostNames, Origins};
use crate::listen::TrustedProxies;
use longhaul_net::egress::Policy;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY: Duration = Duration::from_hours(24);
/// Shortest timeout.
pub(super) const MOMENT: Duration = Duration::from_millis(1);
/// Largest number of concurrent jobs that a cluster-wide limit accepts.
pub(super) const RUNNING_MAX: u32 = 1_000_000;

settings! {
    /// Settings without a section.
    "" => pub(super) ProcessConfig {
        /// Address and port of the API and the dashboard. Port 0 picks a free port. Only loopback
        /// addresses are allowed unless auth.require_keys is true, because any client that reaches a
        /// server without authentication can run jobs on it.
        listen: SocketAddr = "127.0.0.1:8080", parsers::address();
        /// Separate address for /metrics, /livez and /readyz only, always without TLS: for workers,
        /// which serve no API, or for networks that must not reach the API. "" disables it. Any
        /// address is allowed.
        metrics_listen: Option<SocketAddr> = "", parsers::optional_address();
        /// Directory for all persistent data. Created if missing. Relative to the working directory.
        data: String = "./longhaul-data", parsers::not_empty("a path");
        /// Database for jobs, tenants and API keys: "" is the SQLite file longhaul.db in the data
        /// directory, "sqlite:PATH" another SQLite file, "postgres://USER:PASSWORD@HOST/DATABASE" a
        /// Postgres database that several replicas can share, "memory" loses everything on exit.
        /// The password is never printed.
        database: Option<Database> = "", parsers::database();
        /// Time that a start waits for a Postgres server that is down, starting or not reachable. After
        /// it the process exits. Errors that do not pass, such as a wrong password, end the start at
        /// once. "0s" does not wait.
        wait_for_database: Duration = "60s", span(Duration::ZERO..=DAY);
        /// Storage for payloads and artifacts, each encrypted with its own key: "" is the directory
        /// blobs in the data directory (in memory if database is "memory"), "file:PATH" another
        /// directory, which several replicas may share, or "s3://BUCKET/PREFIX",
        /// "az://CONTAINER/PREFIX", "gs://BUCKET/PREFIX". Options follow a '?': endpoint, region,
        /// allow_http. Credentials come from the environment (AWS_…, AZURE_…, GOOGLE_…).
        blobs: String = "", text();
        /// File with the server keys, one per line, the current key first. They encrypt the keys of
        /// payloads and artifacts. "" is server.key in the data directory, created at the first start.
        /// Replicas that share a database need the same keys. Without this file all payloads and
        /// artifacts are lost; with this file, the database and the blobs, everything that is not yet
        /// deleted can be read. The object _server-keys beside the blobs records which keys are in
        /// use; the server does not start with other keys until that object is deleted.
        server_key_file: String = "", text();
        /// The server keys themselves instead of a file, preferably set through the environment
        /// variable LONGHAUL_SERVER_KEY. Never printed.
        server_key: String = "", text().secret();
        /// Directory for the working directories of running jobs, on this machine. "" is the
        /// directory work in the data directory. It holds payloads in plain text while their jobs
        /// run, so tmpfs or an encrypted disk is a good choice.
        work: String = "", text();
        /// Name of this process in leases, logs and `longhaul replicas`. It must be unique among the
        /// replicas that share a database; the server does not start under the name of a live
        /// replica. 1 to 64 letters, digits, '.', '_' or '-'. "" is a random name.
        replica: String = "", text();
        /// Part of the work that this process does: "all" serves HTTP and runs jobs, "api" only
        /// serves HTTP, "worker" only runs jobs and does not listen. "api" and "worker" need a
        /// database that replicas can share: postgres://
        role: Role = "all", one_of(parsers::ROLES);
        /// true: submissions without an Idempotency-Key are rejected with 400.
        require_idempotency_key: bool = false, switch();
        /// Longest time that a request can wait for its job. Caps ?wait, `Prefer: wait` and
        /// ?mode=sync.
        sync_wait_max: Duration = "60s", span(Duration::ZERO..=DAY);
    }

    /// Authentication.
    "auth." => pub AuthConfig {
        /// true: every request needs an API key, or a token from the issuer in [oidc]. The first
        /// start on an empty database then creates one admin key and prints it once; `longhaul keys
        /// create` creates more. Key digests depend on the server keys (see server_key_file), so
        /// losing those means creating new API keys.
        require_keys: bool = false, switch();
        /// Time that a tenant with an overdue payment keeps full access. After it, or when the
        /// tenant is suspended: 402.
        past_due_grace: Duration = "0s", span(Duration::ZERO..=DAY * 366);
        /// Requests with an invalid key or token that a client address may send per minute, also in a
        /// burst; an IPv6 address counts as its /64 network. Above it they get 429 instead of 401.
        /// Requests with a valid credential are not affected. Counted by each replica. 0 is no limit.
        failures_per_minute: Option<u32> = 20, limit_up_to(1_000_000);
    }

    /// Tokens of an OpenID Connect issuer.
    "oidc." => pub(super) OidcConfig {
        /// OpenID Connect issuer whose signed JWTs are accepted beside API keys, exactly as in their
        /// "iss" claim, for example "https://login.example.com/". "" disables tokens. http:// is
        /// allowed on this machine only. Tokens need a signature by RS256, RS384, RS512, PS256,
        /// ES256, ES384 or EdDSA, and the claims "exp" and "sub".
        issuer: Option<String> = "", parsers::issuer();
        /// Name of this service at the issuer; tokens need it in "aud". Required if issuer is set.
        audience: String = "", text();
        /// Claim that names the tenant. The tenant must exist. Otherwise: 403.
        tenant_claim: String = "tenant", parsers::not_empty("the name of a claim");
        /// Claim that lists the scopes: words separated by spaces, or a list of strings.
        scope_claim: String = "scope", parsers::not_empty("the name of a claim");
        /// Prefix of Longhaul's scopes in tokens: "longhaul:submit", "longhaul:read",
        /// "longhaul:work", "longhaul:admin". "longhaul:admin" grants access to all tenants.
        scope_prefix: String = "longhaul:", text();
        /// URL of the issuer's public keys. "" discovers it through the issuer's
        /// /.well-known/openid-configuration.
        jwks_url: Option<String> = "", parsers::optional_url();
        /// Longest time that a token is accepted after it was issued (its claim "iat", otherwise
        /// "nbf"), whatever its "exp". Tokens cannot be revoked, so this limits the use of a stolen one.
        /// A token with neither claim must expire within this time.
        lifetime_max: Duration = "24h", span(Duration::from_mins(1)..=DAY * 366);
    }

    /// Payment provider.
    "billing." => pub(super) BillingConfig {
        /// Signing secret ("whsec_…") of a Stripe webhook that sends customer.subscription.* events
        /// to /v1/billing/stripe. They set the subscription of the tenant whose billingId is the
        /// event's customer. "" accepts no events. Preferably set through the environment variable
        /// LONGHAUL_BILLING_STRIPE_SECRET. Never printed.
        stripe_secret: String = "", text().secret();
    }

    /// Logs, which go to stderr.
    "log." => pub(super) LogSettings {
        /// "pretty" for people, "json" for one object per line, "auto" for pretty on a terminal and
        /// json elsewhere. Logs go to stderr.
        format: LogFormat = "auto", one_of(parsers::LOG_FORMATS);
        /// Least severe level to log. The environment variable LONGHAUL_LOG overrides it, also per
        /// module: "info,longhaul_server::listen=debug".
        level: &'static str = "info", one_of(parsers::LEVELS);
    }

    /// Webhook deliveries.
    "webhooks." => pub(super) WebhookConfig {
        /// Delay before the second attempt of a delivery. Later delays grow so that ten attempts
        /// take about three days; after the last one the delivery is a dead letter, which can be
        /// resent.
        first_retry: Duration = "5s", span(MOMENT..=Duration::from_hours(1));
        /// Timeout of one attempt.
        timeout: Duration = "15s", span(MOMENT..=Duration::from_mins(5));
        /// Concurrent deliveries from this process, beside the jobs that it runs. At most 8 of them
        /// go to one endpoint, so that a hundred endpoints that hang leave capacity for the others.
        concurrency: usize = 1024, count(1..=10_000);
    }

    /// Time for which finished jobs and waiting payloads are kept.
    "retention." => pub(super) RetentionConfig {
        /// Time to keep a completed job with its input, steps and result. "0s" deletes it at once.
        completed: Duration = "24h", span(Duration::ZERO..=JobLimits::default().retention_max);
        /// Time to keep a failed or cancelled job.
        failed: Duration = "7d", span(Duration::ZERO..=JobLimits::default().retention_max);
        /// Longest time that a payload waits for its job to be claimed. After it the job fails and
        /// the payload is deleted.
        payload: Duration = "1h", span(MOMENT..=DAY * 7);
    }

    /// Leases on running jobs.
    "lease." => pub LeaseConfig {
        /// Lease duration: after a worker has been silent for this long, another one runs its jobs.
        /// It bounds both the delay after a crash and the longest pause that a worker survives
        /// without losing its jobs.
        duration: Duration = "15s", span(Duration::from_millis(10)..=DAY);
        /// Interval between lease renewals. Less than half of the duration, so that one lost renewal
        /// does not cost the job.
        renew: Duration = "5s", span(Duration::from_millis(10)..=DAY);
        /// Interval between searches for expired leases, due retries and expired jobs.
        sweep: Duration = "2s", span(Duration::from_millis(10)..=DAY);
    }

    /// Job execution.
    "worker." => pub WorkerConfig {
        /// Concurrent jobs for each kind without a concurrency of its own.
        concurrency: u32 = 4, count(1..=10_000);
        /// Time after SIGTERM for running jobs and open responses to finish. Remaining jobs go back
        /// to the queue and continue on another replica or after the next start.
        stop_grace: Duration = "20s", span(Duration::ZERO..=DAY);
        /// Time between SIGTERM and SIGKILL for the program of a cancelled job.
        cancel_grace: Duration = "5s", span(Duration::ZERO..=DAY);
    }

    /// Limits for jobs, tenants and requests.
    "limits." => pub LimitsConfig {
        /// Size of a job's input. Above it: 413.
        input_bytes_max: usize = "1MiB", size(1..=64 * MIB);
        /// Size of a payload (above it: 413) and of one artifact (above it: the job fails).
        payload_bytes_max: u64 = "500MiB", size(1..=1 << 40);
        /// Total size of one tenant's stored payloads and artifacts. Above it: 429.
        payload_bytes_per_tenant_max: u64 = "100GiB", size(1..=1 << 60);
        /// Size of a job's result. Above it: the job fails.
        result_bytes_max: usize = "16MiB", size(1..=64 * MIB);
        /// Size of one step's output. Above it: the job fails.
        step_bytes_max: usize = "16MiB", size(1..=64 * MIB);
        /// Pending jobs of one tenant. Above it: 429. Exact with one process; replicas that share a
        /// database count their own submissions at once and each other's every few seconds, so set
        /// it well above the number of submissions per second.
        pending_per_tenant_max: u64 = 1000000, count(1..=1_000_000_000);
        /// Concurrent jobs of one tenant, over all replicas. Further jobs stay pending, and other
        /// tenants' jobs are not affected. 0 is no limit. Use the same value on all replicas.
        running_per_tenant_max: Option<u32> = 0, limit_up_to(RUNNING_MAX);
        /// Rate at which one tenant's jobs may start, over all replicas, such as "100/1m"; the
        /// number is also the largest burst. "" is no limit.
        rate_per_tenant: Option<Rate> = "", optional(rate());
        /// Requests per second of one tenant, on each replica; the number is also the largest
        /// burst. Above it: 429. A tenant or an API key can have its own limit. 0 is no limit.
        requests_per_s_per_tenant: Option<u32> = 0, limit_up_to(1_000_000);
        /// Jobs in one batch submission. Above it: 422.
        batch_jobs_max: usize = 1000, count(1..=10_000);
        /// Size of the body of a batch submission. Above it: 413.
        batch_bytes_max: usize = "32MiB", size(1..=1024 * MIB);
        /// Jobs in one page of a list. A larger ?limit is rejected with 422.
        list_limit_max: usize = 1000, count(1..=10_000);
        /// Size of a request's path and query. Above it: 414.
        uri_bytes_max: usize = "8KiB", size(256..=65_534);
        /// Size of a request's head. Above it: 431.
        header_bytes_max: usize = "32KiB", size(8 * KIB..=MIB);
        /// Header fields of a request. Above it: 431.
        headers_max: usize = 100, count(1..=10_000);
        /// Concurrent requests, not counting those that wait for a job, a body or an event. Above
        /// it: 503 `overloaded`, for submissions already at 80 %. Health and metrics are always
        /// served.
        requests_in_flight_max: usize = 2048, count(10..=1_000_000);
    }

    /// HTTP connections.
    "http." => pub HttpConfig {
        /// Time for a connection to send the head of its next request, counted from the start of
        /// the connection or the end of the last response. Closes slow and idle connections.
        header_timeout: Duration = "10s", span(MOMENT..=DAY);
        /// Time that the server waits for a request's body. Above it: 408.
        body_timeout: Duration = "30s", span(MOMENT..=DAY);
        /// Slowest accepted upload per second: this many received bytes extend body_timeout by one
        /// second, so that large uploads may take long and slow ones may not.
        body_bytes_per_s_min: u64 = "16KiB", size(1..=1024 * MIB);
        /// Time for which a peer may read nothing of its response before the connection is closed.
        write_timeout: Duration = "30s", span(MOMENT..=DAY);
        /// Open connections. Above it: 503, and the connection is closed.
        connections_max: usize = 16384, count(1..=1_000_000);
        /// Networks or addresses of trusted reverse proxies, such as ["10.0.0.0/8"]. The client
        /// address that the last of them reports in `X-Forwarded-For` or `Forwarded` is used for
        /// limits and logs; these headers are ignored from other peers. A trusted proxy must set
        /// `X-Forwarded-For`, or set `Forwarded` and remove the other. Separated by commas in the
        /// environment.
        trusted_proxies: TrustedProxies = [], parsers::networks().map(TrustedProxies::new);
        /// Origins whose pages may call the API from a browser, such as ["https://app.example"], or
        /// ["*"] for all. Separated by commas in the environment.
        cors_origins: Origins = [], parsers::origins();
        /// Host names under which a server without auth.require_keys is reached, such as
        /// ["jobs.internal"], besides localhost and loopback addresses: for a reverse proxy on this
        /// machine. Requests for other names are rejected with 421, so that a web page cannot reach
        /// the server by DNS rebinding. Browsers do not report which page sends a request to such a
        /// name over plain HTTP, so serve it over HTTPS. Separated by commas in the environment.
        hosts: HostNames = [], parsers::hosts();
    }

    /// Outgoing requests to URLs that clients provide.
    "egress." => pub(super) EgressConfig {
        /// Networks or addresses that webhooks and other client-provided URLs may reach beside
        /// public addresses, such as ["127.0.0.1/32"] for endpoints on this machine. All other
        /// private, loopback, link-local, shared, metadata and special addresses are rejected: with
        /// 422 when the URL is submitted, and again when it is connected to. A host name is allowed
        /// only if all of its addresses are. Public hosts are reached on ports 80, 443 and 1024 or
        /// higher, hosts in these networks on any port. Separated by commas in the environment.
        allow: Policy = [], parsers::networks().map(Policy::new);
    }

    /// HTTPS.
    "tls." => pub(super) TlsConfig {
        /// PEM file with the server's certificate followed by its intermediate certificates. With
        /// it, the API is served over HTTPS only; metrics_listen stays plain HTTP. "" is HTTP. A
        /// replaced certificate is used for new connections within seconds, without a restart.
        cert: String = "", text();
        /// PEM file with the certificate's unencrypted private key.
        key: String = "", text();
    }

    /// Gateway to language models.
    "chat." => pub(super) ChatSettings {
        /// Servers with language models. With at least one there are the kind `chat`, `POST /jobs`
        /// and the routes of Ollama and OpenAI. Each is a table:
        ///   { name = "laptop", url = "http://127.0.0.1:11434", api = "ollama" }
        /// api: "ollama" or "openai". models: such as ["llama3.2"]; requested from the server if
        /// omitted. concurrency: concurrent calls from each replica; defaults to 1. api_key: sent as
        /// a bearer token; "${NAME}" is read from the environment at the start.
        targets: ConfigEntry = [], unparsed("a list of tables");
        /// Secret for the signature (X-Foreman-Signature) of requests to `state_webhook_url`. "" is
        /// no signature. Never printed.
        webhook_secret: ConfigEntry = "", unparsed("a text in quotes").secret();
        /// Retries for a server that fails: delays double from first to max, each shortened by up to a
        /// half at random; attempts is the total number of attempts. Waiting for a server that cannot be
        /// reached is not an attempt.
        retry: ConfigEntry = { first = "1s", max = "60s", attempts = 10 }, unparsed("a table");
        /// Request body of a call, which may contain images. A tenant's own inputBytesMax also applies
        /// to it.
        body_bytes_max: usize = "32MiB", size(KIB..=64 * MIB);
        /// Time for which a call of Ollama's and OpenAI's routes waits for a server that cannot be
        /// reached, before its client gets an error. Calls that continue when their client disconnects,
        /// and `POST /jobs`, wait as long as it takes.
        unreachable_wait: Duration = "2m", span(MOMENT..=Duration::from_hours(24));
        /// Effect on a call of Ollama's and OpenAI's routes when its client disconnects: "cancel"
        /// cancels the job and closes the connection to the server, "finish" lets it continue. Calls
        /// with an Idempotency-Key and `POST /jobs` always continue.
        on_disconnect: bool = "cancel", one_of(&[("cancel", true), ("finish", false)]);
    }

    /// Diagram rendering.
    "render." => pub RenderConfig {
        /// Diagrams: the kind `render`, `POST /render` and `GET /d/…`. false disables all of them
        /// and frees the name of the kind.
        enabled: bool = true, switch();
        /// Concurrent diagrams, each rendered in its own reusable process. 0 is the number of
        /// processors. At most 1000 diagrams of one tenant are pending; pending_max in
        /// [queues.render] changes that.
        workers: usize = 0, count(0..=1_000).map(parsers::or_processors);
        /// Time to render one diagram. Above it, and above each of the following limits, the job
        /// fails with the reason.
        timeout: Duration = "10s", span(MOMENT..=Duration::from_mins(10));
        /// Memory of a rendering process, including its program and everything it reserves.
        memory_max: u64 = "2GiB", size(512 * MIB..=64 * GIB);
        /// Size of a source. Above it: 413 from `POST /render`.
        source_bytes_max: usize = "256KiB", size(1..=16 * MIB);
        /// Size of an image.
        output_bytes_max: usize = "16MiB", size(KIB..=256 * MIB);
        /// Pixels of a PNG.
        pixels_max: u64 = 40000000, count(1..=400_000_000);
        /// Time to keep an image from `POST /render` and its short link. Requesting it again does
        /// not extend the time.
        retention: Duration = "30d", span(MOMENT..=JobLimits::default().retention_max);
        /// true: a short link shows its image without an API key. false: only to its tenant.
        public_links: bool = false, switch();
        /// Prefix of the links in responses of `POST /render` and `GET /jobs/ID`, such as
        /// "https://diagrams.example". "" is links without a host.
        base_url: String = "", parsers::base_url();
    }
}

impl LimitsConfig {
    pub(crate) fn job(&self) -> JobLimits {
        JobLimits {
            input_bytes_max: self.input_bytes_max,
            result_bytes_max: self.result_bytes_max,
            step_bytes_max: self.step_bytes_max,
            payload_bytes_max: self.payload_bytes_max,
            payload_bytes_per_tenant_max: self.payload_bytes_per_tenant_max,
            pending_per_tenant_max: self.pending_per_tenant_max,
            ..JobLimits::default()
        }
    }

    /// Limits on the running jobs of each tenant, over all replicas.
    pub(crate) fn tenant_flow(&self) -> FlowLimit {
        FlowLimit { running_max: self.running_per_tenant_max, rate: self.rate_per_tenant }
    }
}

impl RenderConfig {
    /// Returns whether diagrams are enabled and compiled in.
    pub(super) fn is_available(&self) -> bool {
        self.enabled && cfg!(feature = "render")
    }
}
