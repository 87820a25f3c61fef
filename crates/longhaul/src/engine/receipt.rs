//! Receipts: what was stored for a job, and when it was deleted.

use super::Engine;
use crate::job::{JobId, Timestamp};
use crate::store::{Blob, StoreError};

/// Proof of what was stored for a job and when it was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The job's id.
    pub job: JobId,
    /// True if the job itself was deleted.
    pub gone: bool,
    /// Payload, artifacts and working directories, in the order in which they were stored.
    pub blobs: Vec<Blob>,
    /// Time of this receipt.
    pub at: Timestamp,
}

impl Engine {
    /// Returns the job's receipt. Also works for a deleted job, as long as its tombstone exists.
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
