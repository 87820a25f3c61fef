//! Uploading encrypted bytes with bounded memory.

use std::error::Error;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, WriteMultipart};

use super::error::BlobError;
use super::location::PartPolicy;

/// Maximum number of retries of a write whose directory is deleted concurrently.
const FOLDER_TRIES: usize = 100;

/// An object that is being written. Dropping it leaves nothing readable.
pub(super) struct ObjectUpload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    parts: PartPolicy,
    /// `None` after an error, or at the end.
    stage: Option<Stage>,
}

enum Stage {
    /// Small enough for a single request so far.
    Gathering { pieces: Vec<Bytes>, bytes: usize },
    /// Parts are being uploaded.
    Sending(WriteMultipart),
}

impl ObjectUpload {
    pub(super) fn new(store: Arc<dyn ObjectStore>, path: Path, parts: PartPolicy) -> Self {
        let stage = Stage::Gathering { pieces: Vec::new(), bytes: 0 };
        Self { store, path, parts, stage: Some(stage) }
    }

    /// Adds bytes, and waits while too many parts are in flight. No call succeeds after an error.
    pub(super) async fn put(&mut self, more: Bytes) -> Result<(), BlobError> {
        match &mut self.stage {
            Some(Stage::Gathering { pieces, bytes }) => {
                *bytes += more.len();
                pieces.push(more);
                if *bytes >= self.parts.bytes {
                    self.start_sending().await?;
                }
            }
            Some(Stage::Sending(writing)) => {
                writing.wait_for_capacity(self.parts.in_flight_max).await.map_err(of_write)?;
                writing.put(more);
            }
            None => return Err(ended()),
        }
        Ok(())
    }

    async fn start_sending(&mut self) -> Result<(), BlobError> {
        let upload = in_a_folder(|| self.store.put_multipart(&self.path)).await?;
        let mut writing = WriteMultipart::new_with_chunk_size(upload, self.parts.bytes);
        if let Some(Stage::Gathering { pieces, .. }) = self.stage.take() {
            for piece in pieces {
                writing.put(piece);
            }
        }
        self.stage = Some(Stage::Sending(writing));
        Ok(())
    }

    /// Completes the upload: only then the object is readable. Returns the version that the store
    /// assigned, if any.
    pub(super) async fn finish(mut self) -> Result<Option<String>, BlobError> {
        let put = match self.stage.take().ok_or_else(ended)? {
            Stage::Gathering { pieces, .. } => {
                let whole = PutPayload::from_iter(pieces);
                in_a_folder(|| self.store.put(&self.path, whole.clone())).await?
            }
            Stage::Sending(writing) => writing.finish().await.map_err(of_write)?,
        };
        Ok(put.version)
    }

    /// Cancels the upload and waits until the store has deleted its parts.
    pub(super) async fn abort(mut self) -> Result<(), BlobError> {
        match self.stage.take() {
            Some(Stage::Sending(writing)) => writing.abort().await.map_err(of_write),
            Some(Stage::Gathering { .. }) | None => Ok(()),
        }
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        let Some(Stage::Sending(writing)) = self.stage.take() else { return };
        // Without a runtime a directory still removes its file; in the cloud a lifecycle rule does.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = writing.abort().await.map_err(of_write) {
                    tracing::debug!(%error, "an unfinished upload could not be cleared away");
                }
            });
        }
    }
}

/// Retries a write whose directory was deleted at the same moment: deleting the last blob of a
/// directory removes it, while another blob may be about to be written.
async fn in_a_folder<T, Fut>(mut write: impl FnMut() -> Fut) -> Result<T, BlobError>
where
    Fut: Future<Output = object_store::Result<T>>,
{
    for _ in 1..FOLDER_TRIES {
        match write().await {
            Err(error) if folder_is_gone(&error) => {}
            written => return written.map_err(of_write),
        }
    }
    write().await.map_err(of_write)
}

fn folder_is_gone(error: &object_store::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(here) = cause {
        if let Some(error) = here.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::NotFound;
        }
        cause = here.source();
    }
    false
}

/// Returns the error of an upload that has failed before.
pub(super) fn ended() -> BlobError {
    BlobError::Unavailable("an earlier write of this blob failed".to_owned())
}

/// For a writer, a missing object is the bucket.
fn of_write(error: object_store::Error) -> BlobError {
    let error = BlobError::from(error);
    if error == BlobError::Missing {
        return BlobError::refused("there is no such bucket or container");
    }
    error
}
