//! Reading a blob, or a range of it.
//!
//! The blob is fetched in windows, each with its own request and one ahead of the reader. A slow
//! reader therefore lets no request time out, a fast one does not wait for a response at every
//! window, and memory is limited to two windows.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _, try_unfold};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};
use tokio_util::task::AbortOnDropHandle;

use super::encryption::Opener;
use super::error::BlobError;
use super::keys::JobKey;
use super::layout::{HEADER_BYTES, Layout};
use super::path::BlobPath;

/// Bytes per request.
const WINDOW_BYTES: u64 = 4 * 1024 * 1024;

/// The content of a blob as a stream. Every piece is authenticated.
pub struct BlobStream(BoxStream<'static, Result<Bytes, BlobError>>);

impl Stream for BlobStream {
    type Item = Result<Bytes, BlobError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlobStream")
    }
}

/// Starts reading. Returns an error if the blob is missing or has another size.
pub(super) async fn open(
    store: Arc<dyn ObjectStore>,
    path: &BlobPath,
    object: Path,
    key: &JobKey,
    size: u64,
    range: Option<Range<u64>>,
) -> Result<BlobStream, BlobError> {
    let layout = Layout::of(size).ok_or(BlobError::TooLarge)?;
    let range = layout.clamp(range);
    let chunks = layout.chunks_of(&range);
    let mut sealed = layout.sealed_range(&chunks);
    let source = Source { store, object, sealed_size: layout.sealed_size() };
    // The header comes with the first chunk; other ranges need a separate request.
    let header = if chunks.start == 0 {
        sealed.start = 0;
        None
    } else {
        Some(source.clone().fetch(0..HEADER_BYTES as u64))
    };
    let mut windows = Windows::new(source, sealed);
    let header_alone = match header {
        Some(header) => Some(header.await?),
        None => None,
    };
    let mut window = windows.next().await?.unwrap_or_default();
    let header = match header_alone {
        Some(header) => header,
        None => window.split_to(window.len().min(HEADER_BYTES)),
    };
    let opener = Opener::new(key, path, &header, layout, range)?;
    let plain =
        try_unfold((opener, window, windows), async |(mut opener, mut window, mut windows)| {
            loop {
                match opener.push(&mut window)? {
                    Some(plain) if !plain.is_empty() => {
                        return Ok(Some((plain, (opener, window, windows))));
                    }
                    Some(_) | None => {}
                }
                if window.is_empty() {
                    let Some(next) = windows.next().await? else {
                        opener.finish()?;
                        return Ok(None);
                    };
                    window = next;
                }
            }
        });
    Ok(BlobStream(plain.boxed()))
}

#[derive(Clone)]
struct Source {
    store: Arc<dyn ObjectStore>,
    object: Path,
    /// The expected size.
    sealed_size: u64,
}

impl Source {
    /// Fetches a range completely.
    async fn fetch(self, range: Range<u64>) -> Result<Bytes, BlobError> {
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        match self.store.get_opts(&self.object, options).await {
            Ok(found) => {
                self.check_size(found.meta.size)?;
                Ok(found.bytes().await?)
            }
            Err(error) => {
                let error = BlobError::from(error);
                // Stores have no common error for a range beyond the end.
                if let BlobError::Refused(_) = &error {
                    self.check_size(self.store.head(&self.object).await?.size)?;
                }
                Err(error)
            }
        }
    }

    fn check_size(&self, found: u64) -> Result<(), BlobError> {
        if found == self.sealed_size {
            return Ok(());
        }
        let expected = self.sealed_size;
        Err(BlobError::Damaged(format!("it has {found} bytes in the store, and not {expected}")))
    }
}

/// Windows of one object, one of them prefetched.
struct Windows {
    source: Source,
    /// The range that is not requested yet.
    left: Range<u64>,
    /// The prefetched window. A separate task, so that its request continues while the reader is
    /// idle.
    ahead: Option<AbortOnDropHandle<Result<Bytes, BlobError>>>,
}

impl Windows {
    fn new(source: Source, range: Range<u64>) -> Self {
        let mut windows = Self { source, left: range, ahead: None };
        windows.ask();
        windows
    }

    fn ask(&mut self) {
        if !self.left.is_empty() {
            let end = self.left.end.min(self.left.start + WINDOW_BYTES);
            let fetched = tokio::spawn(self.source.clone().fetch(self.left.start..end));
            self.ahead = Some(AbortOnDropHandle::new(fetched));
            self.left.start = end;
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let Some(request) = self.ahead.take() else { return Ok(None) };
        let stopping = |_| BlobError::Unavailable("the process is stopping".to_owned());
        let window = request.await.map_err(stopping)??;
        self.ask();
        Ok(Some(window))
    }
}
