//! HTTPS from the real binary.

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::raw_http;
use crate::harness::{Installation, TestProcess};
use crate::listen::tls::{put_pair, shake};

const CONFIG: &str =
    "metrics_listen = \"127.0.0.1:0\"\n[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";

/// Sends a request over TLS that trusts only this certificate.
async fn ask(install: &Installation, cert: &CertificateDer<'static>) -> std::io::Result<String> {
    let socket = TcpStream::connect(install.address()).await?;
    let mut line = shake(socket, cert, rustls::ALL_VERSIONS, "http/1.1").await?;
    line.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
    let mut response = String::new();
    line.read_to_string(&mut response).await?;
    Ok(response)
}

#[tokio::test]
async fn replaced_certificate_is_used_without_a_restart() {
    let install = Installation::with(CONFIG);
    let old = put_pair(install.path(), 2200);
    let mut server = install.start().await;
    let response = ask(&install, &old).await.unwrap();
    assert!(response.starts_with("HTTP/1.0 200") && response.ends_with("ok"), "{response}");

    let new = put_pair(install.path(), 2200);
    server.wait_for_log("TLS certificate reloaded").await;
    ask(&install, &new).await.unwrap();
    assert!(ask(&install, &old).await.is_err());
    assert_eq!(server.sigterm().await.status.code(), Some(0));
}

#[tokio::test]
async fn expired_certificate_is_reported_at_the_start() {
    let install = Installation::with(CONFIG);
    put_pair(install.path(), 2001);
    let mut server = install.start().await;
    server.wait_for_log("the TLS certificate has expired").await;
}

#[tokio::test]
async fn missing_certificate_prevents_the_start() {
    let install = Installation::with(CONFIG);
    let exited = install.try_start().await.err().unwrap();
    assert_eq!(exited.status.code(), Some(1));
    assert!(exited.stderr.contains("cannot use TLS: cannot read cert.pem"), "{exited:?}");
    assert!(!install.data_dir().exists());
}

#[tokio::test]
async fn start_line_has_https_and_metrics_use_plain_http() {
    let install = Installation::with(CONFIG);
    put_pair(install.path(), 2200);
    let mut server = TestProcess::spawn(install.serve());
    let line = server.line().await.unwrap();
    assert!(line.contains("dashboard https://127."), "{line}");
    let address = line.split("metrics http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.and_then(|text| text.parse().ok()).unwrap();
    assert_eq!(raw_http::send(address, "GET /livez", &[], "").await.unwrap().status, 200);
}
