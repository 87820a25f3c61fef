//! A store of blobs, as its users hold it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

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
use super::upload::Upload;
use super::writer::BlobWriter;
use crate::job::{JobId, TenantId, Timestamp};

/// What [`Blobs::check`] writes.
const PROBE: &str = "longhaul was here";

/// Where blobs are kept. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Blobs {
    opened: Arc<OpenedStore>,
}

/// What a store keeps of a blob that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedBlobs {
    /// Nothing.
    Nothing,
    /// An older version, until somebody or a rule of the store's deletes that too. Without the job's
    /// key it cannot be read.
    Versions,
    /// The store does not tell: Google's never, and Azure's not whether its soft delete is on, which
    /// keeps what is deleted for some days. Its settings do.
    Unknown,
}

impl Blobs {
    /// Opens a store without asking it anything; [`Blobs::check`] does.
    ///
    /// | address | blobs are kept |
    /// | --- | --- |
    /// | `file:PATH` | in a folder, which is made if it is not there |
    /// | `memory:` | in this process |
    /// | `s3://BUCKET/PREFIX?region=…&endpoint=…` | in S3, or what speaks like it |
    /// | `az://CONTAINER/PREFIX?account=…&endpoint=…` | in Azure Blob Storage |
    /// | `gs://BUCKET/PREFIX?endpoint=…` | in Google Cloud Storage |
    ///
    /// All that follows the `?` may be left out. An endpoint without TLS needs `allow_http=true`.
    /// Credentials come from the environment: `AWS_…`, `AZURE_…`, `GOOGLE_…`. Give a bucket a rule
    /// that ends uploads of several parts that were begun a day ago: those of a process that was
    /// killed stay there otherwise.
    pub fn open(address: &str) -> Result<Self, BlobError> {
        Self::open_with(address, &CloudOptions::default())
    }

    /// Opens a store that is spoken to in another way.
    pub fn open_with(address: &str, options: &CloudOptions) -> Result<Self, BlobError> {
        Ok(Self { opened: Arc::new(location::open(address, options)?) })
    }

    /// Begins a blob. Nobody can read it before it is finished.
    pub fn writer(&self, path: &BlobPath, key: &JobKey) -> BlobWriter {
        let upload = Upload::new(self.store(), object_path(path), self.opened.parts);
        BlobWriter::new(Sealer::new(key, path, random()), upload)
    }

    /// Reads a blob that is `size` bytes large, or a range of it, cut off at its end. Every byte that
    /// comes is proven to be the one that was written; a blob of another size is damaged.
    pub async fn read(
        &self,
        path: &BlobPath,
        key: &JobKey,
        size: u64,
        range: Option<Range<u64>>,
    ) -> Result<BlobStream, BlobError> {
        reader::open(self.store(), path, object_path(path), key, size, range).await
    }

    /// Deletes a blob. One that is not there is as good as deleted.
    pub async fn delete(&self, path: &BlobPath) -> Result<(), BlobError> {
        match self.opened.store.delete(&object_path(path)).await.map_err(BlobError::from) {
            Ok(()) | Err(BlobError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All blobs, in no order, and when each was written. What has another kind of name is not ours.
    pub fn list(
        &self,
    ) -> impl Stream<Item = Result<(BlobPath, Timestamp), BlobError>> + Send + use<> {
        self.opened.store.list(None).map_err(BlobError::from).try_filter_map(|object| async move {
            let written_at = Timestamp::from_millis(object.last_modified.timestamp_millis());
            Ok(object.location.as_ref().parse().ok().map(|path| (path, written_at)))
        })
    }

    /// Deletes what processes that were killed left of unfinished blobs, if it has not grown since
    /// `before`: how many that were. Only a folder has such files; a cloud has rules for them.
    pub async fn sweep_unfinished(&self, before: Timestamp) -> Result<u64, BlobError> {
        let Backend::Folder(folder) = self.opened.backend.clone() else { return Ok(0) };
        let millis = u64::try_from(before.as_millis()).unwrap_or(0);
        let before = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let swept = tokio::task::spawn_blocking(move || local::sweep_unfinished(&folder, before));
        swept.await.map_err(|_| BlobError::Unavailable("the process is stopping".to_owned()))?
    }

    /// Writes, reads and deletes a blob, to find out at the start whether all of that works.
    pub async fn check(&self) -> Result<DeletedBlobs, BlobError> {
        // No job has this id: whatever is left of a check is an orphan and goes with the others.
        let nobody = JobId::from_parts(Timestamp::from_millis(0), 0);
        let (path, key) = (BlobPath::new(&TenantId::default(), nobody), JobKey::generate());
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
        // What S3 says once versions are no longer kept.
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

    /// How a server's keys fit what is stored here. Changes nothing.
    pub async fn check_keys(&self, keyring: &Keyring) -> Result<KeyCheck, BlobError> {
        key_markers::check(&*self.opened.store, keyring).await
    }

    /// As [`Blobs::check_keys`], for a server that is about to use the store: notes its current key, in an
    /// object of the name [`KEY_MARKERS_NAME`](super::KEY_MARKERS_NAME), unless its keys are foreign.
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
