//! TLS: a certificate and its key, read again when their files change.

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
use tokio_util::sync::CancellationToken;
use x509_cert::der::Decode;

use super::socket::{Clocked, Line};

/// How often the files are looked at. By their contents: whatever puts a new pair there, it may
/// keep times, swap links or write in place.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Where the pair is, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those between it and the authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a pair cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Look at the file and its permissions.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another file was meant, or it is not PEM.
    #[error("{} has no certificate in PEM", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Another file was meant, or the key is encrypted.
    #[error("{} has no private key in PEM that is not encrypted", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The two files are not of one pair.
    #[error("the key in {} is not that of the certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// A kind of key or certificate that cannot be used.
    #[error("the certificate in {} cannot be used: {source}", cert.display())]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
}

/// What new connections are greeted with.
pub struct Tls {
    files: TlsFiles,
    clock: Clock,
    /// Std locks: held for a few moves, never across an await.
    current: RwLock<Current>,
    /// The digest of both files as they were last seen; none if they could not be read.
    seen: Mutex<Option<[u8; 32]>>,
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
    /// Reads the pair. One that has expired is used and told about: a caller who pins it may
    /// not mind, and a server that does not start helps nobody.
    pub fn load(files: TlsFiles, clock: Clock) -> Result<Self, TlsError> {
        let pair = Pair::read(&files)?;
        let current = RwLock::new(pair.current(&files, clock.now())?);
        let seen = Mutex::new(Some(pair.digest()));
        Ok(Self { files, clock, current, seen })
    }

    /// Looks at the files once. If they have changed, their pair is for connections from now on;
    /// one that cannot be used is told about once, and the old one stays.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let pair = Pair::read(&self.files);
        let now = pair.as_ref().ok().map(Pair::digest);
        let before =
            std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), now);
        if before == now {
            return Ok(false);
        }
        let current = pair?.current(&self.files, self.clock.now())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(true)
    }

    /// Until when the certificate is valid, if that can be read.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.current().expires_at
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the files every few seconds until `stop`.
    pub async fn keep_fresh(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let this = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || this.refresh()).await {
                Ok(Ok(true)) => tracing::info!("a new TLS certificate is used from now on"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "the new TLS certificate is not used, the old one stays");
                }
                Err(error) => tracing::error!(%error, "cannot look at the TLS certificate"),
            }
        }
    }

    /// Greets a peer.
    pub(super) async fn accept(&self, socket: Clocked) -> io::Result<Line> {
        let stream = TlsAcceptor::from(self.current().config).accept(socket).await?;
        Ok(Line::Tls(Box::new(stream)))
    }
}

/// The files' contents.
struct Pair {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
        };
        Ok(Self { cert: read(&files.cert)?, key: read(&files.key)? })
    }

    /// So that no second copy of the key is kept.
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
            tracing::warn!(%cert, %expires_at, "the TLS certificate has expired: callers will refuse it");
        }
        Ok(Current { config, expires_at })
    }

    fn config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
        let TlsFiles { cert, key } = files.clone();
        let certificates =
            self.certificates().ok_or_else(|| TlsError::NoCertificate { path: cert.clone() })?;
        let secret = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| TlsError::NoKey { path: key.clone() })?;
        // Not the process's default: nobody need have installed one.
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
        // What the accept loop speaks; a peer that insists on another is told so in the handshake.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Until when the first certificate is valid, if that can be read.
    fn expires_at(&self) -> Option<Timestamp> {
        let certificates = self.certificates()?;
        let parsed = x509_cert::Certificate::from_der(certificates.first()?).ok()?;
        let since_1970 = parsed.tbs_certificate.validity.not_after.to_unix_duration();
        Some(Timestamp::from_millis(i64::try_from(since_1970.as_millis()).ok()?))
    }
}
