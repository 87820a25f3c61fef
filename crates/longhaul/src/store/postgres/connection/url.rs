//! Database URLs: the driver's settings and our own ones for TLS, pool size and poolers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::postgres::OpenError;

/// Default pool size: enough for all writers at once and some readers.
const CONNECTIONS_MAX: usize = 10;
/// Time after which the kernel closes a connection that has unacknowledged data. Shorter than the timeout of a statement, so
/// that the statement is repeated on another connection.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// Time without traffic after which the kernel probes a connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(4);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;

/// A parsed `postgres://` URL.
#[derive(Clone)]
pub(crate) struct DatabaseUrl {
    pub(crate) config: Config,
    /// True if the operator declared a transaction pooler (`pgbouncer=true`).
    pub(crate) pooled: bool,
    pub(crate) connections_max: usize,
    /// True if the server's certificate is verified.
    verify: bool,
    root_certificates: Option<PathBuf>,
}

impl DatabaseUrl {
    /// Parses a URL. Besides the driver's own settings it may contain `sslmode=verify-full`,
    /// `sslrootcert=FILE`, `pgbouncer=true` and `pool_max=N`.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut database = Self {
            config: Config::new(),
            pooled: false,
            connections_max: CONNECTIONS_MAX,
            verify: false,
            root_certificates: None,
        };
        let mut left = Vec::new();
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            match (name, value) {
                ("sslmode", "verify-full" | "verify-ca") => {
                    database.verify = true;
                    left.push("sslmode=require".to_owned());
                }
                ("sslrootcert", file) => database.root_certificates = Some(PathBuf::from(file)),
                ("pgbouncer", "true" | "false") => database.pooled = value == "true",
                ("pool_max", number) => {
                    let parsed = number.parse().ok().filter(|max| *max >= 2);
                    database.connections_max = parsed.ok_or_else(|| {
                        OpenError::Address("pool_max must be a number of at least 2".to_owned())
                    })?;
                }
                _ => left.push(setting.to_owned()),
            }
        }
        let url = if left.is_empty() {
            address.to_owned()
        } else {
            format!("{address}?{}", left.join("&"))
        };
        database.config = url.parse().map_err(|error: tokio_postgres::Error| {
            // The driver's message contains names of settings, never values such as the password.
            OpenError::Address(error.to_string())
        })?;
        if database.config.get_application_name().is_none() {
            database.config.application_name("longhaul");
        }
        if database.config.get_connect_timeout().is_none() {
            database.config.connect_timeout(Duration::from_secs(5));
        }
        detect_dead_peers(&mut database.config);
        database.verify |= database.root_certificates.is_some();
        if database.verify {
            // Overrides `sslmode`, because certificates can be verified in TLS only.
            database.config.ssl_mode(SslMode::Require);
        }
        Ok(database)
    }

    /// Returns host and port for messages, without user and password.
    pub(crate) fn address(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.rsplit('@').next().unwrap_or_default().to_owned(),
            Some(Host::Unix(path)) => return path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!("{host}:{port}")
    }

    /// Returns whether the server's certificate is verified.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn verifies(&self) -> bool {
        self.verify
    }

    /// Returns the TLS configuration. Without `verify-full` or `sslrootcert`, TLS protects from
    /// eavesdropping only, as with libpq.
    pub(crate) fn tls(&self) -> Result<MakeRustlsConnect, OpenError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| OpenError::Tls(error.to_string()))?;
        let config = if self.verify {
            builder.with_root_certificates(self.roots()?).with_no_client_auth()
        } else {
            let any_server = Arc::new(AnyServer(provider));
            builder.dangerous().with_custom_certificate_verifier(any_server).with_no_client_auth()
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, OpenError> {
        let mut roots = RootCertStore::empty();
        let certificates = match &self.root_certificates {
            Some(file) => {
                let unreadable = |error: &dyn std::fmt::Display| {
                    OpenError::Tls(format!("cannot read {}: {error}", file.display()))
                };
                CertificateDer::pem_file_iter(file)
                    .map_err(|error| unreadable(&error))?
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| unreadable(&error))?
            }
            None => rustls_native_certs::load_native_certs().certs,
        };
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(OpenError::Tls("no root certificate to verify the server with".to_owned()));
        }
        Ok(roots)
    }
}

/// Makes the kernel close a connection whose peer does not acknowledge anything for about 10 s: data by the user timeout,
/// and keepalives while nothing is sent. Settings of the URL win.
fn detect_dead_peers(config: &mut Config) {
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED_MAX);
    }
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(KEEPALIVE_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVE_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
}

/// Accepts any certificate, but verifies that the server has its private key.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_overrides_the_detection_of_dead_peers() {
        let parse = |query: &str| {
            let config = DatabaseUrl::parse(&format!("postgres://u@h/d{query}")).unwrap().config;
            (config.get_tcp_user_timeout().copied(), config.get_keepalives_idle())
        };
        assert_eq!(parse(""), (Some(UNACKNOWLEDGED_MAX), KEEPALIVE_IDLE));
        let own = (Some(Duration::from_mins(1)), Duration::from_mins(2));
        assert_eq!(parse("?tcp_user_timeout=60&keepalives_idle=120"), own);
    }

    /// Regression: a later `sslmode` overrode `verify-full`, and the connection was not even encrypted.
    #[test]
    fn verified_server_is_never_spoken_to_without_tls() {
        for query in [
            "sslmode=verify-full",
            "sslmode=verify-full&sslmode=disable",
            "sslmode=disable&sslmode=verify-ca",
            "sslrootcert=/ca.pem&sslmode=prefer",
        ] {
            let database = DatabaseUrl::parse(&format!("postgres://u@h/d?{query}")).unwrap();
            assert!(database.verify, "{query}");
            assert_eq!(database.config.get_ssl_mode(), SslMode::Require, "{query}");
        }
    }
}
