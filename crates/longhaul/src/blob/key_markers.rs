//! Which server keys the blobs of a store are sealed with, noted in the store itself.
//!
//! A server that has lost its keys, or was given others than its peers, could seal and open what is new,
//! and nobody would notice that the rest cannot be read. So the first server leaves a mark that only its
//! key opens, in one object beside the blobs. Every start has to open one of the marks, and adds one for
//! its current key: whoever has the key before a rotation or the one after it is at home.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode};

use super::error::BlobError;
use super::keys::{JobKey, Keyring};

/// The object with the marks. No tenant has such a name, so no blob is in its way.
pub const KEY_MARKERS_NAME: &str = "_server-keys";
/// What a mark is wrapped for.
const CONTEXT: &[u8] = b"longhaul mark v1";
/// Of one store; older ones are forgotten. A server has no more keys than that.
const MARKS_MAX: usize = 64;
/// An object that is larger is something else.
const BYTES_MAX: u64 = 64 * 1024;
/// How often the marks are written while others write them too.
const TRIES_MAX: usize = 8;
const INTRODUCTION: &str = "\
# Which server keys the blobs here are sealed with, the newest last. No server starts that has none of them.
# Delete this to let a server with other keys begin anew: what is here by then stays unreadable.
";

/// How a server's keys fit the blobs of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyCheck {
    /// Nobody has left a mark: the store is new, or from a time before there were marks.
    Unmarked,
    /// The newest mark opens.
    Fitting,
    /// An older mark opens. What other servers seal with the newest key cannot be opened here.
    Behind {
        /// The id of the newest key.
        newest: String,
    },
    /// No mark opens: these are other keys, also where one has the same id.
    Foreign {
        /// The id of the newest key.
        newest: String,
    },
}

/// The marks of a store, the newest last.
#[derive(Debug, Default)]
struct KeyMarkers(Vec<KeyMarker>);

#[derive(Debug)]
struct KeyMarker {
    key_id: String,
    wrapped: Vec<u8>,
}

/// How the keys fit what is marked. Changes nothing.
pub(super) async fn check(
    store: &dyn ObjectStore,
    keyring: &Keyring,
) -> Result<KeyCheck, BlobError> {
    Ok(read(store).await?.unwrap_or_default().fit(keyring))
}

/// As [`look`], and leaves a mark of the current key where the keys fit or nobody has left one.
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
        // Then it is looked at again: another server may have written at the same time.
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
            // Who came first is right.
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => return Ok(()),
            // Not everything that speaks like S3 can do this. Then the last one is right.
            Err(object_store::Error::NotImplemented { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    store.put(&path, marks.text().into()).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
