//! Certificates are checked against the host of the URL, not the dialled address.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::Certificate;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::{FixedResolver, GOOD, OK, policy, post, read_request};
use crate::egress::Client;

/// Starts an endpoint with a certificate for `hooks.example` that reports the host requested by TLS and HTTP.
async fn endpoint() -> (SocketAddr, Certificate, mpsc::UnboundedReceiver<(String, String)>) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let made = rcgen::generate_simple_self_signed(["hooks.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((GOOD, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, hosts) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut line) = acceptor.accept(socket).await else { continue };
            let sni = line.get_ref().1.server_name().unwrap_or_default().to_owned();
            let request = read_request(&mut line).await;
            let host = request.lines().find_map(|line| line.strip_prefix("host: "));
            seen.send((sni, host.unwrap_or_default().to_owned())).unwrap();
            line.write_all(OK).await.unwrap();
            line.shutdown().await.ok();
        }
    });
    (address, Certificate::from_der(made.cert.der()).unwrap(), hosts)
}

fn client(roots: Vec<Certificate>) -> Client {
    Client::build(policy(), FixedResolver::returning([&[GOOD]]), Some(roots))
}

#[tokio::test]
async fn certificate_must_be_trusted_and_match_the_host_of_the_url() {
    let (address, certificate, mut hosts) = endpoint().await;
    let port = address.port();
    let trusting = client(vec![certificate]);
    let answer = trusting.send(post(format!("https://hooks.example:{port}/"))).await.unwrap();
    assert_eq!(answer.status, 200);
    let asked_for = ("hooks.example".to_owned(), format!("hooks.example:{port}"));
    assert_eq!(hosts.recv().await.unwrap(), asked_for);

    for host in ["other.example", "127.0.0.1"] {
        let error = trusting.send(post(format!("https://{host}:{port}/"))).await.unwrap_err();
        assert_eq!(error.code(), "tls", "{host}: {error}");
    }
    let distrusting = client(Vec::new());
    let error = distrusting.send(post(format!("https://hooks.example:{port}/"))).await.unwrap_err();
    assert_eq!(error.code(), "tls", "{error}");
    hosts.close();
    assert_eq!(hosts.recv().await, None, "no other request arrived");
}
