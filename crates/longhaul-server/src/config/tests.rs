use std::collections::BTreeSet;
use std::path::Path;

use longhaul::job::{Limits as JobLimits, Rate, Retry};
use longhaul::store::FlowLimit;

use super::*;

mod chat;
mod document;
mod http;

const SECOND: Duration = Duration::from_secs(1);

/// A directory for `longhaul.toml`, and the other inputs of a configuration.
struct ConfigInput {
    folder: tempfile::TempDir,
    sources: Sources,
}

impl ConfigInput {
    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources {
            folder: folder.path().into(),
            replica: "host-1".into(),
            ..Sources::default()
        };
        Self { folder, sources }
    }

    fn file(text: &str) -> Self {
        let input = Self::empty();
        std::fs::write(input.folder.path().join("longhaul.toml"), text).unwrap();
        input
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.sources.env.push((name.into(), value.into()));
        self
    }

    fn flags(mut self, flags: Flags) -> Self {
        self.sources.flags = flags;
        self
    }

    fn config(&self) -> Config {
        Config::load(&self.sources).unwrap().0
    }

    /// Returns the errors without the random name of the directory.
    fn errors(&self) -> String {
        let text = Config::load(&self.sources).unwrap_err().to_string();
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

#[test]
fn empty_configuration_gives_the_documented_defaults() {
    let job = JobLimits::default();
    let expected = Config {
        listen: "127.0.0.1:8080".parse().unwrap(),
        stripe_secret: None,
        auth: AuthConfig {
            require_keys: false,
            past_due_grace: Duration::ZERO,
            failures_per_minute: Some(20),
        },
        oidc: None,
        metrics_listen: None,
        data: "./longhaul-data".into(),
        database: Database::Sqlite("./longhaul-data/longhaul.db".into()),
        wait_for_database: 60 * SECOND,
        blobs: "file:./longhaul-data/blobs".to_owned(),
        server_key: ServerKeySource::File("./longhaul-data/server.key".into()),
        work: "./longhaul-data/work".into(),
        replica: Name::new("host-1").unwrap(),
        role: Role::All,
        require_idempotency_key: false,
        sync_wait_max: 60 * SECOND,
        log: LogConfig { format: LogFormat::Auto, filter: "info".into() },
        retention: Retention::default(),
        payload_retention: 3600 * SECOND,
        lease: LeaseConfig { duration: 15 * SECOND, renew: 5 * SECOND, sweep: 2 * SECOND },
        worker: WorkerConfig { concurrency: 4, stop_grace: 20 * SECOND, cancel_grace: 5 * SECOND },
        limits: LimitsConfig {
            input_bytes_max: job.input_bytes_max,
            payload_bytes_max: job.payload_bytes_max,
            payload_bytes_per_tenant_max: job.payload_bytes_per_tenant_max,
            result_bytes_max: job.result_bytes_max,
            step_bytes_max: job.step_bytes_max,
            pending_per_tenant_max: job.pending_per_tenant_max,
            running_per_tenant_max: None,
            rate_per_tenant: None,
            requests_per_s_per_tenant: None,
            batch_jobs_max: 1000,
            batch_bytes_max: 32 << 20,
            list_limit_max: 1000,
            uri_bytes_max: 8 << 10,
            header_bytes_max: 32 << 10,
            headers_max: 100,
            requests_in_flight_max: 2048,
        },
        http: HttpConfig {
            header_timeout: 10 * SECOND,
            body_timeout: 30 * SECOND,
            body_bytes_per_s_min: 16 << 10,
            write_timeout: 30 * SECOND,
            connections_max: 16_384,
            trusted_proxies: crate::listen::TrustedProxies::default(),
            cors_origins: Vec::new(),
            hosts: Vec::new(),
        },
        egress: longhaul_net::egress::Policy::default(),
        tls: None,
        webhooks: crate::webhooks::WebhookSettings::default(),
        chat: None,
        kinds: BTreeMap::new(),
        proxies: Vec::new(),
        render: Some(RenderConfig {
            enabled: true,
            workers: std::thread::available_parallelism().unwrap().get(),
            timeout: 10 * SECOND,
            memory_max: 2 << 30,
            source_bytes_max: 256 << 10,
            output_bytes_max: 16 << 20,
            pixels_max: 40_000_000,
            retention: 30 * 24 * 3600 * SECOND,
            public_links: false,
            base_url: String::new(),
        }),
        queues: BTreeMap::new(),
    };
    assert_eq!(ConfigInput::empty().config(), expected);
}

#[test]
fn environment_variables_of_keys_are_unique() {
    let keys = Layers::defaults().settings;
    let names: BTreeSet<String> = keys.keys().map(|key| layers::variable(key)).collect();
    assert_eq!(names.len(), keys.len());
    assert!(names.contains("LONGHAUL_LEASE_DURATION") && names.contains("LONGHAUL_LISTEN"));
}

#[test]
fn config_layers_override_in_order_default_file_environment_flag() {
    let port = |input: &ConfigInput| input.config().listen.port();
    let input = ConfigInput::file("listen = '127.0.0.1:1'");
    assert_eq!(port(&input), 1);
    let input = input.env("LONGHAUL_LISTEN", "127.0.0.1:2");
    assert_eq!(port(&input), 2);
    let listen = Some("127.0.0.1:3".into());
    assert_eq!(port(&input.flags(Flags { listen, ..Flags::default() })), 3);
}

#[test]
fn environment_variables_set_every_value_type() {
    let config = ConfigInput::empty()
        .env("LONGHAUL_LEASE_DURATION", "1m")
        .env("LONGHAUL_REQUIRE_IDEMPOTENCY_KEY", "true")
        .env("LONGHAUL_WORKER_CONCURRENCY", "9")
        .env("LONGHAUL_LIMITS_INPUT_BYTES_MAX", "500KiB")
        .config();
    assert_eq!(config.lease.duration, 60 * SECOND);
    assert!(config.require_idempotency_key);
    assert_eq!(config.worker.concurrency, 9);
    assert_eq!(config.limits.job().input_bytes_max, 500 << 10);
}

#[test]
fn environment_variables_of_clients_and_handlers_are_ignored() {
    let input = ConfigInput::empty()
        .env("LONGHAUL_SERVER", "http://x")
        .env("LONGHAUL_API_KEY", "lh_x")
        .env("LONGHAUL_WEBHOOK_SECRET", "whsec_x")
        .env("LONGHAUL_JOB_ID", "x")
        .env("LONGHAUL_LOG", "info,hyper=warn")
        .env("PATH", "/bin");
    assert_eq!(input.config().log.filter, "info,hyper=warn");
}

#[test]
fn config_errors_are_reported_at_once_with_origins() {
    let input = ConfigInput::file(
        "listen = 'localhost'\n\
         require_idempotency_key = 'yes'\n\
         concurrency = 5\n\
         [lease]\n\
         durration = '15s'\n\
         renew = 'soon'\n\
         sweep = 2\n\
         [leese]\n\
         duration = '1s'\n\
         [worker]\n\
         concurrency = 0\n\
         [limits]\n\
         input_bytes_max = '1 MB'\n\
         [webhooks]\n\
         first_retry = '5s'\n",
    )
    .env("LONGHAUL_LEASE_DURATON", "15s")
    .env("LONGHAUL_HTTP_BODY_TIMEOUT", "0s")
    .env("LONGHAUL_LOG", "longhaul=loud")
    .flags(Flags {
        role: Some("api".into()),
        blobs: Some("s3://x".into()),
        ..Flags::default()
    });
    insta::assert_snapshot!(input.errors());
}

#[test]
fn malformed_toml_is_reported_with_its_line() {
    insta::assert_snapshot!(ConfigInput::file("listen = '127.0.0.1:1'\n[lease\nx = ").errors());
}

#[test]
fn config_flag_needs_an_existing_file() {
    let mut input = ConfigInput::empty();
    input.sources.file = Some(input.folder.path().join("other.toml"));
    assert!(input.errors().starts_with("invalid configuration: --config: cannot read other"));
}

#[test]
fn listen_needs_loopback_unless_keys_are_required() {
    for good in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
        ConfigInput::empty().env("LONGHAUL_LISTEN", good).config();
    }
    for bad in ["0.0.0.0:80", "[::]:80", "192.168.1.1:80", "[::ffff:10.0.0.1]:80"] {
        let errors = ConfigInput::empty().env("LONGHAUL_LISTEN", bad).errors();
        assert!(errors.contains("set auth.require_keys = true"), "{errors}");
        let with_keys = ConfigInput::empty().env("LONGHAUL_LISTEN", bad);
        with_keys.env("LONGHAUL_AUTH_REQUIRE_KEYS", "true").config();
    }
}

