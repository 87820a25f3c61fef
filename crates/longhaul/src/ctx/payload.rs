//! What was uploaded with a job, for its handler.

use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt;

use super::Ctx;
use crate::blob::{BlobError, BlobStream, KeyError};
use crate::engine::payload_store::EncryptedBlobError;
use crate::failpoint::{self, Failpoint};
use crate::job::JobError;
use crate::store::{Blob, BlobRef, BlobRole, Deletion};

/// What the file is called that a payload is written to.
const FILE: &str = "payload";

/// A job's payload.
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
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.blob.size
    }

    /// What the uploader says that it is.
    pub fn content_type(&self) -> &str {
        &self.blob.content_type
    }

    /// What the uploader calls it. Not a path: it may hold anything.
    pub fn name(&self) -> &str {
        &self.blob.name
    }

    /// SHA-256 of its bytes.
    pub fn digest(&self) -> [u8; 32] {
        self.blob.digest.unwrap_or_default()
    }

    /// Its bytes, piece by piece, each one checked before it is handed out.
    pub async fn read(&self) -> Result<BlobStream, JobError> {
        let encrypted_blobs = self.ctx.encrypted_blobs()?;
        let job = self.ctx.job();
        encrypted_blobs
            .read(&job.tenant, job.id, &self.blob, None)
            .await
            .map_err(|error| unreadable(&error))
    }

    /// Writes it to a file in this attempt's own [folder](Ctx::folder).
    pub async fn file(&self) -> Result<PathBuf, JobError> {
        let folder = self.ctx.folder().await?;
        self.file_in(&folder).await
    }

    /// Writes it to a file in this folder, which is the attempt's own and is deleted, with all that is in
    /// it, when the attempt ends. The job's receipt says so.
    pub async fn file_in(&self, folder: &Path) -> Result<PathBuf, JobError> {
        self.ctx.record_work_dir(folder).await?;
        let mut bytes = self.read().await?;
        let path = folder.join(FILE);
        let mut options = tokio::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        options.mode(0o600);
        let mut file = options.open(&path).await.map_err(|error| cannot_write(&error))?;
        while let Some(piece) = next(&mut bytes).await {
            let piece = piece.map_err(|error| unreadable(&error.into()))?;
            file.write_all(&piece).await.map_err(|error| cannot_write(&error))?;
            failpoint::reach(Failpoint::PayloadPartlyDecrypted).await;
        }
        file.flush().await.map_err(|error| cannot_write(&error))?;
        failpoint::reach(Failpoint::PayloadDecrypted).await;
        Ok(path)
    }
}

async fn next(bytes: &mut BlobStream) -> Option<Result<bytes::Bytes, BlobError>> {
    futures_util::StreamExt::next(bytes).await
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
        // Another replica may have the key: the payload must not go because this one was set up wrongly.
        EncryptedBlobError::Key(KeyError::Unknown { .. }) => ("payload-unreadable", true),
        EncryptedBlobError::Key(_) => ("payload-unreadable", false),
    };
    JobError::new(code, format!("the payload cannot be read: {error}"), retryable)
}

impl Ctx {
    /// What was uploaded with the job. An error that fails the job if nothing was.
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

    /// A folder of this attempt's own, readable by nobody else. It is deleted, with all that is in it, when
    /// the attempt ends.
    pub async fn folder(&self) -> Result<PathBuf, JobError> {
        let root = &self.shared().work_root;
        let name = format!("{}-{}-{:08x}", self.id(), self.attempt(), rand::random::<u32>());
        let path = root.join(name);
        let made = path.clone();
        let making = tokio::task::spawn_blocking(move || make_private(&made));
        let made = making.await.map_err(std::io::Error::from).and_then(|made| made);
        made.map_err(|error| {
            let path = path.display();
            JobError::retryable(format!("cannot make the working folder {path}: {error}"))
        })?;
        // Now that it is there: one on record that is not there would be taken for deleted.
        self.record_work_dir(&path).await?;
        Ok(path)
    }

    /// Puts a folder on record, so that it is known to be deleted when this attempt ends.
    async fn record_work_dir(&self, path: &Path) -> Result<(), JobError> {
        if !self.artifacts().folders.iter().any(|known| known == path) {
            self.artifacts().folders.push(path.to_owned());
        }
        if !self.job().has_payload {
            return Ok(());
        }
        failpoint::reach(Failpoint::WorkDirCreated).await;
        let (shared, on_host) = (self.shared(), on_this_host(path));
        self.retry_until_lease_lost(|| {
            shared.store.record_work_dir(self.lease(), &on_host, &shared.replica)
        })
        .await?;
        failpoint::reach(Failpoint::WorkDirRecorded).await;
        Ok(())
    }

    /// Deletes the attempt's folders, and says so.
    pub(crate) async fn clear_folders(&self) {
        let folders = std::mem::take(&mut self.artifacts().folders);
        let mut deletions = Vec::new();
        for path in folders {
            let (tenant, job) = (self.job().tenant.clone(), self.id());
            let blob = BlobRef { tenant, job, path: on_this_host(&path) };
            let removing = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path));
            match removing.await.map_err(std::io::Error::from).and_then(|removed| removed) {
                Ok(()) => deletions.push(Deletion { blob, failure: None }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    deletions.push(Deletion { blob, failure: None });
                }
                Err(error) => {
                    tracing::error!(%error, job.id = %self.id(), "cannot delete a job's folder");
                }
            }
        }
        failpoint::reach(Failpoint::WorkDirDeleted).await;
        if self.job().has_payload
            && !deletions.is_empty()
            && let Err(error) =
                self.shared().store.record_deletions(deletions, &self.shared().replica).await
        {
            tracing::warn!(%error, job.id = %self.id(), "cannot record that a folder is gone");
        }
    }
}

/// A folder's path as the record has it: other hosts have such a path too.
pub(crate) fn on_this_host(path: &Path) -> String {
    format!("{}:{}", host(), path.display())
}

/// This machine's name.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn make_private(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
