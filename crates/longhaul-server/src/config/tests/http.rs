//! HTTP kinds and proxy routes.

use axum::http::Method;
use longhaul_kinds::http::{RetryOn, TargetUrl};

use super::*;

const REPORT: &str = "[kinds.report]\nhttp = { url = 'http://127.0.0.1:9000/report' }\n";

fn target(config: &Config, kind: &str) -> HttpKindConfig {
    match &config.kinds[&Name::new(kind).unwrap()].runner {
        KindRunner::Http(target) => HttpKindConfig::clone(target),
        KindRunner::Command(_) | KindRunner::Steps(_) => panic!("{kind} has no endpoint"),
    }
}

#[test]
fn http_kind_and_proxy_route_are_read() {
    let config =
        ConfigInput::file(&format!("{REPORT}[[proxy]]\npath = '/reports'\nkind = 'report'\n"));
    let config = config.config();
    let expected = HttpKindConfig {
        target: Some(TargetUrl::parse("http://127.0.0.1:9000/report").unwrap()),
        method: Method::POST,
        headers: axum::http::HeaderMap::new(),
        retry_on: RetryOn::default(),
        caller_url: false,
    };
    assert_eq!(target(&config, "report"), expected);
    assert!(config.kinds[&Name::new("report").unwrap()].payload, "request bodies are payloads");
    let route = ProxyRoute {
        path: "/reports".to_owned(),
        kind: "report".to_owned(),
        sync: false,
        pass: Vec::new(),
    };
    assert_eq!(config.proxies, [route]);
}

#[test]
fn http_kind_secrets_come_from_the_environment_and_are_never_printed() {
    let input = ConfigInput::file(
        "[kinds.report]\n[kinds.report.http]\nurl = 'https://t.example/${PLACE}'\nmethod = 'PUT'\n\
         headers = { authorization = 'Bearer ${REPORT_TOKEN}', x-own = 'written-down' }\n\
         retry_on = ['5xx', 'connect']\n",
    );
    let input = input.env("PLACE", "s3cret-place").env("REPORT_TOKEN", "s3cret-token");
    let (config, settings) = Config::load(&input.sources).unwrap();
    let http = target(&config, "report");
    assert_eq!(http.headers["authorization"], "Bearer s3cret-token");
    assert_eq!(http.method, Method::PUT);
    let url = http.target.as_ref().unwrap().at("", None).unwrap();
    assert_eq!(url.as_str(), "https://t.example/s3cret-place");
    let shown = format!("{config:?} {settings:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("written-down"), "{shown}");
}

#[test]
fn missing_environment_variable_is_an_error_only_where_jobs_run() {
    let text = "[kinds.report]\nhttp = { url = 'http://${HOST}/', headers = { a = '${TOKEN}' } }\n";
    let errors = ConfigInput::file(text).env("TOKENS", "x").errors();
    for name in ["HOST", "TOKEN"] {
        assert!(
            errors.contains(&format!("the environment variable {name} is not set")),
            "{errors}"
        );
    }
    // A process that runs no jobs does not need the variables.
    let api = ConfigInput::file(&format!("role = 'api'\ndatabase = 'postgres://db/x'\n{text}"));
    api.config();
}

#[test]
fn http_kind_and_proxy_errors_are_reported_at_once() {
    let input = ConfigInput::file(&format!(
        "{REPORT}\
         [kinds.no-url]\nhttp = {{ method = 'GET' }}\n\
         [kinds.slip]\nhttp = {{ url = 'ftp://x', metod = 'GET', retry_on = ['2xx'] }}\n\
         [kinds.fields]\nhttp = {{ url = 'http://x', headers = {{ host = 'x' }}, method = 'A B' }}\n\
         [kinds.value]\nhttp = {{ url = 'http://u:hunter2@x/', headers = {{ a = '${{X' }} }}\n\
         [kinds.free]\nhttp = {{ caller_url = true }}\n\
         [kinds.program]\ncommand = ['x']\n\
         [[proxy]]\npath = '/reports'\nkind = 'reprot'\n\
         [[proxy]]\npath = '/v1/reports'\nkind = 'report'\n\
         [[proxy]]\npath = '/'\nkind = 'report'\n\
         [[proxy]]\npath = '/a/../b'\nkind = 'report'\n\
         [[proxy]]\npath = '/p/{{x}}'\nkind = 'program'\n\
         [[proxy]]\npath = '/f'\nkind = 'free'\nmode = 'fast'\npass = ['X-Api-Key']\n\
         [[proxy]]\nkind = 'slip'\nexra = 1\n\
         [[proxy]]\npath = '/twice'\nkind = 'report'\n\
         [[proxy]]\npath = '/twice'\nkind = 'report'\n",
    ));
    let errors = input.errors();
    assert!(!errors.contains("hunter2"), "{errors}");
    insta::assert_snapshot!(errors);
    let wrong = ConfigInput::file("[proxy]\npath = '/x'\n").errors();
    assert!(wrong.contains("below [[proxy]]"), "{wrong}");
}
