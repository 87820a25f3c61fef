//! Where payloads and artifacts are kept, found to work before the first one comes, with the keys that
//! open what is there.

use std::path::Path;
use std::sync::Arc;

use longhaul::blob::{BlobError, Blobs, DeletedBlobs, KEY_MARKERS_NAME, KeyCheck, Keyring};

use super::StartError;
use crate::config::{Config, ServerKey};

/// Opens the blob store and the server's keys.
pub(super) async fn open(config: &Config) -> Result<(Blobs, Arc<Keyring>), StartError> {
    let place = place(&config.blobs);
    let unusable = |source: BlobError| StartError::Blobs { place: place.clone(), source };
    let blobs = Blobs::open(&config.blobs).map_err(unusable)?;
    match blobs.check().await.map_err(unusable)? {
        DeletedBlobs::Nothing => {}
        DeletedBlobs::Unknown => tracing::info!(
            place,
            "the blob store does not tell whether it keeps what is deleted; its own settings do",
        ),
        DeletedBlobs::Versions => tracing::warn!(
            place,
            "the blob store keeps old versions of what is deleted; they cannot be read once their \
             keys are destroyed, but they take up room until its own rules remove them",
        ),
    }
    // Before the keys are opened: a key file that is lost must not be replaced by a fresh one.
    if is_lost(&config.server_key) {
        let fit = blobs.check_keys(&Keyring::generate()).await.map_err(unusable)?;
        missing_key(fit, config, None)?;
    }
    let keyring = keyring(&config.server_key).await?;
    let fit = blobs.record_keys(&keyring).await.map_err(unusable)?;
    if let Some(newest) = missing_key(fit, config, Some(&keyring))? {
        tracing::warn!(
            place,
            newest,
            "another server seals payloads with a newer server key that is not among this one's; they \
             are left to others until this server has it too",
        );
    }
    Ok((blobs, Arc::new(keyring)))
}

/// Whether the configured keys open what is stored where the configuration says; the id of a newer key that
/// only other servers have, if there is one. Makes and changes nothing.
pub async fn check_keys(config: &Config) -> Result<Option<String>, StartError> {
    let folder = config.blobs.strip_prefix("file:").map(Path::new);
    if folder.is_some_and(|folder| !folder.exists()) {
        return Ok(None);
    }
    let unusable = |source| StartError::Blobs { place: place(&config.blobs), source };
    let blobs = Blobs::open(&config.blobs).map_err(unusable)?;
    let keyring =
        if is_lost(&config.server_key) { None } else { Some(keyring(&config.server_key).await?) };
    // No mark opens with a fresh key.
    let fresh = Keyring::generate();
    let fit = blobs.check_keys(keyring.as_ref().unwrap_or(&fresh)).await.map_err(unusable)?;
    missing_key(fit, config, keyring.as_ref())
}

/// Whether the keys are in a file that is not there: because it is lost, or because all is new.
fn is_lost(keys: &ServerKey) -> bool {
    match keys {
        ServerKey::Inline(_) => false,
        ServerKey::File(path) => matches!(path.try_exists(), Ok(false)),
    }
}

async fn keyring(keys: &ServerKey) -> Result<Keyring, StartError> {
    match keys.clone() {
        ServerKey::Inline(text) => Ok(Keyring::parse(&text)?),
        ServerKey::File(path) => {
            let opening = tokio::task::spawn_blocking(move || Keyring::open(&path));
            Ok(opening.await.map_err(|error| StartError::Engine(thread(error)))??)
        }
    }
}

/// The id of the newest key, if it is not among these; errs if none of them is any good. No keys are those
/// of a file that is not there.
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
        ServerKey::File(path) => format!("the key file {}", path.display()),
        ServerKey::Inline(_) => "the configuration (server_key)".to_owned(),
    };
    let looked = match keyring {
        None => format!("{from} is not there"),
        Some(keyring) => {
            let ids: Vec<_> = keyring.ids().map(|id| format!("{id:?}")).collect();
            format!("{from} has only {}", ids.join(", "))
        }
    };
    let place = place(&config.blobs);
    let folder = place.strip_prefix("file:").unwrap_or(&place);
    let marks = format!("{}/{KEY_MARKERS_NAME}", folder.trim_end_matches('/'));
    Err(StartError::ForeignKeys { newest, looked, marks, place })
}

fn thread(error: tokio::task::JoinError) -> longhaul::BuildError {
    longhaul::BuildError::Thread(error.into())
}

/// An address without its options, which may hold secrets.
fn place(address: &str) -> String {
    let plain = address.split(['?', '#']).next().unwrap_or_default();
    match plain.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
        }
        None => plain.to_owned(),
    }
}
