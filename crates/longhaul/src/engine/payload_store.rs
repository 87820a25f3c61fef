//! Encrypted storage of payloads and artifacts.

use std::sync::Arc;
use std::time::Duration;

use super::EngineBuilder;
use crate::blob::{
    BlobError, BlobPath, BlobStream, BlobWriter, Blobs, JobKey, KeyError, Keyring, WrittenBlob,
};
use crate::job::{JobId, TenantId};
use crate::setters::setters;
use crate::store::{Blob, NewBlob, WrappedKey};

/// A blob store with the keyring that encrypts the blobs' keys.
#[derive(Debug)]
pub(crate) struct EncryptedBlobs {
    pub(crate) blobs: Blobs,
    keyring: Arc<Keyring>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EncryptedBlobError {
    /// The key was destroyed, or the blob deleted.
    #[error("the blob was deleted")]
    Destroyed,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// A blob that is being uploaded, with its record for the store.
pub(crate) struct BlobUpload {
    path: BlobPath,
    key: WrappedKey,
    pub(crate) writer: BlobWriter,
    pub(crate) name: String,
    pub(crate) content_type: String,
}

impl EngineBuilder {
    setters! {
        /// Stores payloads and artifacts in `blobs`. Each is encrypted with its own key, which is
        /// encrypted with the keyring's current key. An in-memory engine has an in-memory blob
        /// store by default; others have none.
        ///
        /// ```no_run
        /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
        /// use longhaul::Engine;
        /// use longhaul::blob::{Blobs, Keyring};
        ///
        /// // Created if it does not exist. Keep a copy: without it no blob can be read.
        /// let keyring = Keyring::open("keys".as_ref())?;
        /// let builder = Engine::builder().sqlite("jobs.db").blobs(Blobs::open("file:blobs")?, keyring);
        /// # Ok(()) }
        /// ```
        blobs(blobs: Blobs, keyring: impl Into<Arc<Keyring>>) {
            encrypted_blobs = Some(EncryptedBlobs { blobs, keyring: keyring.into() })
        }

        /// Sets how long a payload waits for its job to be claimed before the job fails. Defaults
        /// to one hour.
        payload_retention(kept: Duration) { payload_retention = kept }
    }
}

impl EncryptedBlobs {
    /// Creates a store in memory, with a random key.
    #[expect(clippy::unnecessary_wraps, reason = "builds without blobs have none")]
    pub(crate) fn memory() -> Option<Self> {
        Some(Self { blobs: Blobs::memory(), keyring: Keyring::generate().into() })
    }

    /// Starts an upload for a job, encrypted with a new key.
    pub(crate) fn begin(
        &self,
        tenant: &TenantId,
        job: JobId,
        name: String,
        content_type: String,
    ) -> BlobUpload {
        let path = BlobPath::new(tenant, job);
        let key = JobKey::generate();
        let wrapped = WrappedKey(self.keyring.wrap(&key, &context(tenant, job, &path.to_string())));
        let writer = self.blobs.writer(&path, &key);
        BlobUpload { path, key: wrapped, writer, name, content_type }
    }

    pub(crate) async fn read(
        &self,
        tenant: &TenantId,
        job: JobId,
        blob: &Blob,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<BlobStream, EncryptedBlobError> {
        let wrapped = blob.key.as_ref().ok_or(EncryptedBlobError::Destroyed)?;
        let key = self.keyring.unwrap(&wrapped.0, &context(tenant, job, &blob.path))?;
        let path: BlobPath = blob.path.parse().map_err(|_| BlobError::Missing)?;
        Ok(self.blobs.read(&path, &key, blob.size, range).await?)
    }

    /// Deletes unneeded blobs. The blob garbage collector finds those that remain as orphans.
    pub(crate) async fn delete_all(&self, unneeded: Vec<NewBlob>) {
        for path in unneeded.iter().filter_map(|blob| blob.path.parse().ok()) {
            if let Err(error) = self.blobs.delete(&path).await {
                tracing::warn!(%error, "cannot delete an unneeded blob");
            }
        }
    }
}

/// Returns the additional data that binds a key to one blob.
fn context(tenant: &TenantId, job: JobId, path: &str) -> Vec<u8> {
    format!("{tenant}\n{job}\n{path}").into_bytes()
}

impl BlobUpload {
    /// Completes the upload and returns the blob's record for the store.
    pub(crate) async fn finish(self, replica: String) -> Result<NewBlob, BlobError> {
        let Self { path, key, writer, name, content_type } = self;
        let WrittenBlob { size, digest } = writer.finish().await?;
        Ok(NewBlob { path: path.to_string(), name, content_type, size, digest, key, replica })
    }
}
