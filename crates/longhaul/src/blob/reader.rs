//! Reading a blob, or a range of it.
//!
//! It is fetched in windows, each by a request of its own and one ahead of what is read. So a reader that
//! takes its time lets no request time out, one that is fast does not wait for the store's answer at
//! every window, and neither needs more memory than two windows.

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

/// Bytes that are fetched at once.
const WINDOW_BYTES: u64 = 4 * 1024 * 1024;

/// The bytes of a blob as they come in, each proven to be the one that was written.
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

/// Begins to read. What is not there, or of another size, is noticed here.
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
    // The header comes along with the first chunk, and by itself with others.
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

/// One object.
#[derive(Clone)]
struct Source {
    store: Arc<dyn ObjectStore>,
    object: Path,
    /// How large it has to be.
    sealed_size: u64,
}

impl Source {
    /// Fetches some bytes, all of them.
    async fn fetch(self, range: Range<u64>) -> Result<Bytes, BlobError> {
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        match self.store.get_opts(&self.object, options).await {
            Ok(found) => {
                self.check_size(found.meta.size)?;
                Ok(found.bytes().await?)
            }
            Err(error) => {
                let error = BlobError::from(error);
                // Stores have no common word for a range that lies behind the end.
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

/// An object in windows, one of them ahead.
struct Windows {
    source: Source,
    /// What has not been asked for.
    left: Range<u64>,
    /// What has been. A task of its own, so that its request goes on while nobody looks.
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
        let Some(asked) = self.ahead.take() else { return Ok(None) };
        let stopping = |_| BlobError::Unavailable("the process is stopping".to_owned());
        let window = asked.await.map_err(stopping)??;
        self.ask();
        Ok(Some(window))
    }
}