#[test]
fn database_is_a_sqlite_file_or_memory() {
    let database =
        |text: &str| ConfigInput::empty().env("LONGHAUL_DATABASE", text).config().database;
    assert_eq!(database("memory"), Database::Memory);
    assert_eq!(database("sqlite:/x/y.db"), Database::Sqlite(Path::new("/x/y.db").into()));
}

#[test]
fn api_and_worker_roles_need_a_shared_database() {
    for role in ["api", "worker"] {
        for database in ["", "memory", "sqlite:/x/y.db"] {
            let errors = ConfigInput::empty()
                .env("LONGHAUL_ROLE", role)
                .env("LONGHAUL_DATABASE", database)
                .errors();
            assert!(errors.contains("postgres://"), "{errors}");
        }
    }
    assert_eq!(ConfigInput::empty().env("LONGHAUL_ROLE", "all").config().role, Role::All);
    let errors = ConfigInput::empty().env("LONGHAUL_ROLE", "both").errors();
    assert!(errors.contains("\"all\", \"api\" or \"worker\""), "{errors}");
}

#[test]
fn metrics_listen_accepts_any_address() {
    let config = ConfigInput::empty().env("LONGHAUL_METRICS_LISTEN", "0.0.0.0:9090").config();
    assert_eq!(config.metrics_listen, Some("0.0.0.0:9090".parse().unwrap()));
    let errors = ConfigInput::empty().env("LONGHAUL_METRICS_LISTEN", "9090").errors();
    assert!(errors.contains("\"0.0.0.0:9090\""), "{errors}");
}

