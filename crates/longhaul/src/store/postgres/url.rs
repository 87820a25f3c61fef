//! What a `postgres://` address says besides what the driver understands.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::OpenError;

/// Enough for the writers of every kind at once and for some readers beside them.
const CONNECTIONS_MAX: usize = 10;

/// Where the database is and how to speak to it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    /// Said by the operator: a pooler hands out sessions by transaction.
    pub(super) pooled: bool,
    pub(super) connections_max: usize,
    /// Whether the server has to prove who it is.
    verify: bool,
    root_certificates: Option<PathBuf>,
}

impl Target {
    /// Reads an address. Besides the driver's own settings it may have `sslmode=verify-full`,
    /// `sslrootcert=FILE`, `pgbouncer=true` and `pool_max=N`.
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut target = Self {
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
                    target.verify = true;
                    left.push("sslmode=require".to_owned());
                }
                ("sslrootcert", file) => target.root_certificates = Some(PathBuf::from(file)),
                ("pgbouncer", "true" | "false") => target.pooled = value == "true",
                ("pool_max", number) => {
                    let parsed = number.parse().ok().filter(|max| *max >= 2);
                    target.connections_max = parsed.ok_or_else(|| {
                        OpenError::Address("pool_max is a number from 2".to_owned())
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
        target.config = url.parse().map_err(|error: tokio_postgres::Error| {
            // The driver's message names the setting, never its value: an address holds a password.
            OpenError::Address(error.to_string())
        })?;
        if target.config.get_application_name().is_none() {
            target.config.application_name("longhaul");
        }
        if target.config.get_connect_timeout().is_none() {
            target.config.connect_timeout(std::time::Duration::from_secs(5));
        }
        target.config.keepalives_idle(std::time::Duration::from_secs(30));
        target.verify |= target.root_certificates.is_some();
        if target.verify {
            // Whatever else the address says: a server that has to prove who it is can do so in TLS only.
            target.config.ssl_mode(SslMode::Require);
        }
        Ok(target)
    }

    /// Whether the server has to prove who it is.
    #[cfg(feature = "fuzzing")]
    pub(super) fn verifies(&self) -> bool {
        self.verify
    }

    /// How to encrypt, if the server does. Without `verify-full` or `sslrootcert` an encrypted
    /// connection is protected from listeners only, as with Postgres' own clients.
    pub(super) fn tls(&self) -> Result<MakeRustlsConnect, OpenError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| OpenError::Tls(error.to_string()))?;
        let config = if self.verify {
            builder.with_root_certificates(self.roots()?).with_no_client_auth()
        } else {
            let anyone = Arc::new(Anyone(provider));
            builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
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
            return Err(OpenError::Tls(
                "there is no certificate to verify the server by".to_owned(),
            ));
        }
        Ok(roots)
    }
}

/// Takes any server for the right one, but holds it to the keys that it showed.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
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

    /// The later of two settings won, and the server was neither asked who it is nor spoken to in TLS.
    #[test]
    fn server_that_has_to_prove_who_it_is_is_never_spoken_to_in_clear() {
        for query in [
            "sslmode=verify-full",
            "sslmode=verify-full&sslmode=disable",
            "sslmode=disable&sslmode=verify-ca",
            "sslrootcert=/ca.pem&sslmode=prefer",
        ] {
            let target = Target::parse(&format!("postgres://u@h/d?{query}")).unwrap();
            assert!(target.verify, "{query}");
            assert_eq!(target.config.get_ssl_mode(), SslMode::Require, "{query}");
        }
    }
}
