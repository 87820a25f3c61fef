//! Payloads of submissions, read in chunks, so that large ones need little memory.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{Stream, stream};
use reqwest::Body;
use reqwest::multipart::Part;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;

use super::error::without_os_code;
use super::{ClientError, Result};

/// Size of a chunk.
const PIECE_BYTES: usize = 256 * 1024;
/// Default media type.
const ANY_TYPE: &str = "application/octet-stream";

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Watcher = Arc<dyn Fn(u64) + Send + Sync>;

/// Payload of a job.
///
/// ```no_run
/// # use longhaul_client::Payload;
/// let video = Payload::file("talk.mp4").on_progress(|bytes| println!("{bytes} bytes sent"));
/// let note = Payload::reader("note", &b"hello"[..]).content_type("text/plain");
/// ```
pub struct Payload {
    source: Source,
    name: String,
    content_type: String,
    watcher: Option<Watcher>,
}

enum Source {
    /// Opened for each attempt.
    File(PathBuf),
    /// Can be read only once.
    Reader(Option<Reader>),
}

/// An opened payload.
pub(super) struct OpenPayload {
    reader: Reader,
    /// Known for regular files.
    size: Option<u64>,
    /// True if it can be opened and read again.
    pub(super) again: bool,
}

/// Side that the upload waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The source of the payload, which may take any time.
    Source,
    /// The server, which has to receive or to respond.
    Server,
}

impl Payload {
    /// Creates a payload from a file. Name and media type follow from the path. It is read again for a
    /// retry.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let content_type = mime_guess::from_path(&path).first_or_octet_stream().to_string();
        Self { source: Source::File(path), name, content_type, watcher: None }
    }

    /// Creates a payload from a reader. It cannot be retried after a lost connection.
    pub fn reader(
        name: impl Into<String>,
        reader: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        let source = Source::Reader(Some(Box::new(reader)));
        Self { source, name: name.into(), content_type: ANY_TYPE.to_owned(), watcher: None }
    }

    /// Sets the media type.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Sets a callback for the number of sent bytes, which restarts from 0 with each attempt.
    #[must_use]
    pub fn on_progress(mut self, watcher: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    pub(super) async fn open(&mut self) -> Result<OpenPayload> {
        match &mut self.source {
            Source::File(path) => match open_file(path).await {
                Ok(opened) => Ok(opened),
                Err(error) => Err(self.unreadable(&error)),
            },
            Source::Reader(reader) => match reader.take() {
                Some(reader) => Ok(OpenPayload { reader, size: None, again: false }),
                None => Err(self.unreadable(&io::Error::other("it was read before"))),
            },
        }
    }

    /// Returns the multipart part, and the side that the upload waits for.
    pub(super) fn part(
        &self,
        opened: OpenPayload,
    ) -> Result<(Part, watch::Receiver<Turn>), ClientError> {
        let (turn, turns) = watch::channel(Turn::Server);
        let OpenPayload { reader, size, .. } = opened;
        let pieces = Pieces { reader, size, sent: 0, turn, watcher: self.watcher.clone() };
        let body = Body::wrap_stream(pieces.into_stream());
        let part = match size {
            Some(size) => Part::stream_with_length(body, size),
            None => Part::stream(body),
        };
        // A line break in the name would end its header.
        let name = self.name.replace(char::is_control, "_");
        let part = part.file_name(name).mime_str(&self.content_type).map_err(|_| {
            let given = &self.content_type;
            ClientError::Invalid(format!("{given:?} is not a media type: write it like image/png"))
        })?;
        Ok((part, turns))
    }

    /// Returns the error of the payload, if it caused the error of the request.
    pub(super) fn broken(&self, error: &reqwest::Error) -> Option<ClientError> {
        let mut cause: Option<&dyn Error> = Some(error);
        while let Some(one) = cause {
            if let Some(Unreadable(error)) = one.downcast_ref() {
                return Some(self.unreadable(error));
            }
            cause = one.source();
        }
        None
    }

    fn unreadable(&self, error: &io::Error) -> ClientError {
        let payload = match &self.source {
            Source::File(path) => path.display().to_string(),
            Source::Reader(_) => self.name.clone(),
        };
        ClientError::Payload { payload, reason: without_os_code(error) }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload")
            .field("name", &self.name)
            .field("content_type", &self.content_type)
            .finish_non_exhaustive()
    }
}

async fn open_file(path: &Path) -> io::Result<OpenPayload> {
    let file = File::open(path).await?;
    let metadata = file.metadata().await?;
    if metadata.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    // A pipe has no size and can be read only once.
    let size = metadata.is_file().then_some(metadata.len());
    // Bytes that are appended during the upload are ignored.
    let reader: Reader = match size {
        Some(size) => Box::new(file.take(size)),
        None => Box::new(file),
    };
    Ok(OpenPayload { reader, size, again: size.is_some() })
}

/// Marks an error of the payload among those of the request.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreadable(io::Error);

struct Pieces {
    reader: Reader,
    size: Option<u64>,
    sent: u64,
    turn: watch::Sender<Turn>,
    watcher: Option<Watcher>,
}

impl Pieces {
    fn into_stream(self) -> impl Stream<Item = Result<Vec<u8>, Unreadable>> + Send {
        stream::try_unfold(self, async |mut pieces: Self| {
            Ok(pieces.next().await.map_err(Unreadable)?.map(|piece| (piece, pieces)))
        })
    }

    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.turn.send_replace(Turn::Source);
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        self.reader.read_buf(&mut piece).await?;
        self.turn.send_replace(Turn::Server);
        if piece.is_empty() {
            let cut = self.size.is_some_and(|size| self.sent < size);
            let error = || io::Error::other("it became shorter while it was sent");
            return if cut { Err(error()) } else { Ok(None) };
        }
        self.sent += piece.len() as u64;
        if let Some(watcher) = &self.watcher {
            watcher(self.sent);
        }
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(bytes: &'static [u8], size: Option<u64>) -> Pieces {
        let (turn, _) = watch::channel(Turn::Server);
        Pieces { reader: Box::new(bytes), size, sent: 0, turn, watcher: None }
    }

    #[tokio::test]
    async fn payload_file_that_shrinks_is_an_error() {
        let mut whole = pieces(b"four", Some(4));
        assert_eq!(whole.next().await.unwrap().as_deref(), Some(&b"four"[..]));
        assert!(whole.next().await.unwrap().is_none());

        let mut shrunk = pieces(b"four", Some(5));
        shrunk.next().await.unwrap();
        let error = shrunk.next().await.unwrap_err();
        insta::assert_snapshot!(error, @"it became shorter while it was sent");
    }

    #[tokio::test]
    async fn bytes_appended_to_a_payload_file_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "one\n").unwrap();
        let mut opened = Payload::file(&path).open().await.unwrap();
        assert!(opened.again);
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let mut text = String::new();
        opened.reader.read_to_string(&mut text).await.unwrap();
        assert_eq!((text.as_str(), opened.size), ("one\n", Some(4)));
    }

    #[tokio::test]
    async fn payload_without_size_is_not_reopened() {
        let opened = Payload::file("/dev/null").open().await.unwrap();
        assert_eq!((opened.size, opened.again), (None, false));
    }

    #[test]
    fn payload_file_has_name_and_type_of_its_path() {
        let shown = format!("{:?}", Payload::file("/home/me/cat.png"));
        assert_eq!(shown, r#"Payload { name: "cat.png", content_type: "image/png", .. }"#);
    }
}