#[test]
fn database_password_is_never_printed() {
    let input = ConfigInput::empty().env("LONGHAUL_DATABASE", "postgres://me:p@ss@db/jobs");
    assert!(!format!("{:?}", input.config()).contains("p@ss"));
    let settings = effective_settings(&Layers::of(&input.sources));
    assert!(!format!("{settings:?}").contains("p@ss"));
}

#[test]
fn lease_renewal_must_be_under_half_of_the_duration() {
    let input = ConfigInput::empty().env("LONGHAUL_LEASE_RENEW", "7s500ms");
    assert!(input.errors().contains("less than half of lease.duration"));
    ConfigInput::empty().env("LONGHAUL_LEASE_RENEW", "7s499ms").config();
}

#[test]
fn oidc_issuer_settings_are_read() {
    let input = ConfigInput::file(
        "[oidc]\nissuer = 'https://login.example.com/'\naudience = 'jobs'\ntenant_claim = 'org'\n",
    );
    let expected = OidcSettings {
        issuer: "https://login.example.com/".into(),
        audience: "jobs".into(),
        tenant_claim: "org".into(),
        scope_claim: "scope".into(),
        scope_prefix: "longhaul:".into(),
        jwks_url: None,
        lifetime_max: Duration::from_hours(24),
    };
    assert_eq!(input.config().oidc, Some(expected));
}

#[test]
fn oidc_urls_need_https_or_loopback() {
    let with = |key: &str, url: &str| {
        let input = ConfigInput::empty().env("LONGHAUL_OIDC_AUDIENCE", "jobs");
        let input = input.env("LONGHAUL_OIDC_ISSUER", "https://a.example");
        Config::load(&input.env(key, url).sources).map_err(|errors| errors.to_string())
    };
    for key in ["LONGHAUL_OIDC_ISSUER", "LONGHAUL_OIDC_JWKS_URL"] {
        for good in
            ["https://b.example/x", "http://127.0.0.1:9", "http://[::1]", "http://localhost:1"]
        {
            assert!(with(key, good).is_ok(), "{good}");
        }
        for bad in [
            "http://b.example",
            "http://10.0.0.1",
            "b.example",
            "ftp://x",
            "https://me:pw@b.example",
        ] {
            let error = with(key, bad).unwrap_err();
            assert!(!error.contains("pw"), "{error}");
        }
    }
}

