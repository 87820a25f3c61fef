//! A payload's way to the blob store, before its job is submitted.

use std::sync::Arc;

use bytes::Bytes;

use super::payload_store::{BlobUpload, EncryptedBlobs};
use super::{Engine, Shared};
use crate::blob::{BlobError, BlobPath};
use crate::failpoint::{self, Failpoint};
use crate::job::{JobId, LimitError, Limits, TenantId, check_limit};
use crate::store::{NewBlob, StoreError};

/// What a payload is called that nobody has named.
const PAYLOAD: &str = "payload";
/// What bytes are that nobody has described.
const BYTES: &str = "application/octet-stream";

/// A payload on its way. Dropped before it is finished, it leaves nothing behind.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul::{Ctx, Engine};
///
/// let engine = Engine::builder()
///     .kind("measure", |ctx: Ctx, _: ()| async move {
///         let payload = ctx.payload().await?;
///         Ok(payload.size())
///     })
///     .start()
///     .await?;
/// let mut upload = engine.upload().await?;
/// upload.write("hello".into()).await?;
/// let payload = upload.finish().await?;
/// let size: u64 = engine.submit_raw("measure", &()).payload(payload).await?.result_as().await?;
/// assert_eq!(size, 5);
/// # engine.stop().await; Ok(()) }
/// ```
pub struct Upload {
    shared: Arc<Shared>,
    encrypted_blobs: Arc<EncryptedBlobs>,
    tenant: TenantId,
    id: JobId,
    upload: BlobUpload,
    name: String,
    content_type: String,
    bytes: u64,
    limits: Limits,
    /// How many more bytes the tenant may store.
    room: u64,
}

/// Why a payload was not stored. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// There is no blob store.
    #[error("this engine has no blob store: payloads cannot be uploaded")]
    NoBlobStore,
    /// It is too large.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The tenant has stored as much as it may: try again once some jobs have ended.
    #[error("as many bytes are stored as allowed: {max} (payload_bytes_per_tenant_max)")]
    TenantFull {
        /// How many it may store.
        max: u64,
    },
    /// The blob store did not take it.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A payload that is stored and belongs to no job yet. Dropped, it is deleted.
#[derive(Debug)]
pub struct StagedPayload {
    pub(super) id: JobId,
    pub(super) tenant: TenantId,
    pub(super) blob: NewBlob,
    guard: Guard,
}

/// Deletes a blob when dropped, unless told to keep it.
struct Guard {
    encrypted_blobs: Arc<EncryptedBlobs>,
    path: Option<BlobPath>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Outside of a runtime it is left to the sweep of strays.
        if let Some(path) = self.path.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let encrypted_blobs = Arc::clone(&self.encrypted_blobs);
            runtime.spawn(async move { delete(&encrypted_blobs, &path).await });
        }
    }
}

/// Deletes what nobody needs. What fails is found by the sweep of strays.
pub(crate) async fn delete(encrypted_blobs: &EncryptedBlobs, path: &BlobPath) {
    if let Err(error) = encrypted_blobs.blobs.delete(path).await {
        tracing::warn!(%error, "cannot delete a blob that nobody needs");
    }
}

impl Engine {
    /// Begins to store a payload for a job that is submitted once it is there.
    pub async fn upload(&self) -> Result<Upload, UploadError> {
        let shared = Arc::clone(&self.shared);
        let encrypted_blobs = shared.encrypted_blobs.clone().ok_or(UploadError::NoBlobStore)?;
        let max = self.limits().payload_bytes_per_tenant_max;
        let room = max.saturating_sub(shared.store.blob_bytes(&self.tenant).await?);
        if room == 0 {
            return Err(UploadError::TenantFull { max });
        }
        let id = shared.new_id();
        Ok(Upload {
            upload: encrypted_blobs.begin(&self.tenant, id),
            shared,
            encrypted_blobs,
            tenant: self.tenant.clone(),
            id,
            name: PAYLOAD.to_owned(),
            content_type: BYTES.to_owned(),
            bytes: 0,
            limits: *self.limits(),
            room,
        })
    }

    /// Whether payloads can be uploaded.
    pub fn has_blob_store(&self) -> bool {
        self.shared.encrypted_blobs.is_some()
    }
}

impl Upload {
    /// What it is called, for the job's receipt.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What it is; `application/octet-stream` if nobody says.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Errs if so many bytes would be too many: for whoever knows before they come.
    pub fn check(&self, bytes: u64) -> Result<(), UploadError> {
        let max = self.limits.payload_bytes_max;
        check_limit("the payload in bytes", "payload_bytes_max", &bytes, &max)?;
        if bytes > self.room {
            let max = self.limits.payload_bytes_per_tenant_max;
            return Err(UploadError::TenantFull { max });
        }
        Ok(())
    }

    /// Adds bytes: hashed, sealed and sent on their way.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), UploadError> {
        self.bytes += bytes.len() as u64;
        self.check(self.bytes)?;
        self.upload.write(bytes).await?;
        failpoint::reach(Failpoint::UploadStarted).await;
        Ok(())
    }

    /// Waits until all of it is stored.
    pub async fn finish(self) -> Result<StagedPayload, UploadError> {
        let Self { shared, encrypted_blobs, tenant, id, upload, name, content_type, .. } = self;
        let path = upload.path.clone();
        failpoint::reach(Failpoint::UploadSent).await;
        let blob = upload.finish(name, content_type, shared.replica.clone()).await?;
        failpoint::reach(Failpoint::UploadStored).await;
        Ok(StagedPayload { id, tenant, blob, guard: Guard { encrypted_blobs, path: Some(path) } })
    }

    /// Stops, and leaves nothing behind.
    pub async fn abort(self) {
        self.upload.abort().await;
    }
}

impl StagedPayload {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.blob.size
    }

    /// SHA-256 of its bytes.
    pub fn digest(&self) -> &[u8; 32] {
        &self.blob.digest
    }

    /// Leaves it where it is: it belongs to a job, or nobody knows whether it does.
    pub(super) fn keep(mut self) {
        self.guard.path = None;
    }
}
