//! Writing artifacts.

use bytes::Bytes;

use super::Ctx;
use crate::blob::BlobError;
use crate::engine::payload_store::{BlobUpload, EncryptedBlobs};
use crate::failpoint::{self, Failpoint};
use crate::job::{JobError, check_limit};

const NAME_CHARS_MAX: usize = 255;

/// Writes one artifact. Dropping it before [`finish`](Self::finish) deletes it.
pub struct ArtifactWriter {
    ctx: Ctx,
    upload: BlobUpload,
    bytes: u64,
}

impl ArtifactWriter {
    /// Encrypts and uploads more bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), JobError> {
        self.bytes += bytes.len() as u64;
        let max = self.ctx.shared().limits.payload_bytes_max;
        check_limit("an artifact in bytes", "payload_bytes_max", &self.bytes, &max)
            .map_err(JobError::over_limit)?;
        self.upload.writer.write(bytes).await.map_err(|error| cannot_store(&error))?;
        failpoint::reach(Failpoint::ArtifactStarted).await;
        Ok(())
    }

    /// Waits until the artifact is stored. It becomes visible when the job completes.
    pub async fn finish(self) -> Result<(), JobError> {
        let Self { ctx, upload, .. } = self;
        let finished = upload.finish(ctx.shared().replica.clone()).await;
        let blob = finished.map_err(|error| cannot_store(&error))?;
        failpoint::reach(Failpoint::ArtifactStored).await;
        let replaced = {
            let artifacts = &mut ctx.outputs().artifacts;
            let replaced = artifacts.extract_if(.., |known| known.name == blob.name).collect();
            artifacts.push(blob);
            replaced
        };
        ctx.delete_artifacts(replaced).await;
        Ok(())
    }
}

impl Ctx {
    /// Creates an artifact. The name is a file name without directories; a second artifact of the
    /// same name replaces the first.
    pub fn artifact(
        &self,
        name: impl Into<String>,
        content_type: impl Into<String>,
    ) -> Result<ArtifactWriter, JobError> {
        let (name, content_type) = (name.into(), content_type.into());
        check_name(&name)?;
        let max = self.shared().limits.artifacts_max;
        let count = self.outputs().artifacts.len() + 1;
        check_limit("the number of artifacts", "artifacts_max", &count, &max)
            .map_err(JobError::over_limit)?;
        let job = self.job();
        let upload = self.encrypted_blobs()?.begin(&job.tenant, job.id, name, content_type);
        Ok(ArtifactWriter { ctx: self.clone(), upload, bytes: 0 })
    }

    pub(super) fn encrypted_blobs(&self) -> Result<&EncryptedBlobs, JobError> {
        let encrypted_blobs = self.shared().encrypted_blobs.as_deref();
        encrypted_blobs.ok_or_else(|| {
            JobError::fatal("this replica has no blob store").with_code("blob-store")
        })
    }
}

fn check_name(name: &str) -> Result<(), JobError> {
    let is_a_file_name = !name.is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.contains(['/', '\\'])
        && !name.chars().any(char::is_control)
        && name != "."
        && name != "..";
    if is_a_file_name {
        return Ok(());
    }
    let why =
        format!("an artifact's name is a file name of up to {NAME_CHARS_MAX} characters: {name:?}");
    Err(JobError::fatal(why).with_code("artifact-name"))
}

fn cannot_store(error: &BlobError) -> JobError {
    let retryable = error.is_transient();
    JobError::new("blob-store", format!("an artifact cannot be stored: {error}"), retryable)
}