#[test]
fn oidc_issuer_needs_a_url_and_an_audience() {
    let input = ConfigInput::empty().env("LONGHAUL_OIDC_AUDIENCE", "jobs");
    assert!(input.env("LONGHAUL_OIDC_ISSUER", "https://a/?b").errors().contains("without a '?'"));
    let input = ConfigInput::empty().env("LONGHAUL_OIDC_ISSUER", "https://a.example");
    assert!(input.errors().contains("made for any other service"), "{}", input.errors());
    ConfigInput::empty().env("LONGHAUL_OIDC_AUDIENCE", "jobs").config();
}

#[test]
fn request_limit_zero_means_unlimited() {
    let limit = |text: &str| {
        let input = ConfigInput::empty().env("LONGHAUL_LIMITS_REQUESTS_PER_S_PER_TENANT", text);
        input.config().limits.requests_per_s_per_tenant
    };
    assert_eq!((limit("0"), limit("20")), (None, Some(20)));
}

#[test]
fn tls_certificate_and_key_are_set_together() {
    let input = ConfigInput::file("[tls]\ncert = 'a.pem'\nkey = 'b.pem'\n");
    let files = crate::listen::TlsFiles { cert: "a.pem".into(), key: "b.pem".into() };
    assert_eq!(input.config().tls, Some(files));
    for (input, lacking) in [("cert", "tls.key"), ("key", "tls.cert")] {
        let errors = ConfigInput::file(&format!("[tls]\n{input} = 'a.pem'\n")).errors();
        assert!(errors.contains(&format!("it needs `{lacking}`")), "{errors}");
    }
}

#[test]
fn trusted_proxies_are_networks_or_addresses() {
    use crate::listen::TrustedProxies;
    let networks = ["10.0.0.0/8", "::1/128"].map(|text| text.parse().unwrap());
    let input = ConfigInput::file("[http]\ntrusted_proxies = ['10.0.0.0/8', '::1']\n");
    assert_eq!(input.config().http.trusted_proxies, TrustedProxies::new(networks));
    let input = ConfigInput::empty().env("LONGHAUL_HTTP_TRUSTED_PROXIES", "10.0.0.0/8, ::1");
    assert_eq!(input.config().http.trusted_proxies, TrustedProxies::new(networks));
    for bad in ["['proxy']", "['10.0.0.0/33']", "[1]", "7"] {
        let errors = ConfigInput::file(&format!("[http]\ntrusted_proxies = {bad}\n")).errors();
        assert!(errors.contains("longhaul.toml:2: `http.trusted_proxies` is"), "{errors}");
    }
}

#[test]
fn egress_allow_takes_networks_or_addresses() {
    use longhaul_net::egress::Policy;
    let networks = ["127.0.0.1/32", "fd00::/8"].map(|text| text.parse().unwrap());
    let input = ConfigInput::file("[egress]\nallow = ['127.0.0.1', 'fd00::/8']\n");
    assert_eq!(input.config().egress, Policy::new(networks));
    let input = ConfigInput::empty().env("LONGHAUL_EGRESS_ALLOW", "127.0.0.1/32,fd00::/8");
    assert_eq!(input.config().egress, Policy::new(networks));
    for bad in ["['localhost']", "['127.0.0.1:80']", "['127.0.0.1/33']", "true"] {
        let errors = ConfigInput::file(&format!("[egress]\nallow = {bad}\n")).errors();
        assert!(errors.contains("longhaul.toml:2: `egress.allow` is"), "{errors}");
    }
}

#[test]
fn cors_origins_are_written_as_browsers_send_them() {
    let of = |text: &str| ConfigInput::file(&format!("[http]\ncors_origins = ['{text}']\n"));
    for good in ["https://app.example", "http://localhost:3000", "*"] {
        assert_eq!(of(good).config().http.cors_origins, [good]);
    }
    for bad in ["app.example", "https://app.example/", "https://App.example", "https://a/b", ""] {
        assert!(of(bad).errors().contains("`http.cors_origins` is"), "{bad}");
    }
}

