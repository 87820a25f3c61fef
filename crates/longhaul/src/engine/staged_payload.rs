//! Payloads that are stored before their job is submitted.

use std::sync::Arc;

use super::EncryptedBlobs;
use crate::job::{JobId, TenantId};
use crate::store::{NewBlob, StoreError, SubmitResult};

/// A stored payload that belongs to no job yet. Dropping it deletes it.
#[derive(Debug)]
pub struct StagedPayload {
    pub(super) id: JobId,
    pub(super) tenant: TenantId,
    pub(super) blob: NewBlob,
    /// `None` once a job refers to the blob, or may refer to it.
    pub(super) delete_from: Option<Arc<EncryptedBlobs>>,
}

impl StagedPayload {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.blob.size
    }

    /// Returns the SHA-256 digest of the content.
    pub fn digest(&self) -> &[u8; 32] {
        &self.blob.digest
    }

    /// Keeps the blob if a job may refer to it, and deletes it otherwise.
    pub(super) fn settle(mut self, result: &Result<SubmitResult, StoreError>) {
        let may_be_kept = match result {
            Ok(submitted) => submitted.created,
            Err(error) => matches!(error, StoreError::Unavailable(_) | StoreError::Broken(_)),
        };
        if may_be_kept {
            self.delete_from = None;
        }
    }
}

impl Drop for StagedPayload {
    fn drop(&mut self) {
        // Outside of a runtime, deletion is left to the blob garbage collector.
        if let Some(blobs) = self.delete_from.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let blob = self.blob.clone();
            runtime.spawn(async move { blobs.delete_all(vec![blob]).await });
        }
    }
}
