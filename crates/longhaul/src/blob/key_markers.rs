//! Key markers: records in a blob store which server keys its blobs are encrypted with.
//!
//! A server that lost its keys, or has other keys than its peers, could write and read new blobs
//! without noticing that older ones are unreadable. Therefore the first server stores a marker that
//! only its key can decrypt, in one object beside the blobs. Every server must decrypt one of the
//! markers when it starts, and adds one for its current key, so that both the key before and the key
//! after a rotation are accepted.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode};

use super::error::BlobError;
use super::keys::{JobKey, Keyring};

/// Name of the object with the markers. No tenant has such a name.
pub const KEY_MARKERS_NAME: &str = "_server-keys";
const CONTEXT: &[u8] = b"longhaul mark v1";
/// Maximum number of markers; older ones are removed. A keyring has no more keys.
const MARKS_MAX: usize = 64;
/// Maximum size of the object.
const BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of writes that compete with other servers.
const TRIES_MAX: usize = 8;
const INTRODUCTION: &str = "\
# Which server keys the blobs here are sealed with, the newest last. No server starts that has none of them.
# Delete this to let a server with other keys begin anew: what is here by then stays unreadable.
";

/// Result of comparing a keyring with the markers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyCheck {
    /// The store has no markers: it is new, or older than markers.
    Unmarked,
    /// The newest marker can be decrypted.
    Fitting,
    /// Only an older marker can be decrypted. Blobs that other servers encrypt with the newest key
    /// are unreadable here.
    Behind {
        /// Id of the newest key.
        newest: String,
    },
    /// No marker can be decrypted: the keys are different ones, even if ids are equal.
    Foreign {
        /// Id of the newest key.
        newest: String,
    },
}

/// The markers of a store, newest last.
#[derive(Debug, Default)]
struct KeyMarkers(Vec<KeyMarker>);

#[derive(Debug)]
struct KeyMarker {
    key_id: String,
    wrapped: Vec<u8>,
}

/// Compares the keyring with the markers. Changes nothing.
pub(super) async fn check(
    store: &dyn ObjectStore,
    keyring: &Keyring,
) -> Result<KeyCheck, BlobError> {
    Ok(read(store).await?.unwrap_or_default().fit(keyring))
}

/// Like [`check`], and adds a marker of the current key unless the keys are foreign.
pub(super) async fn record(
    store: &dyn ObjectStore,
    keyring: &Keyring,
) -> Result<KeyCheck, BlobError> {
    for _ in 0..TRIES_MAX {
        let found = read(store).await?;
        let is_new = found.is_none();
        let mut marks = found.unwrap_or_default();
        let fit = marks.fit(keyring);
        match fit {
            KeyCheck::Foreign { .. } => return Ok(fit),
            KeyCheck::Fitting | KeyCheck::Behind { .. } if marks.has(keyring.current_id()) => {
                return Ok(fit);
            }
            KeyCheck::Unmarked | KeyCheck::Fitting | KeyCheck::Behind { .. } => {}
        }
        marks.add(keyring);
        // Read again, because another server may have written at the same time.
        write(store, &marks, is_new).await?;
    }
    Err(BlobError::Unavailable("others keep changing which server keys it has".to_owned()))
}

impl KeyMarkers {
    fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let marks: Option<Vec<_>> =
            lines.filter(|line| !line.is_empty()).map(KeyMarker::parse).collect();
        marks.filter(|marks| !marks.is_empty()).map(Self)
    }

    fn text(&self) -> String {
        let lines = self.0.iter().map(|mark| {
            format!("{} {}\n", mark.key_id, BASE64_URL_SAFE_NO_PAD.encode(&mark.wrapped))
        });
        std::iter::once(INTRODUCTION.to_owned()).chain(lines).collect()
    }

    fn has(&self, key_id: &str) -> bool {
        self.0.iter().any(|mark| mark.key_id == key_id)
    }

    fn add(&mut self, keyring: &Keyring) {
        let wrapped = keyring.wrap(&JobKey::generate(), CONTEXT);
        self.0.push(KeyMarker { key_id: keyring.current_id().to_owned(), wrapped });
        let excess = self.0.len().saturating_sub(MARKS_MAX);
        self.0.drain(..excess);
    }

    fn fit(&self, keyring: &Keyring) -> KeyCheck {
        let Some(last) = self.0.last() else { return KeyCheck::Unmarked };
        let newest = last.key_id.clone();
        if last.opens(keyring) {
            return KeyCheck::Fitting;
        }
        if self.0.iter().any(|mark| mark.opens(keyring)) {
            return KeyCheck::Behind { newest };
        }
        KeyCheck::Foreign { newest }
    }
}

impl KeyMarker {
    fn parse(line: &str) -> Option<Self> {
        let (key_id, wrapped) = line.split_once(' ')?;
        let wrapped = BASE64_URL_SAFE_NO_PAD.decode(wrapped).ok()?;
        Some(Self { key_id: key_id.to_owned(), wrapped })
    }

    fn opens(&self, keyring: &Keyring) -> bool {
        keyring.unwrap(&self.wrapped, CONTEXT).is_ok()
    }
}

async fn read(store: &dyn ObjectStore) -> Result<Option<KeyMarkers>, BlobError> {
    let found = match store.get(&Path::from(KEY_MARKERS_NAME)).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let strange = || {
        let why =
            format!("{KEY_MARKERS_NAME}, which says what server keys it has, is not understood");
        BlobError::Damaged(why)
    };
    if found.meta.size > BYTES_MAX {
        return Err(strange());
    }
    let bytes = found.bytes().await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| strange())?;
    KeyMarkers::parse(text).ok_or_else(strange).map(Some)
}

async fn write(store: &dyn ObjectStore, marks: &KeyMarkers, is_new: bool) -> Result<(), BlobError> {
    let path = Path::from(KEY_MARKERS_NAME);
    if is_new {
        match store.put_opts(&path, marks.text().into(), PutMode::Create.into()).await {
            // The first writer wins.
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => return Ok(()),
            // Not every S3-compatible store supports conditional writes. Then the last writer wins.
            Err(object_store::Error::NotImplemented { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    store.put(&path, marks.text().into()).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