#[test]
fn command_and_pipeline_kinds_are_read() {
    let kinds = ConfigInput::file(
        r#"
        [kinds.resize]
        command = ["./resize", "--fast"]
        timeout = "30m"
        concurrency = 2
        max_attempts = 5

        [kinds.pipeline]
        steps = [ { name = "extract", command = ["./extract"] }, { name = "index", command = ["./index"] } ]
        "#,
    )
    .config()
    .kinds;
    let resize = &kinds[&Name::new("resize").unwrap()];
    assert_eq!(resize.runner, KindRunner::Command(vec!["./resize".into(), "--fast".into()]));
    assert_eq!(resize.timeout, Some(1800 * SECOND));
    assert_eq!((resize.concurrency, resize.retry), (2, Retry::times(5)));
    let pipeline = &kinds[&Name::new("pipeline").unwrap()];
    let step = |name: &str| StepCommand {
        name: Name::new(name).unwrap(),
        command: vec![format!("./{name}")],
    };
    assert_eq!(pipeline.runner, KindRunner::Steps(vec![step("extract"), step("index")]));
    assert_eq!((pipeline.concurrency, pipeline.retry), (4, Retry::JOB));
    assert_eq!(pipeline.queue, Name::default_queue());
}

#[test]
fn cluster_wide_limits_are_read() {
    let config = ConfigInput::file(
        "[limits]\nrunning_per_tenant_max = 7\nrate_per_tenant = '5/1s'\n\
         [kinds.resize]\ncommand = ['x']\nrunning_max = 3\n\
         [queues.mail]\nrunning_max = 10\nrate = '100/1m30s'\npending_max = 9\n[queues.free]\n",
    )
    .config();
    let tenants = FlowLimit::running(7).and_rate(Rate::new(5, SECOND));
    assert_eq!(config.limits.tenant_flow(), tenants);
    assert_eq!(config.kinds[&Name::new("resize").unwrap()].running_max, Some(3));
    let mail = FlowLimit::running(10).and_rate(Rate::new(100, 90 * SECOND));
    let mail = QueueConfig { flow: mail, pending_max: Some(9) };
    assert_eq!(config.queues[&Name::new("mail").unwrap()], mail);
    assert_eq!(config.queues[&Name::new("free").unwrap()], QueueConfig::default());
}

#[test]
fn limit_errors_are_reported_at_once() {
    let input = ConfigInput::file(
        "[limits]\nrate_per_tenant = '100'\nrunning_per_tenant_max = -1\n\
         [kinds.resize]\ncommand = ['x']\nrunning_max = 0\n\
         [queues.'no name']\nrunning_max = 1\n\
         [queues.mail]\nrunning_max = 'many'\nrate = '0/1m'\n\
         [queues.slip]\nruning_max = 1\nrate = '5/0s'\n\
         [queues]\nflat = 3\n",
    );
    insta::assert_snapshot!(input.errors());
}

#[test]
fn kind_errors_are_reported_at_once() {
    let input = ConfigInput::file(
        "[kinds.'no name']\ncommand = ['x']\n\
         [kinds.demo]\ncommand = ['x']\n\
         [kinds.neither]\ntimeout = '5s'\n\
         [kinds.both]\ncommand = ['x']\nsteps = []\n\
         [kinds.report]\nhttp = { url = 'http://x' }\ncommand = ['x']\n\
         [kinds.remote]\nremote = true\n\
         [kinds.slip]\ncomand = ['x']\ncommand = 'x'\n\
         [kinds.twice]\nsteps = [{ name = 'a', command = ['x'] }, { name = 'a', command = ['x'] }]\n\
         [kinds.half]\nsteps = [{ name = 'a' }]\n\
         [kinds.waits]\ncommand = ['x']\nretry_first = '2m'\nretry_max = '1m'\n",
    );
    insta::assert_snapshot!(input.errors());
}

#[test]
fn effective_settings_carry_their_origins() {
    let input = ConfigInput::file(
        "[lease]\nduration = '20s'\n[kinds.resize]\ncommand = ['./resize', '--token=secret']\n",
    )
    .env("LONGHAUL_WORKER_CONCURRENCY", "9")
    .flags(Flags { replica: Some("a".into()), ..Flags::default() });
    let (_, settings) = Config::load(&input.sources).unwrap();
    let line = |s: &EffectiveSetting| format!("{} = {} ({})\n", s.key, s.value, s.origin);
    let text: String = settings.iter().map(line).collect();
    insta::assert_snapshot!(text.replace(&format!("{}/", input.folder.path().display()), ""));
}
