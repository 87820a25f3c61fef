use std::collections::BTreeSet;
use std::path::Path;

use longhaul::job::{Limits as JobLimits, Rate, Retry};

use super::*;

mod chat;
mod http;

const SECOND: Duration = Duration::from_secs(1);

/// A folder for `longhaul.toml`, and what the process would bring besides.
struct Given {
    folder: tempfile::TempDir,
    sources: Sources,
}

impl Given {
    fn nothing() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources {
            folder: folder.path().into(),
            replica: "host-1".into(),
            ..Sources::default()
        };
        Self { folder, sources }
    }

    fn file(text: &str) -> Self {
        let given = Self::nothing();
        std::fs::write(given.folder.path().join("longhaul.toml"), text).unwrap();
        given
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

    /// The errors, with the folder's random name taken out.
    fn errors(&self) -> String {
        let text = Config::load(&self.sources).unwrap_err().to_string();
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

#[test]
fn without_any_configuration_the_documented_defaults_hold() {
    let expected = Config {
        listen: "127.0.0.1:8080".parse().unwrap(),
        stripe_secret: None,
        auth: AuthConfig {
            require_keys: false,
            past_due_grace: Duration::ZERO,
            requests_per_s: None,
        },
        oidc: None,
        metrics_listen: None,
        data: "./longhaul-data".into(),
        database: Database::Sqlite("./longhaul-data/longhaul.db".into()),
        blobs: "file:./longhaul-data/blobs".to_owned(),
        server_key: ServerKey::File("./longhaul-data/server.key".into()),
        work: "./longhaul-data/work".into(),
        replica: Name::new("host-1").unwrap(),
        role: Role::All,
        require_idempotency_key: false,
        sync_wait_max: 60 * SECOND,
        log: Log { format: LogFormat::Auto, filter: "info".into() },
        retention: Retention::default(),
        payload_retention: 3600 * SECOND,
        lease: Lease { duration: 15 * SECOND, renew: 5 * SECOND, sweep: 2 * SECOND },
        worker: Worker { concurrency: 4, stop_grace: 20 * SECOND, cancel_grace: 5 * SECOND },
        limits: Limits {
            job: JobLimits::default(),
            tenants: FlowLimit::default(),
            batch_jobs_max: 1000,
            batch_bytes_max: 32 << 20,
            list_limit_max: 1000,
            uri_bytes_max: 8 << 10,
            header_bytes_max: 32 << 10,
            headers_max: 100,
            requests_in_flight_max: 2048,
        },
        http: Http {
            header_timeout: 10 * SECOND,
            body_timeout: 30 * SECOND,
            body_bytes_per_s_min: 16 << 10,
            write_timeout: 30 * SECOND,
            connections_max: 16_384,
            trusted_proxies: crate::listen::TrustedProxies::default(),
            cors_origins: Vec::new(),
        },
        egress: longhaul_net::egress::Policy::default(),
        tls: None,
        webhooks: crate::webhooks::WebhookSettings::default(),
        chat: None,
        kinds: BTreeMap::new(),
        proxies: Vec::new(),
        render: Some(RenderConfig {
            workers: std::thread::available_parallelism().unwrap().get(),
            timeout: 10 * SECOND,
            memory_bytes_max: 2 << 30,
            source_bytes_max: 256 << 10,
            output_bytes_max: 16 << 20,
            pixels_max: 40_000_000,
            retention: 30 * 24 * 3600 * SECOND,
            public_links: false,
        }),
        queues: BTreeMap::new(),
    };
    assert_eq!(Given::nothing().config(), expected);
}

#[test]
fn every_documented_key_is_read_and_every_key_read_is_documented() {
    let layers = Layers::defaults();
    let documented: BTreeSet<String> = layers.settings.keys().cloned().collect();
    let (_, check) = check::check(layers, &Sources::default());
    assert_eq!(check.read.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), documented);
}

#[test]
fn every_key_is_documented_by_a_comment() {
    let lines: Vec<&str> = layers::DEFAULT.lines().collect();
    for pair in lines.windows(2) {
        let is_key = pair[1].starts_with(|c: char| c.is_ascii_lowercase());
        assert!(!is_key || pair[0].starts_with('#'), "{} needs a comment", pair[1]);
    }
}

#[test]
fn no_two_keys_share_an_environment_variable() {
    let keys = Layers::defaults().settings;
    let names: BTreeSet<String> = keys.keys().map(|key| layers::variable(key)).collect();
    assert_eq!(names.len(), keys.len());
    assert!(names.contains("LONGHAUL_LEASE_DURATION") && names.contains("LONGHAUL_LISTEN"));
}

#[test]
fn file_overrides_default_environment_overrides_file_flag_overrides_all() {
    let port = |given: &Given| given.config().listen.port();
    let given = Given::file("listen = '127.0.0.1:1'");
    assert_eq!(port(&given), 1);
    let given = given.env("LONGHAUL_LISTEN", "127.0.0.1:2");
    assert_eq!(port(&given), 2);
    let listen = Some("127.0.0.1:3".into());
    assert_eq!(port(&given.flags(Flags { listen, ..Flags::default() })), 3);
}

#[test]
fn environment_sets_every_type() {
    let config = Given::nothing()
        .env("LONGHAUL_LEASE_DURATION", "1m")
        .env("LONGHAUL_REQUIRE_IDEMPOTENCY_KEY", "true")
        .env("LONGHAUL_WORKER_CONCURRENCY", "9")
        .env("LONGHAUL_LIMITS_INPUT_BYTES_MAX", "500KiB")
        .config();
    assert_eq!(config.lease.duration, 60 * SECOND);
    assert!(config.require_idempotency_key);
    assert_eq!(config.worker.concurrency, 9);
    assert_eq!(config.limits.job.input_bytes_max, 500 << 10);
}

#[test]
fn variables_of_clients_and_handlers_are_not_ours_to_refuse() {
    let given = Given::nothing()
        .env("LONGHAUL_SERVER", "http://x")
        .env("LONGHAUL_API_KEY", "lh_x")
        .env("LONGHAUL_WEBHOOK_SECRET", "whsec_x")
        .env("LONGHAUL_JOB_ID", "x")
        .env("LONGHAUL_LOG", "info,hyper=warn")
        .env("PATH", "/bin");
    assert_eq!(given.config().log.filter, "info,hyper=warn");
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    let given = Given::file(
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
    insta::assert_snapshot!(given.errors());
}

#[test]
fn broken_toml_is_told_with_its_line() {
    insta::assert_snapshot!(Given::file("listen = '127.0.0.1:1'\n[lease\nx = ").errors());
}

#[test]
fn named_file_must_exist() {
    let mut given = Given::nothing();
    given.sources.file = Some(given.folder.path().join("other.toml"));
    assert!(given.errors().starts_with("the configuration is wrong: --config: cannot read other"));
}

#[test]
fn only_loopback_is_listened_on() {
    for good in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
        Given::nothing().env("LONGHAUL_LISTEN", good).config();
    }
    for bad in ["0.0.0.0:80", "[::]:80", "192.168.1.1:80", "[::ffff:10.0.0.1]:80"] {
        let errors = Given::nothing().env("LONGHAUL_LISTEN", bad).errors();
        assert!(errors.contains("set auth.require_keys = true"), "{errors}");
        let with_keys = Given::nothing().env("LONGHAUL_LISTEN", bad);
        with_keys.env("LONGHAUL_AUTH_REQUIRE_KEYS", "true").config();
    }
}

#[test]
fn database_is_a_file_or_memory() {
    let database = |text: &str| Given::nothing().env("LONGHAUL_DATABASE", text).config().database;
    assert_eq!(database("memory"), Database::Memory);
    assert_eq!(database("sqlite:/x/y.db"), Database::Sqlite(Path::new("/x/y.db").into()));
}

#[test]
fn split_roles_need_a_database_that_several_share() {
    for role in ["api", "worker"] {
        for database in ["", "memory", "sqlite:/x/y.db"] {
            let errors = Given::nothing()
                .env("LONGHAUL_ROLE", role)
                .env("LONGHAUL_DATABASE", database)
                .errors();
            assert!(errors.contains("postgres://"), "{errors}");
        }
    }
    assert_eq!(Given::nothing().env("LONGHAUL_ROLE", "all").config().role, Role::All);
    let errors = Given::nothing().env("LONGHAUL_ROLE", "both").errors();
    assert!(errors.contains("\"all\", \"api\" or \"worker\""), "{errors}");
}

#[test]
fn metrics_may_be_shown_to_everybody() {
    let config = Given::nothing().env("LONGHAUL_METRICS_LISTEN", "0.0.0.0:9090").config();
    assert_eq!(config.metrics_listen, Some("0.0.0.0:9090".parse().unwrap()));
    let errors = Given::nothing().env("LONGHAUL_METRICS_LISTEN", "9090").errors();
    assert!(errors.contains("\"0.0.0.0:9090\""), "{errors}");
}

#[test]
fn passwords_are_never_printed() {
    let given = Given::nothing().env("LONGHAUL_DATABASE", "postgres://me:p@ss@db/jobs");
    assert!(!format!("{:?}", given.config()).contains("p@ss"));
    let settings = settings(&Layers::of(&given.sources));
    assert!(!format!("{settings:?}").contains("p@ss"));
}

#[test]
fn leases_are_renewed_twice_before_they_end() {
    let given = Given::nothing().env("LONGHAUL_LEASE_RENEW", "7s500ms");
    assert!(given.errors().contains("less than half of lease.duration"));
    Given::nothing().env("LONGHAUL_LEASE_RENEW", "7s499ms").config();
}

#[test]
fn issuer_is_trusted_with_what_its_tokens_are_called() {
    let given = Given::file(
        "[oidc]\nissuer = 'https://login.example.com/'\naudience = 'jobs'\ntenant_claim = 'org'\n",
    );
    let expected = OidcSettings {
        issuer: "https://login.example.com/".into(),
        audience: "jobs".into(),
        tenant_claim: "org".into(),
        scope_claim: "scope".into(),
        scope_prefix: "longhaul:".into(),
        jwks_url: None,
    };
    assert_eq!(given.config().oidc, Some(expected));
}

#[test]
fn keys_of_an_issuer_come_by_a_line_that_nobody_can_change() {
    let with = |key: &str, url: &str| {
        let given = Given::nothing().env("LONGHAUL_OIDC_AUDIENCE", "jobs");
        let given = given.env("LONGHAUL_OIDC_ISSUER", "https://a.example");
        Config::load(&given.env(key, url).sources).map_err(|errors| errors.to_string())
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
fn issuer_is_an_address_and_needs_an_audience() {
    let given = Given::nothing().env("LONGHAUL_OIDC_AUDIENCE", "jobs");
    assert!(given.env("LONGHAUL_OIDC_ISSUER", "https://a/?b").errors().contains("without a '?'"));
    let given = Given::nothing().env("LONGHAUL_OIDC_ISSUER", "https://a.example");
    assert!(given.errors().contains("made for any other service"), "{}", given.errors());
    Given::nothing().env("LONGHAUL_OIDC_AUDIENCE", "jobs").config();
}

#[test]
fn no_limit_of_requests_is_a_zero() {
    let limit = |text: &str| {
        let given = Given::nothing().env("LONGHAUL_LIMITS_REQUESTS_PER_S_PER_TENANT", text);
        given.config().auth.requests_per_s
    };
    assert_eq!((limit("0"), limit("20")), (None, Some(20)));
}

#[test]
fn certificate_and_key_come_together_or_not_at_all() {
    let given = Given::file("[tls]\ncert = 'a.pem'\nkey = 'b.pem'\n");
    let files = crate::listen::TlsFiles { cert: "a.pem".into(), key: "b.pem".into() };
    assert_eq!(given.config().tls, Some(files));
    for (given, lacking) in [("cert", "tls.key"), ("key", "tls.cert")] {
        let errors = Given::file(&format!("[tls]\n{given} = 'a.pem'\n")).errors();
        assert!(errors.contains(&format!("it needs `{lacking}`")), "{errors}");
    }
}

#[test]
fn proxies_are_networks_or_addresses() {
    use crate::listen::TrustedProxies;
    let networks = ["10.0.0.0/8", "::1/128"].map(|text| text.parse().unwrap());
    let given = Given::file("[http]\ntrusted_proxies = ['10.0.0.0/8', '::1']\n");
    assert_eq!(given.config().http.trusted_proxies, TrustedProxies::new(networks));
    let given = Given::nothing().env("LONGHAUL_HTTP_TRUSTED_PROXIES", "10.0.0.0/8, ::1");
    assert_eq!(given.config().http.trusted_proxies, TrustedProxies::new(networks));
    for bad in ["['proxy']", "['10.0.0.0/33']", "[1]", "7"] {
        let errors = Given::file(&format!("[http]\ntrusted_proxies = {bad}\n")).errors();
        assert!(errors.contains("longhaul.toml:2: `http.trusted_proxies` is"), "{errors}");
    }
}

#[test]
fn egress_allows_networks_or_addresses() {
    use longhaul_net::egress::Policy;
    let networks = ["127.0.0.1/32", "fd00::/8"].map(|text| text.parse().unwrap());
    let given = Given::file("[egress]\nallow = ['127.0.0.1', 'fd00::/8']\n");
    assert_eq!(given.config().egress, Policy::new(networks));
    let given = Given::nothing().env("LONGHAUL_EGRESS_ALLOW", "127.0.0.1/32,fd00::/8");
    assert_eq!(given.config().egress, Policy::new(networks));
    for bad in ["['localhost']", "['127.0.0.1:80']", "['127.0.0.1/33']", "true"] {
        let errors = Given::file(&format!("[egress]\nallow = {bad}\n")).errors();
        assert!(errors.contains("longhaul.toml:2: `egress.allow` is"), "{errors}");
    }
}

#[test]
fn origins_are_as_browsers_send_them() {
    let of = |text: &str| Given::file(&format!("[http]\ncors_origins = ['{text}']\n"));
    for good in ["https://app.example", "http://localhost:3000", "*"] {
        assert_eq!(of(good).config().http.cors_origins, [good]);
    }
    for bad in ["app.example", "https://app.example/", "https://App.example", "https://a/b", ""] {
        assert!(of(bad).errors().contains("`http.cors_origins` is"), "{bad}");
    }
}

#[test]
fn kinds_of_the_contract_are_read() {
    let kinds = Given::file(
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
    assert_eq!(resize.run, Run::Command(vec!["./resize".into(), "--fast".into()]));
    assert_eq!(resize.timeout, Some(1800 * SECOND));
    assert_eq!((resize.concurrency, resize.retry), (2, Retry::times(5)));
    let pipeline = &kinds[&Name::new("pipeline").unwrap()];
    let step = |name: &str| StepCommand {
        name: Name::new(name).unwrap(),
        command: vec![format!("./{name}")],
    };
    assert_eq!(pipeline.run, Run::Steps(vec![step("extract"), step("index")]));
    assert_eq!((pipeline.concurrency, pipeline.retry), (4, Retry::JOB));
    assert_eq!(pipeline.queue, Name::default_queue());
}

#[test]
fn limits_over_all_replicas_are_read() {
    let config = Given::file(
        "[limits]\nrunning_per_tenant_max = 7\nrate_per_tenant = '5/1s'\n\
         [kinds.resize]\ncommand = ['x']\nrunning_max = 3\n\
         [queues.mail]\nrunning_max = 10\nrate = '100/1m30s'\npending_max = 9\n[queues.free]\n",
    )
    .config();
    let tenants = FlowLimit::running(7).and_rate(Rate::new(5, SECOND));
    assert_eq!(config.limits.tenants, tenants);
    assert_eq!(config.kinds[&Name::new("resize").unwrap()].running_max, Some(3));
    let mail = FlowLimit::running(10).and_rate(Rate::new(100, 90 * SECOND));
    let mail = QueueConfig { flow: mail, pending_max: Some(9) };
    assert_eq!(config.queues[&Name::new("mail").unwrap()], mail);
    assert_eq!(config.queues[&Name::new("free").unwrap()], QueueConfig::default());
}

#[test]
fn mistakes_in_limits_are_told_at_once() {
    let given = Given::file(
        "[limits]\nrate_per_tenant = '100'\nrunning_per_tenant_max = -1\n\
         [kinds.resize]\ncommand = ['x']\nrunning_max = 0\n\
         [queues.'no name']\nrunning_max = 1\n\
         [queues.mail]\nrunning_max = 'many'\nrate = '0/1m'\n\
         [queues.slip]\nruning_max = 1\nrate = '5/0s'\n\
         [queues]\nflat = 3\n",
    );
    insta::assert_snapshot!(given.errors());
}

#[test]
fn mistakes_in_kinds_are_told_at_once() {
    let given = Given::file(
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
    insta::assert_snapshot!(given.errors());
}

#[test]
fn doctor_can_tell_where_each_value_came_from() {
    let given = Given::file(
        "[lease]\nduration = '20s'\n[kinds.resize]\ncommand = ['./resize', '--token=secret']\n",
    )
    .env("LONGHAUL_WORKER_CONCURRENCY", "9")
    .flags(Flags { replica: Some("a".into()), ..Flags::default() });
    let (_, settings) = Config::load(&given.sources).unwrap();
    let line = |s: &Setting| format!("{} = {} ({})\n", s.key, s.value, s.origin);
    let text: String = settings.iter().map(line).collect();
    insta::assert_snapshot!(text.replace(&format!("{}/", given.folder.path().display()), ""));
}
