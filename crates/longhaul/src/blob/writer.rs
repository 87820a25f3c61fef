//! Writing a blob.

use bytes::Bytes;
use ring::digest::{Context, SHA256};

use super::encryption::Sealer;
use super::error::BlobError;
use super::layout::{BLOB_BYTES_MAX, CHUNK_BYTES};
use super::upload::{ObjectUpload, ended};

/// A blob that is being written. Dropping it before it is finished leaves nothing readable.
pub struct BlobWriter {
    /// `None` once a write has failed or was dropped halfway, because the blob can no longer be
    /// completed.
    open: Option<(Sealer, ObjectUpload)>,
    digest: Context,
    size: u64,
}

/// Size and digest of a written blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBlob {
    /// Size before encryption, which readers must know.
    pub size: u64,
    /// SHA-256 of the content.
    pub digest: [u8; 32],
}

impl BlobWriter {
    pub(super) fn new(sealer: Sealer, upload: ObjectUpload) -> Self {
        Self { open: Some((sealer, upload)), digest: Context::new(&SHA256), size: 0 }
    }

    /// Writes bytes, and waits while too many parts are in flight, so that memory is bounded. A
    /// write that fails or is dropped ends the blob: all further calls fail.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), BlobError> {
        let (mut sealer, mut upload) = self.open.take().ok_or_else(ended)?;
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > BLOB_BYTES_MAX {
            return Err(BlobError::TooLarge);
        }
        while !bytes.is_empty() {
            let mut piece = bytes.split_to(bytes.len().min(CHUNK_BYTES));
            self.digest.update(&piece);
            while !piece.is_empty() {
                if let Some(sealed) = sealer.push(&mut piece) {
                    upload.put(sealed).await?;
                }
            }
            // A piece takes about 60 µs. Other tasks may run in between.
            tokio::task::coop::consume_budget().await;
        }
        self.open = Some((sealer, upload));
        Ok(())
    }

    /// Waits until the blob is stored durably. If this fails or is dropped, the blob may exist
    /// without a record: an orphan.
    pub async fn finish(self) -> Result<WrittenBlob, BlobError> {
        self.finish_with_version().await.map(|(written, _)| written)
    }

    pub(super) async fn finish_with_version(
        mut self,
    ) -> Result<(WrittenBlob, Option<String>), BlobError> {
        let (sealer, mut upload) = self.open.take().ok_or_else(ended)?;
        upload.put(sealer.finish()).await?;
        let version = upload.finish().await?;
        let mut digest = [0; 32];
        digest.copy_from_slice(self.digest.finish().as_ref());
        Ok((WrittenBlob { size: self.size, digest }, version))
    }

    /// Cancels the blob and waits until the store has deleted its parts.
    pub async fn abort(mut self) -> Result<(), BlobError> {
        match self.open.take() {
            Some((_, upload)) => upload.abort().await,
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobWriter").field("size", &self.size).finish_non_exhaustive()
    }
}
