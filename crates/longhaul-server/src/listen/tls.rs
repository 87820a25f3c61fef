//! TLS certificate and private key, reloaded when their files change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use longhaul::{Clock, Timestamp};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use x509_cert::der::Decode;

use super::stream::{MaybeTlsStream, TimedSocket};

/// Interval between checks of the files. Compares contents instead of modification times, because
/// deployment tools keep times, swap links or write in place.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Paths of the certificate and its private key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by intermediate certificates.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Failure to load a certificate and its key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing or its permissions deny access.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is not PEM or holds something else.
    #[error("{} contains no PEM certificate", path.display())]
    NoCertificate { path: PathBuf },
    /// The file holds something else, or the key is encrypted.
    #[error("{} contains no unencrypted PEM private key", path.display())]
    NoKey { path: PathBuf },
    #[error("the private key in {} does not match the certificate in {}", key.display(), cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    /// The key or certificate type is not supported.
    #[error("the certificate in {} is not usable: {source}", cert.display())]
    Unusable { cert: PathBuf, source: rustls::Error },
}

/// Reloadable TLS configuration for new connections.
pub struct Tls {
    files: TlsFiles,
    clock: Clock,
    /// Std locks, held only for moves and never across an await.
    current: RwLock<Current>,
    /// Digest of both files at the last check; `None` if they were unreadable.
    last_digest: Mutex<Option<[u8; 32]>>,
}

#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Loads the certificate and its key. An expired certificate is used and logged, because clients
    /// that pin it still accept it, and a server that does not start is worse.
    pub fn load(files: TlsFiles, clock: Clock) -> Result<Self, TlsError> {
        let pair = CertifiedPair::read(&files)?;
        let current = RwLock::new(pair.current(&files, clock.now())?);
        let last_digest = Mutex::new(Some(pair.digest()));
        Ok(Self { files, clock, current, last_digest })
    }

    /// Checks the files once and uses a changed pair for new connections. Returns whether it changed.
    /// A pair that is not usable is reported once, and the previous one stays in use.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let pair = CertifiedPair::read(&self.files);
        let now = pair.as_ref().ok().map(CertifiedPair::digest);
        let before = std::mem::replace(
            &mut *self.last_digest.lock().unwrap_or_else(PoisonError::into_inner),
            now,
        );
        if before == now {
            return Ok(false);
        }
        let current = pair?.current(&self.files, self.clock.now())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(true)
    }

    /// Returns the certificate's expiry, if it can be parsed.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.current().expires_at
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reloads changed files every 5 s until `stop`.
    pub async fn reload_until(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(RELOAD_INTERVAL)).await.is_some() {
            let this = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || this.refresh()).await {
                Ok(Ok(true)) => tracing::info!("TLS certificate reloaded"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "cannot load the new TLS certificate; the previous one stays in use");
                }
                Err(error) => tracing::error!(%error, "TLS certificate check failed"),
            }
        }
    }

    /// Performs the TLS handshake.
    pub(super) async fn accept(&self, socket: TimedSocket) -> io::Result<MaybeTlsStream> {
        let stream = TlsAcceptor::from(self.current().config).accept(socket).await?;
        Ok(Either::Right(Box::new(stream)))
    }
}

/// Contents of both files.
struct CertifiedPair {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl CertifiedPair {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
        };
        Ok(Self { cert: read(&files.cert)?, key: read(&files.key)? })
    }

    /// Digest of both files, kept instead of a second copy of the key.
    fn digest(&self) -> [u8; 32] {
        let length = u64::try_from(self.cert.len()).unwrap_or(u64::MAX).to_be_bytes();
        let hash = Sha256::new().chain_update(length).chain_update(&self.cert);
        hash.chain_update(&self.key).finalize().into()
    }

    fn certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let all = CertificateDer::pem_slice_iter(&self.cert).collect::<Result<Vec<_>, _>>().ok()?;
        (!all.is_empty()).then_some(all)
    }

    fn current(&self, files: &TlsFiles, now: Timestamp) -> Result<Current, TlsError> {
        let (config, expires_at) = (self.config(files)?, self.expires_at());
        if let Some(expires_at) = expires_at.filter(|expires_at| *expires_at <= now) {
            let cert = files.cert.display();
            tracing::warn!(%cert, %expires_at, "the TLS certificate has expired: clients will reject it");
        }
        Ok(Current { config, expires_at })
    }

    fn config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
        let TlsFiles { cert, key } = files.clone();
        let certificates =
            self.certificates().ok_or_else(|| TlsError::NoCertificate { path: cert.clone() })?;
        let secret = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| TlsError::NoKey { path: key.clone() })?;
        // Explicit, because the process may have no default provider installed.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(certificates, secret)
            });
        let mut config = config.map_err(|source| {
            if matches!(source, rustls::Error::InconsistentKeys(_)) {
                TlsError::Mismatch { cert, key }
            } else {
                TlsError::Unusable { cert, source }
            }
        })?;
        // The only protocol served; ALPN rejects peers that insist on another one.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns the expiry of the first certificate, if it can be parsed.
    fn expires_at(&self) -> Option<Timestamp> {
        let certificates = self.certificates()?;
        let parsed = x509_cert::Certificate::from_der(certificates.first()?).ok()?;
        let since_1970 = parsed.tbs_certificate.validity.not_after.to_unix_duration();
        Some(Timestamp::from_millis(i64::try_from(since_1970.as_millis()).ok()?))
    }
}
