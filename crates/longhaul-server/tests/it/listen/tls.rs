//! TLS on real sockets, with certificates created for the test.

use std::path::Path;
use std::sync::Arc;

use longhaul::{Clock, Timestamp};
use longhaul_server::listen::{ConnLimits, ListenerConfig, Tls, TlsFiles};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::server::{
    PATIENT, SHORT, Server, assert_problem, connect, send, start_behind, until, until_closed,
};

pub(crate) const PEER: &str = "GET /peer HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const STAY: &str = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nstay";

/// The files in a folder.
pub(crate) fn files(folder: &Path) -> TlsFiles {
    TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") }
}

/// Puts a new pair into a folder, valid until the end of `year`, and returns its certificate.
pub(crate) fn put_pair(folder: &Path, year: i32) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    let cert = params.self_signed(&key).unwrap();
    let files = files(folder);
    std::fs::write(files.cert, cert.pem()).unwrap();
    std::fs::write(files.key, key.serialize_pem()).unwrap();
    cert.der().clone()
}

async fn start(tls: &Arc<Tls>, limits: ConnLimits) -> Server {
    start_behind(ListenerConfig { tls: Some(Arc::clone(tls)), ..ListenerConfig::plain(limits) })
        .await
}

fn load(folder: &Path) -> Arc<Tls> {
    Arc::new(Tls::load(files(folder), Clock::system()).unwrap())
}

/// Opens a TLS connection that trusts only this certificate.
pub(crate) async fn shake(
    socket: TcpStream,
    trusted: &CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

async fn trusting(
    server: &Server,
    cert: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    shake(connect(server).await, cert, rustls::ALL_VERSIONS, "http/1.1").await
}

#[tokio::test]
async fn tls_12_and_13_offer_http_1_only() {
    let folder = tempfile::tempdir().unwrap();
    let cert = put_pair(folder.path(), 2200);
    let server = start(&load(folder.path()), PATIENT).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut line = shake(connect(&server).await, &cert, &[version], "http/1.1").await.unwrap();
        assert_eq!(line.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        line.write_all(PEER.as_bytes()).await.unwrap();
        let response = until_closed(&mut line).await;
        let peer = line.get_ref().0.local_addr().unwrap().to_string();
        assert!(response.starts_with("HTTP/1.1 200") && response.ends_with(&peer), "{response}");
        assert!(response.contains("strict-transport-security: max-age=31536000\r\n"), "{response}");
    }
    let other = shake(connect(&server).await, &cert, rustls::ALL_VERSIONS, "h2").await;
    assert!(other.unwrap_err().to_string().contains("NoApplicationProtocol"));
}

#[tokio::test]
async fn reloaded_certificate_applies_to_new_connections_only() {
    let folder = tempfile::tempdir().unwrap();
    let old_cert = put_pair(folder.path(), 2200);
    let tls = load(folder.path());
    let server = start(&tls, PATIENT).await;
    let mut old = trusting(&server, &old_cert).await.unwrap();
    assert!(!tls.refresh().unwrap(), "nothing has changed");

    let new_cert = put_pair(folder.path(), 2200);
    assert!(tls.refresh().unwrap());
    let mut new = trusting(&server, &new_cert).await.unwrap();
    assert!(trusting(&server, &old_cert).await.is_err());
    for line in [&mut old, &mut new] {
        line.write_all(STAY.as_bytes()).await.unwrap();
        until(line, "stay").await;
    }
}

#[tokio::test]
async fn invalid_new_certificate_is_logged_once_and_the_old_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let cert = put_pair(folder.path(), 2200);
    let tls = load(folder.path());
    let server = start(&tls, PATIENT).await;
    let files = files(folder.path());
    let good_key = std::fs::read(&files.key).unwrap();
    let others_key = KeyPair::generate().unwrap().serialize_pem();
    let mistakes: [(&dyn Fn(), &str); 3] = [
        (&|| std::fs::write(&files.key, &others_key).unwrap(), "does not match the certificate"),
        (
            &|| std::fs::write(&files.key, "half a k").unwrap(),
            "contains no unencrypted PEM private key",
        ),
        (&|| std::fs::remove_file(&files.key).unwrap(), "No such file"),
    ];
    for (mistake, told) in mistakes {
        mistake();
        let error = tls.refresh().unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert!(!tls.refresh().unwrap(), "the same mistake is not told again");
        trusting(&server, &cert).await.unwrap();
    }
    std::fs::write(&files.key, good_key).unwrap();
    assert!(tls.refresh().unwrap(), "it heals by itself");
    trusting(&server, &cert).await.unwrap();
}

