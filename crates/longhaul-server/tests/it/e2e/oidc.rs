//! Tokens of a real issuer: npm's `oidc-provider`, which is certified and shares no code with us.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::harness::raw_http::{RawResponse, send};
use crate::harness::{Installation, LONGHAUL, output_of};

const AUDIENCE: &str = "urn:longhaul";

/// The issuer as a process. Killed when dropped.
struct RealIssuer {
    url: String,
    _child: Child,
}

impl RealIssuer {
    async fn start() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let modules = here.join("../../.tools/node/node_modules");
        let is_there = modules.join("oidc-provider").exists();
        assert!(is_there, "there is no oidc-provider: run scripts/setup-test, which installs it");
        let mut child = Command::new("node")
            .arg(here.join("tests/it/e2e/oidc/issuer.mjs"))
            .arg(modules)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().expect("the issuer ended before it was ready");
        Self { url, _child: child }
    }

    /// Returns the server configuration that trusts this issuer.
    fn config(&self) -> String {
        let Self { url, .. } = self;
        format!("[auth]\nrequire_keys = true\n[oidc]\nissuer = {url:?}\naudience = {AUDIENCE:?}\n")
    }

    /// A token for a program, as the program would ask for it.
    async fn token(&self, client: &str, scope: &str) -> String {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", client),
            ("client_secret", "secret"),
            ("resource", AUDIENCE),
            ("scope", scope),
        ];
        // Another test of this process may have installed one before.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let body = form.map(|(name, value)| format!("{name}={value}")).join("&");
        let response = http
            .post(format!("{}/token", self.url))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body)
            .send()
            .await
            .unwrap();
        let response: Value = response.json().await.unwrap();
        let token = response["access_token"].as_str();
        token.unwrap_or_else(|| panic!("{response}")).to_owned()
    }
}

async fn submit(install: &Installation, token: &str) -> RawResponse {
    let bearer = format!("Bearer {token}");
    let body = r#"{"kind":"demo","input":{}}"#;
    send(install.address(), "POST /v1/jobs", &[("authorization", &bearer)], body).await.unwrap()
}

#[tokio::test]
async fn oidc_token_is_accepted_and_a_tampered_one_rejected() {
    let issuer = RealIssuer::start().await;
    let install = Installation::with(&issuer.config());
    let server = install.start().await;
    for client in ["RS256.default", "ES256.default", "Ed25519.default"] {
        let token = issuer.token(client, "longhaul:submit+longhaul:read").await;
        let accepted = submit(&install, &token).await;
        assert_eq!(accepted.status, 202, "{client}: {accepted:?}");

        let (said, signature) = token.rsplit_once('.').unwrap();
        let (first, rest) = signature.split_at(1);
        let changed = format!("{said}.{}{rest}", if first == "A" { "B" } else { "A" });
        let refused = submit(&install, &changed).await;
        assert_eq!(refused.problem(), (401, "unauthorized".to_owned()), "{client}");
        assert!(refused.head.contains("error=\"invalid_token\""), "{refused:?}");
        assert!(refused.body.contains("the token's signature is invalid"), "{refused:?}");
        assert!(!refused.body.contains(signature), "{refused:?}");
    }
    let reader = issuer.token("RS256.default", "longhaul:read").await;
    assert_eq!(submit(&install, &reader).await.problem(), (403, "forbidden".to_owned()));
    let stranger = issuer.token("RS256.nobody", "longhaul:submit").await;
    let refused = submit(&install, &stranger).await;
    assert_eq!(refused.problem(), (403, "forbidden".to_owned()));
    assert!(refused.body.contains("unknown tenant"), "{refused:?}");
    server.sigterm().await;
}

#[tokio::test]
async fn server_starts_while_its_oidc_issuer_is_down() {
    let config = "[oidc]\nissuer = 'http://127.0.0.1:9'\naudience = 'x'\n";
    let install = Installation::with(config);
    let mut server = install.start().await;
    server.wait_for_log("cannot fetch the issuer's keys").await;
    // {"alg":"RS256","kid":"first"}, {} and a forged signature.
    let refused = submit(&install, "eyJhbGciOiJSUzI1NiIsImtpZCI6ImZpcnN0In0.e30.AAAA").await;
    assert_eq!(refused.problem(), (503, "unavailable".to_owned()));
    let keyless = send(install.address(), "GET /v1/jobs", &[], "").await.unwrap();
    assert_eq!(keyless.status, 200, "{keyless:?}");
    server.sigterm().await;
}

#[tokio::test]
async fn doctor_checks_the_oidc_issuer_keys() {
    let issuer = RealIssuer::start().await;
    let install = Installation::with(&issuer.config());
    let doctor = async || {
        let mut command = install.command(LONGHAUL);
        command.args(["doctor", "--listen", "127.0.0.1:0"]);
        output_of(command).await.unwrap()
    };
    let healthy = doctor().await;
    assert!(healthy.out.contains("✓ issuer: "), "{healthy:?}");
    drop(issuer);
    let sick = doctor().await;
    assert!(sick.out.contains("! issuer: "), "{sick:?}");
}
