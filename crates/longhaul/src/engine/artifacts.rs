//! Reading the artifacts of a job.

use std::ops::Range;
use std::sync::Arc;

use super::Engine;
use super::payload_store::{EncryptedBlobError, EncryptedBlobs};
use crate::blob::{BlobError, BlobStream, KeyError};
use crate::job::{JobId, TenantId};
use crate::store::{Blob, BlobRole, StoreError};

/// A stored artifact of a job.
pub struct StoredArtifact {
    encrypted_blobs: Arc<EncryptedBlobs>,
    tenant: TenantId,
    id: JobId,
    blob: Blob,
}

/// Reasons why an artifact cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The job has no artifact of this name.
    #[error("the job has no artifact {name:?}")]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The artifact's key cannot be decrypted.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The blob is missing, or the blob store is not available.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The job does not exist, or the store is not available.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Finds an artifact of a completed job by name.
    pub async fn artifact(&self, id: JobId, name: &str) -> Result<StoredArtifact, ArtifactError> {
        let job = self.shared.store.job(&self.tenant, id).await?.job;
        let unknown = || ArtifactError::Unknown { name: name.to_owned() };
        if !job.artifacts.iter().any(|artifact| artifact.name == name) {
            return Err(unknown());
        }
        let encrypted_blobs = self.shared.encrypted_blobs.clone().ok_or_else(|| {
            ArtifactError::Blob(BlobError::Refused("this replica has no blob store".to_owned()))
        })?;
        let blobs = self.shared.store.blobs(&self.tenant, id).await?;
        let mut artifacts = blobs.into_iter().filter(|blob| blob.role == BlobRole::Artifact);
        let blob = artifacts.find(|blob| blob.name == name).ok_or_else(unknown)?;
        Ok(StoredArtifact { encrypted_blobs, tenant: self.tenant.clone(), id, blob })
    }
}

impl StoredArtifact {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.blob.size
    }

    /// Returns the media type that the handler set.
    pub fn content_type(&self) -> &str {
        &self.blob.content_type
    }

    /// Returns the SHA-256 digest of the content.
    pub fn digest(&self) -> [u8; 32] {
        self.blob.digest.unwrap_or_default()
    }

    /// Streams the content, or a range of it.
    pub async fn read(&self, range: Option<Range<u64>>) -> Result<BlobStream, ArtifactError> {
        let read = self.encrypted_blobs.read(&self.tenant, self.id, &self.blob, range).await;
        read.map_err(|error| match error {
            EncryptedBlobError::Destroyed => ArtifactError::Blob(BlobError::Missing),
            EncryptedBlobError::Key(error) => ArtifactError::Key(error),
            EncryptedBlobError::Blob(error) => ArtifactError::Blob(error),
        })
    }
}