#[test]
fn invalid_certificate_at_the_start_is_reported_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |files: TlsFiles| {
        let error = Tls::load(files, Clock::system()).unwrap_err().to_string();
        error.replace(&format!("{}/", folder.path().display()), "")
    };
    put_pair(folder.path(), 2200);
    let good = files(folder.path());
    let missing = TlsFiles { cert: folder.path().join("nowhere.pem"), ..good.clone() };
    let swapped = TlsFiles { cert: good.key.clone(), key: good.cert.clone() };
    let no_key = TlsFiles { key: good.cert.clone(), ..good.clone() };
    let other = KeyPair::generate().unwrap().serialize_pem();
    let mixed = TlsFiles { key: folder.path().join("other.pem"), ..good };
    std::fs::write(&mixed.key, other).unwrap();
    insta::assert_snapshot!([missing, swapped, no_key, mixed].map(refusal).join("\n"), @r"
    cannot read nowhere.pem: No such file or directory (os error 2)
    key.pem contains no PEM certificate
    cert.pem contains no unencrypted PEM private key
    the private key in other.pem does not match the certificate in cert.pem
    ");
}

/// An operator without another certificate must be able to start the server.
#[test]
fn expired_certificate_is_used() {
    let folder = tempfile::tempdir().unwrap();
    put_pair(folder.path(), 2200);
    let later = Clock::manual(Timestamp::parse("2300-01-01T00:00:00Z").unwrap());
    Tls::load(files(folder.path()), later).unwrap();
}

#[tokio::test]
async fn plain_http_on_the_tls_port_gets_400_and_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    put_pair(folder.path(), 2200);
    let server = start(&load(folder.path()), PATIENT).await;
    for begin in [PEER, "POST /echo"] {
        let response = until_closed(&mut send(&server, begin).await).await;
        assert_problem(&response, "400", "bad-request");
        assert!(response.contains("https://"), "{response}");
    }
}

#[tokio::test]
async fn garbage_instead_of_a_tls_handshake_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    put_pair(folder.path(), 2200);
    let server = start(&load(folder.path()), PATIENT).await;
    let mut socket = send(&server, "\x16\x01nonsense nonsense").await;
    let mut sink = Vec::new();
    socket.read_to_end(&mut sink).await.ok();
    assert!(!sink.starts_with(b"HTTP"), "{sink:?}");
}

#[tokio::test]
async fn slow_tls_handshake_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    put_pair(folder.path(), 2200);
    let limits = ConnLimits { header_timeout: SHORT, ..PATIENT };
    let server = start(&load(folder.path()), limits).await;
    for begin in ["", "\x16\x03\x01"] {
        let mut socket = send(&server, begin).await;
        let mut sink = Vec::new();
        socket.read_to_end(&mut sink).await.ok();
        assert_eq!(sink, b"");
    }
}

#[tokio::test]
async fn tls_handshakes_count_as_connections() {
    let folder = tempfile::tempdir().unwrap();
    let cert = put_pair(folder.path(), 2200);
    let limits = ConnLimits { connections_max: 1, ..PATIENT };
    let server = start(&load(folder.path()), limits).await;
    let first = connect(&server).await;
    // Connections are accepted in order, so the first one takes the only slot.
    assert_eq!(until_closed(&mut connect(&server).await).await, "");
    shake(first, &cert, rustls::ALL_VERSIONS, "http/1.1").await.unwrap();
}

#[tokio::test]
async fn stop_closes_connections_in_a_tls_handshake() {
    let folder = tempfile::tempdir().unwrap();
    put_pair(folder.path(), 2200);
    let server = start(&load(folder.path()), PATIENT).await;
    let mut silent = connect(&server).await;
    server.stop.cancel();
    server.running.await.unwrap();
    let mut sink = Vec::new();
    silent.read_to_end(&mut sink).await.ok();
    assert_eq!(sink, b"");
}

#[tokio::test]
async fn tls_connection_that_stops_reading_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let cert = put_pair(folder.path(), 2200);
    let limits = ConnLimits { write_timeout: SHORT, ..PATIENT };
    let server = start(&load(folder.path()), limits).await;
    let mut unread = trusting(&server, &cert).await.unwrap();
    unread.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    until(&mut unread, "\r\n\r\n").await;
    // Only the stalled connection's end lets the server end: its grace is ten minutes.
    server.stop.cancel();
    server.running.await.unwrap();
}
