//! The blob store interface.

use std::ops::Range;
use std::sync::Arc;

use futures_util::{Stream, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use super::cipher::random;
use super::encryption::Sealer;
use super::error::BlobError;
use super::key_markers::{self, KeyCheck};
use super::keys::{JobKey, Keyring};
use super::local;
use super::location::{self, Backend, CloudOptions, OpenedStore, VersionInfo};
use super::path::BlobPath;
use super::reader::{self, BlobStream};
use super::upload::ObjectUpload;
use super::writer::BlobWriter;
use crate::job::{JobId, TenantId, Timestamp};

/// Content of the blob that [`Blobs::check`] writes.
const PROBE: &str = "longhaul was here";

/// A store of encrypted blobs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    opened: Arc<OpenedStore>,
}

/// Remains of deleted blobs in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedBlobs {
    /// Nothing.
    Nothing,
    /// Old versions, until the operator or a lifecycle rule deletes them. They are unreadable
    /// without the job's key.
    Versions,
    /// Unknown: Google never reports it, and Azure does not report soft deletion, which retains
    /// blobs for some days. Check the store's settings.
    Unknown,
}

impl Blobs {
    /// Opens a store, without a request to it; see [`Blobs::check`].
    ///
    /// | address | location of the blobs |
    /// | --- | --- |
    /// | `file:PATH` | a local directory, which is created if it does not exist |
    /// | `memory:` | this process |
    /// | `s3://BUCKET/PREFIX?region=…&endpoint=…` | Amazon S3, or a compatible store |
    /// | `az://CONTAINER/PREFIX?account=…&endpoint=…` | Azure Blob Storage |
    /// | `gs://BUCKET/PREFIX?endpoint=…` | Google Cloud Storage |
    ///
    /// All parameters are optional. An endpoint without TLS needs `allow_http=true`. Credentials
    /// come from the environment: `AWS_…`, `AZURE_…`, `GOOGLE_…`. Configure a lifecycle rule for the
    /// bucket that aborts incomplete multipart uploads after a day, because those of a killed
    /// process remain otherwise.
    pub fn open(address: &str) -> Result<Self, BlobError> {
        Self::open_with(address, &CloudOptions::default())
    }

    /// Creates an empty store in this process's memory.
    pub fn memory() -> Self {
        Self { opened: Arc::new(OpenedStore::memory()) }
    }

    /// Opens a store with other timeouts or variables.
    pub fn open_with(address: &str, options: &CloudOptions) -> Result<Self, BlobError> {
        Ok(Self { opened: Arc::new(location::open(address, options)?) })
    }

    /// Starts a blob. It is not readable before it is finished.
    pub fn writer(&self, path: &BlobPath, key: &JobKey) -> BlobWriter {
        let upload = ObjectUpload::new(self.store(), object_path(path), self.opened.parts);
        BlobWriter::new(Sealer::new(key, path, random()), upload)
    }

    /// Reads a blob of `size` bytes, or a range of it, clamped to its end. Every byte is
    /// authenticated; a blob of another size counts as damaged.
    pub async fn read(
        &self,
        path: &BlobPath,
        key: &JobKey,
        size: u64,
        range: Option<Range<u64>>,
    ) -> Result<BlobStream, BlobError> {
        reader::open(self.store(), path, object_path(path), key, size, range).await
    }

    /// Deletes a blob. Succeeds if it does not exist.
    pub async fn delete(&self, path: &BlobPath) -> Result<(), BlobError> {
        match self.opened.store.delete(&object_path(path)).await.map_err(BlobError::from) {
            Ok(()) | Err(BlobError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lists all blobs with their modification times, in no particular order. Objects with other
    /// names are skipped.
    pub fn list(
        &self,
    ) -> impl Stream<Item = Result<(BlobPath, Timestamp), BlobError>> + Send + use<> {
        self.opened.store.list(None).map_err(BlobError::from).try_filter_map(|object| async move {
            let written_at = Timestamp::from_millis(object.last_modified.timestamp_millis());
            Ok(object.location.as_ref().parse().ok().map(|path| (path, written_at)))
        })
    }

    /// Deletes unfinished blobs of killed processes that have not grown since `before`, and returns
    /// their number. Only a directory has such files; in the cloud use a lifecycle rule.
    pub async fn sweep_unfinished(&self, before: Timestamp) -> Result<u64, BlobError> {
        let Backend::Folder(folder) = self.opened.backend.clone() else { return Ok(0) };
        let sweep = move || local::sweep_unfinished(&folder, before.into());
        let swept = tokio::task::spawn_blocking(sweep);
        swept.await.map_err(|_| BlobError::Unavailable("the process is stopping".to_owned()))?
    }

    /// Writes, reads and deletes a blob, to check the configuration at start.
    pub async fn check(&self) -> Result<DeletedBlobs, BlobError> {
        // No job has this id: a blob that is left is collected as an orphan.
        let no_job = JobId::from_parts(Timestamp::from_millis(0), 0);
        let (path, key) = (BlobPath::new(&TenantId::default(), no_job), JobKey::generate());
        let mut writer = self.writer(&path, &key);
        writer.write(PROBE.into()).await?;
        let (written, version) = writer.finish_with_version().await?;
        let stream = self.read(&path, &key, written.size, None).await?;
        let pieces: Vec<_> = stream.try_collect().await?;
        self.delete(&path).await?;
        if pieces.concat() != PROBE.as_bytes() {
            return Err(BlobError::Damaged(
                "it reads as something else than was written".to_owned(),
            ));
        }
        // S3's version after versioning was suspended.
        let has_version = version.is_some_and(|version| version != "null");
        Ok(match self.opened.backend {
            Backend::Cloud(VersionInfo::Everything | VersionInfo::Versions) if has_version => {
                DeletedBlobs::Versions
            }
            Backend::Cloud(VersionInfo::Versions | VersionInfo::Nothing) => DeletedBlobs::Unknown,
            Backend::Cloud(VersionInfo::Everything) | Backend::Folder(_) | Backend::Memory => {
                DeletedBlobs::Nothing
            }
        })
    }

    /// Compares the server's keys with those that the blobs were encrypted with. Changes nothing.
    pub async fn check_keys(&self, keyring: &Keyring) -> Result<KeyCheck, BlobError> {
        key_markers::check(&*self.opened.store, keyring).await
    }

    /// Like [`Blobs::check_keys`], for a server that is about to use the store: records its current
    /// key in the object [`KEY_MARKERS_NAME`](super::KEY_MARKERS_NAME), unless its keys are
    /// foreign.
    pub async fn record_keys(&self, keyring: &Keyring) -> Result<KeyCheck, BlobError> {
        key_markers::record(&*self.opened.store, keyring).await
    }

    fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.opened.store)
    }
}

fn object_path(path: &BlobPath) -> Path {
    Path::from(path.to_string())
}

#[cfg(test)]
mod tests;
