//! Reading a job's payload.

use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;

use super::Ctx;
use crate::blob::{BlobError, BlobStream, KeyError};
use crate::engine::payload_store::EncryptedBlobError;
use crate::failpoint::{self, Failpoint};
use crate::job::JobError;
use crate::store::{Blob, BlobRole};

/// Name of the file that a payload is written to.
const FILE: &str = "payload";

/// The payload of a job.
#[derive(Clone)]
pub struct Payload {
    ctx: Ctx,
    blob: Blob,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload").field("size", &self.blob.size).finish_non_exhaustive()
    }
}

impl Payload {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.blob.size
    }

    /// Returns the media type that the uploader set.
    pub fn content_type(&self) -> &str {
        &self.blob.content_type
    }

    /// Returns the name that the uploader set. Untrusted: not a path.
    pub fn name(&self) -> &str {
        &self.blob.name
    }

    /// Returns the SHA-256 digest of the content.
    pub fn digest(&self) -> [u8; 32] {
        self.blob.digest.unwrap_or_default()
    }

    /// Streams the content. Each piece is authenticated before it is returned.
    pub async fn read(&self) -> Result<BlobStream, JobError> {
        let encrypted_blobs = self.ctx.encrypted_blobs()?;
        let job = self.ctx.job();
        encrypted_blobs
            .read(&job.tenant, job.id, &self.blob, None)
            .await
            .map_err(|error| unreadable(&error))
    }

    /// Writes the payload to a file in a new [working directory](Ctx::work_dir).
    pub async fn file(&self) -> Result<PathBuf, JobError> {
        let dir = self.ctx.work_dir().await?;
        self.file_in(&dir).await
    }

    /// Writes the payload to a file in `dir`, which must belong to this attempt. It is deleted with
    /// its content when the attempt ends, and the job's receipt records that.
    pub async fn file_in(&self, dir: &Path) -> Result<PathBuf, JobError> {
        self.ctx.record_work_dir(dir).await?;
        let mut bytes = self.read().await?;
        let path = dir.join(FILE);
        let mut options = tokio::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        options.mode(0o600);
        let mut file = options.open(&path).await.map_err(|error| cannot_write(&error))?;
        while let Some(piece) = bytes.next().await {
            let piece = piece.map_err(|error| unreadable(&error.into()))?;
            file.write_all(&piece).await.map_err(|error| cannot_write(&error))?;
            failpoint::reach(Failpoint::PayloadPartlyDecrypted).await;
        }
        file.flush().await.map_err(|error| cannot_write(&error))?;
        failpoint::reach(Failpoint::PayloadDecrypted).await;
        Ok(path)
    }
}

fn cannot_write(error: &std::io::Error) -> JobError {
    JobError::retryable(format!("cannot write the payload to a file: {error}"))
}

fn unreadable(error: &EncryptedBlobError) -> JobError {
    let (code, retryable) = match error {
        EncryptedBlobError::Blob(BlobError::Missing) | EncryptedBlobError::Destroyed => {
            ("payload-missing", false)
        }
        EncryptedBlobError::Blob(BlobError::Damaged(_)) => ("payload-damaged", false),
        EncryptedBlobError::Blob(error) => ("blob-store", error.is_transient()),
        // Another replica may have the key: a misconfigured replica must not fail the job.
        EncryptedBlobError::Key(KeyError::Unknown { .. }) => ("payload-unreadable", true),
        EncryptedBlobError::Key(_) => ("payload-unreadable", false),
    };
    JobError::new(code, format!("the payload cannot be read: {error}"), retryable)
}

impl Ctx {
    /// Returns the job's payload. The error of a job without one is fatal.
    pub async fn payload(&self) -> Result<Payload, JobError> {
        if !self.job().has_payload {
            return Err(JobError::fatal("the job has no payload").with_code("no-payload"));
        }
        let job = self.job();
        let blobs = self.shared().store.blobs(&job.tenant, job.id).await?;
        let payload = blobs.into_iter().find(|blob| blob.role == BlobRole::Payload);
        let blob =
            payload.ok_or_else(|| unreadable(&EncryptedBlobError::Blob(BlobError::Missing)))?;
        Ok(Payload { ctx: self.clone(), blob })
    }
}
