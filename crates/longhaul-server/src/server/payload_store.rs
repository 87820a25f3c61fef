//! Storage of payloads and artifacts: opens and checks the blob store and the server keys.

use std::path::Path;
use std::sync::Arc;

use longhaul::BuildError;
use longhaul::blob::{BlobError, Blobs, DeletedBlobs, KEY_MARKERS_NAME, KeyCheck, Keyring};

use super::StartError;
use crate::config::{Config, ServerKeySource};

/// Opens the blob store and the server keys, and checks that they match.
pub(super) async fn open(config: &Config) -> Result<(Blobs, Arc<Keyring>), StartError> {
    let location = location(&config.blobs);
    let unusable = |source: BlobError| StartError::Blobs { location: location.clone(), source };
    let blobs = Blobs::open(&config.blobs).map_err(unusable)?;
    match blobs.check().await.map_err(unusable)? {
        DeletedBlobs::Nothing => {}
        DeletedBlobs::Unknown => tracing::info!(
            location,
            "cannot detect whether the blob store keeps deleted objects; check its settings",
        ),
        DeletedBlobs::Versions => tracing::warn!(
            location,
            "the blob store keeps versions of deleted objects; they are unreadable once their keys are \
             destroyed, but use storage until its own rules remove them",
        ),
    }
    // Before the keys are opened, because a lost key file must not be replaced by a new one.
    if is_missing(&config.server_key) {
        let fit = blobs.check_keys(&Keyring::generate()).await.map_err(unusable)?;
        missing_key(fit, config, None)?;
    }
    let keyring = keyring(&config.server_key).await?;
    let fit = blobs.record_keys(&keyring).await.map_err(unusable)?;
    if let Some(newest) = missing_key(fit, config, Some(&keyring))? {
        tracing::warn!(
            location,
            newest,
            "another server encrypts payloads with a newer server key that this one does not have; \
             their jobs are left to servers with the key",
        );
    }
    Ok((blobs, Arc::new(keyring)))
}

/// Checks the configured keys against the stored data without changing anything. Returns the id of a newer
/// key that only other servers have.
pub async fn check_keys(config: &Config) -> Result<Option<String>, StartError> {
    let folder = config.blobs.strip_prefix("file:").map(Path::new);
    if folder.is_some_and(|folder| !folder.exists()) {
        return Ok(None);
    }
    let unusable = |source| StartError::Blobs { location: location(&config.blobs), source };
    let blobs = Blobs::open(&config.blobs).map_err(unusable)?;
    let keyring = existing_keyring(&config.server_key).await?;
    // A new key matches no marker.
    let fresh = Keyring::generate();
    let fit = blobs.check_keys(keyring.as_ref().unwrap_or(&fresh)).await.map_err(unusable)?;
    missing_key(fit, config, keyring.as_ref())
}

/// Returns whether the key file does not exist, because it is lost or at the first start.
fn is_missing(keys: &ServerKeySource) -> bool {
    match keys {
        ServerKeySource::Inline(_) => false,
        ServerKeySource::File(path) => matches!(path.try_exists(), Ok(false)),
    }
}

/// Opens the server keys. `None` if the key file does not exist; it is not created.
pub async fn existing_keyring(keys: &ServerKeySource) -> Result<Option<Keyring>, StartError> {
    if is_missing(keys) { Ok(None) } else { keyring(keys).await.map(Some) }
}

async fn keyring(keys: &ServerKeySource) -> Result<Keyring, StartError> {
    match keys.clone() {
        ServerKeySource::Inline(text) => Ok(Keyring::parse(text.expose())?),
        ServerKeySource::File(path) => {
            let opening = tokio::task::spawn_blocking(move || Keyring::open(&path));
            Ok(opening.await.map_err(|error| BuildError::Thread(error.into()))??)
        }
    }
}

/// Returns the id of the newest key if the server does not have it, or an error if no key matches. `None`
/// stands for a missing key file.
fn missing_key(
    fit: KeyCheck,
    config: &Config,
    keyring: Option<&Keyring>,
) -> Result<Option<String>, StartError> {
    let newest = match fit {
        KeyCheck::Unmarked | KeyCheck::Fitting => return Ok(None),
        KeyCheck::Behind { newest } => return Ok(Some(newest)),
        KeyCheck::Foreign { newest } => newest,
    };
    let from = match &config.server_key {
        ServerKeySource::File(path) => format!("the key file {}", path.display()),
        ServerKeySource::Inline(_) => "the configuration (server_key)".to_owned(),
    };
    let found = match keyring {
        None => format!("{from} does not exist"),
        Some(keyring) => {
            let ids: Vec<_> = keyring.ids().map(|id| format!("{id:?}")).collect();
            format!("{from} has only {}", ids.join(", "))
        }
    };
    let location = location(&config.blobs);
    let folder = location.strip_prefix("file:").unwrap_or(&location);
    let markers = format!("{}/{KEY_MARKERS_NAME}", folder.trim_end_matches('/'));
    Err(StartError::ForeignKeys { newest, found, markers, location })
}

/// Returns the URL without credentials and options.
fn location(address: &str) -> String {
    let plain = address.split(['?', '#']).next().unwrap_or_default();
    match plain.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
        }
        None => plain.to_owned(),
    }
}
