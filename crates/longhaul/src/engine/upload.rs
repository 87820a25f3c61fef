//! Uploading a payload before its job is submitted.

use std::sync::Arc;

use bytes::Bytes;

use super::payload_store::{BlobUpload, EncryptedBlobs};
use super::{Engine, EngineState, StagedPayload, Submission};
use crate::blob::BlobError;
use crate::failpoint::{self, Failpoint};
use crate::job::{JobId, LimitError, Limits, TenantId, check_limit};
use crate::setters::setters;
use crate::store::StoreError;

const PAYLOAD: &str = "payload";
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
#[must_use = "an upload has no effect until its payload is attached to a submission"]
pub struct Upload {
    shared: Arc<EngineState>,
    encrypted_blobs: Arc<EncryptedBlobs>,
    tenant: TenantId,
    id: JobId,
    blob: BlobUpload,
    bytes: u64,
    limits: Limits,
    /// Bytes that the tenant may still store.
    room: u64,
}

/// Reasons why a payload cannot be uploaded. Nothing of it remains stored.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The engine has no blob store.
    #[error("this engine has no blob store: payloads cannot be uploaded")]
    NoBlobStore,
    /// The payload exceeds [`Limits::payload_bytes_max`].
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The tenant has used up its storage quota. Try again once some jobs have finished.
    #[error("the tenant has reached its storage quota of {max} bytes")]
    TenantFull {
        /// The quota in bytes.
        max: u64,
    },
    /// The blob store rejected the payload, or is not available.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The store is not available.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Starts the upload of a payload for a job that is submitted afterwards.
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
            blob: encrypted_blobs.begin(&self.tenant, id, PAYLOAD.to_owned(), BYTES.to_owned()),
            shared,
            encrypted_blobs,
            tenant: self.tenant.clone(),
            id,
            bytes: 0,
            limits: *self.limits(),
            room,
        })
    }
}

impl<T> Submission<T> {
    setters! {
        /// Attaches a payload that was uploaded with [`Engine::upload`] for the same tenant.
        payload(payload: StagedPayload) { payload = Some(payload) }
    }
}

impl Upload {
    setters! {
        /// Sets the name that the job's receipt shows. Defaults to `payload`.
        name(name: impl Into<String>) { blob.name = name.into() }

        /// Sets the media type. Defaults to `application/octet-stream`.
        content_type(content_type: impl Into<String>) { blob.content_type = content_type.into() }
    }

    /// Checks a size before its bytes are sent, for callers that know it in advance.
    pub fn check(&self, bytes: u64) -> Result<(), UploadError> {
        let max = self.limits.payload_bytes_max;
        check_limit("the payload in bytes", "payload_bytes_max", &bytes, &max)?;
        if bytes > self.room {
            let max = self.limits.payload_bytes_per_tenant_max;
            return Err(UploadError::TenantFull { max });
        }
        Ok(())
    }

    /// Hashes, encrypts and uploads more bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), UploadError> {
        self.bytes += bytes.len() as u64;
        self.check(self.bytes)?;
        self.blob.writer.write(bytes).await?;
        failpoint::reach(Failpoint::UploadStarted).await;
        Ok(())
    }

    /// Waits until the whole payload is stored.
    pub async fn finish(self) -> Result<StagedPayload, UploadError> {
        let Self { shared, encrypted_blobs, tenant, id, blob: upload, .. } = self;
        failpoint::reach(Failpoint::UploadSent).await;
        let blob = upload.finish(shared.replica.clone()).await?;
        failpoint::reach(Failpoint::UploadStored).await;
        Ok(StagedPayload { id, tenant, blob, delete_from: Some(encrypted_blobs) })
    }

    /// Cancels the upload and deletes what was sent.
    pub async fn abort(self) {
        if let Err(error) = self.blob.writer.abort().await {
            tracing::warn!(%error, "cannot abort an upload");
        }
    }
}
