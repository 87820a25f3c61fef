//! Where payloads and artifacts are kept, found to work before the first one comes.

use std::sync::Arc;

use longhaul::blob::{BlobError, Blobs, Kept, Keyring};

use super::StartError;
use crate::config::{Config, ServerKey};

/// Opens the blob store and the server's keys.
pub(super) async fn open(config: &Config) -> Result<(Blobs, Arc<Keyring>), StartError> {
    let keyring = match config.server_key.clone() {
        ServerKey::Given(text) => Keyring::parse(&text)?,
        ServerKey::File(path) => {
            let opening = tokio::task::spawn_blocking(move || Keyring::open(&path));
            opening.await.map_err(|error| StartError::Engine(thread(error)))??
        }
    };
    let place = place(&config.blobs);
    let unusable = |source: BlobError| StartError::Blobs { place: place.clone(), source };
    let blobs = Blobs::open(&config.blobs).map_err(unusable)?;
    match blobs.check().await.map_err(unusable)? {
        Kept::Nothing => {}
        Kept::Unknown => tracing::info!(
            place,
            "the blob store does not tell whether it keeps what is deleted; its own settings do",
        ),
        Kept::Versions => tracing::warn!(
            place,
            "the blob store keeps old versions of what is deleted; they cannot be read once their \
             keys are destroyed, but they take up room until its own rules remove them",
        ),
    }
    Ok((blobs, Arc::new(keyring)))
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
