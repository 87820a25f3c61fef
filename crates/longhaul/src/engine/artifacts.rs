//! What was stored for a job: its artifacts, to be read, and its receipt.

use std::ops::Range;
use std::sync::Arc;

use super::Engine;
use super::payload_store::{EncryptedBlobError, EncryptedBlobs};
use crate::blob::{BlobError, BlobStream, KeyError};
use crate::job::{JobId, TenantId, Timestamp};
use crate::store::{Blob, BlobRole, StoreError};

/// An artifact of a job.
pub struct StoredArtifact {
    encrypted_blobs: Arc<EncryptedBlobs>,
    tenant: TenantId,
    id: JobId,
    blob: Blob,
}

/// Why an artifact cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The job has no artifact of this name.
    #[error("the job has no artifact {name:?}")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Its key cannot be opened.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The blob store does not have it, or does not answer.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// There is no such job, or the store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was stored for a job, and when it was gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The job.
    pub job: JobId,
    /// Whether it was deleted itself.
    pub gone: bool,
    /// All that was stored, in the order in which it was.
    pub blobs: Vec<Blob>,
    /// As of when this is true.
    pub at: Timestamp,
}

impl Engine {
    /// An artifact of a job.
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

    /// What was stored for a job, and what became of it: also of one that was deleted, for as long as
    /// that is remembered.
    pub async fn receipt(&self, id: JobId) -> Result<Receipt, StoreError> {
        let gone = match self.shared.store.job(&self.tenant, id).await {
            Ok(_) => false,
            Err(StoreError::Gone) => true,
            Err(error) => return Err(error),
        };
        let blobs = self.shared.store.blobs(&self.tenant, id).await?;
        Ok(Receipt { job: id, gone, blobs, at: self.shared.store.now() })
    }
}

impl StoredArtifact {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.blob.size
    }

    /// What it is, as its job said.
    pub fn content_type(&self) -> &str {
        &self.blob.content_type
    }

    /// SHA-256 of its bytes.
    pub fn digest(&self) -> [u8; 32] {
        self.blob.digest.unwrap_or_default()
    }

    /// Its bytes, or a part of them, piece by piece.
    pub async fn read(&self, range: Option<Range<u64>>) -> Result<BlobStream, ArtifactError> {
        let read = self.encrypted_blobs.read(&self.tenant, self.id, &self.blob, range).await;
        read.map_err(|error| match error {
            EncryptedBlobError::Destroyed => ArtifactError::Blob(BlobError::Missing),
            EncryptedBlobError::Key(error) => ArtifactError::Key(error),
            EncryptedBlobError::Blob(error) => ArtifactError::Blob(error),
        })
    }
}
