//! Errors of the archive reader.

use std::io;

/// Characters of an entry's name in an error, so that an upload cannot flood the logs.
const QUOTED_CHARS_MAX: usize = 120;

/// In place of an entry, for errors of the whole archive.
pub(super) const WHOLE: &str = "the archive as a whole";

/// Reason why an archive is rejected. Names of entries are escaped and truncated.
///
/// Most errors are the fault of the archive; [`is_retryable`](Self::is_retryable) tells the others apart.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("not a zip, tar, tar.gz or tar.zst archive")]
    UnknownFormat,
    #[error("{entry}: the archive has {value} bytes up to here; the limit is {limit} (bytes_max)")]
    TooManyBytes { limit: u64, value: u64, entry: String },
    #[error("{entry}: the file has {value} bytes; the limit is {limit} (file_bytes_max)")]
    FileTooLong { limit: u64, value: u64, entry: String },
    #[error("{entry}: there are {value} files and folders; the limit is {limit} (entries_max)")]
    TooManyEntries { limit: u64, value: u64, entry: String },
    /// The compression ratio is that of a zip bomb.
    #[error("{entry}: it expands to {value} times its size; the limit is {limit} (ratio_max)")]
    RatioTooHigh { limit: u64, value: u64, entry: String },
    #[error("{entry}: it is nested in {value} folders; the limit is {limit} (depth_max)")]
    TooDeep { limit: u64, value: u64, entry: String },
    #[error("{entry}: its path has {value} bytes; the limit is {limit} (path_bytes_max)")]
    PathTooLong { limit: u64, value: u64, entry: String },
    /// The path could leave the folder, or differs between operating systems.
    #[error("{entry}: its path {why}")]
    BadPath { entry: String, why: &'static str },
    /// Two entries have the same path on some file system, or a file is where another needs a folder.
    #[error("{entry}: another entry has the same path, ignoring case and Unicode composition")]
    PathTaken { entry: String },
    #[error("{entry}: it is {what}; only files and folders are supported")]
    NotAFile { entry: String, what: &'static str },
    #[error("{entry}: it is encrypted")]
    Encrypted { entry: String },
    #[error("{entry}: {what} is not supported")]
    Unsupported { entry: String, what: String },
    /// Two entries share bytes, as in some zip bombs.
    #[error("{entry}: it overlaps with the next entry")]
    Overlap { entry: String },
    /// Bytes outside of all entries, which another program may read as an entry.
    #[error("{entry}: {what} that belong to no entry")]
    Hidden { entry: String, what: &'static str },
    #[error("{entry}: the archive contradicts itself: {what}")]
    Contradiction { entry: String, what: &'static str },
    /// `found` is at least this large if it exceeds `declared`.
    #[error("{entry}: it has {found} bytes in place of the declared {declared}")]
    WrongSize { entry: String, declared: u64, found: u64 },
    #[error("{entry}: its checksum is wrong")]
    WrongChecksum { entry: String },
    #[error("{entry}: the archive is truncated")]
    Truncated { entry: String },
    #[error("{entry}: the archive is damaged: {why}")]
    Damaged { entry: String, why: String },
    #[error("the folder to extract into is not empty")]
    ExtractDirNotEmpty,
    #[error("extraction was cancelled")]
    Cancelled,
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    #[error("cannot use the folder to extract into")]
    ExtractDir(#[source] io::Error),
    /// The consumer of an entry failed; in [`extract`](super::extract), the disk.
    #[error("{entry}: cannot write it")]
    Write {
        entry: String,
        #[source]
        source: io::Error,
    },
}

impl ArchiveError {
    /// Returns true if the same archive may succeed later: the machine failed, or the extraction was
    /// cancelled.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Read(_)
                | Self::ExtractDir(_)
                | Self::ExtractDirNotEmpty
                | Self::Write { .. }
                | Self::Cancelled
        )
    }

    /// Classifies a read error: of the operating system, of a decompressor, or an `ArchiveError` that
    /// passed through one.
    pub(super) fn from_read(error: io::Error, entry: &str) -> Self {
        if error.raw_os_error().is_some() {
            return Self::Read(error);
        }
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::Truncated { entry: quoted(entry) };
        }
        match error.downcast::<Self>() {
            Ok(ours) => ours,
            Err(error) => Self::Damaged { entry: quoted(entry), why: error.to_string() },
        }
    }

    pub(super) fn contradiction(entry: impl AsRef<[u8]>, what: &'static str) -> Self {
        Self::Contradiction { entry: quoted(entry), what }
    }

    pub(super) fn hidden(entry: impl AsRef<[u8]>, what: &'static str) -> Self {
        Self::Hidden { entry: quoted(entry), what }
    }

    pub(super) fn not_a_file(entry: impl AsRef<[u8]>, what: &'static str) -> Self {
        Self::NotAFile { entry: quoted(entry), what }
    }

    pub(super) fn unsupported(entry: impl AsRef<[u8]>, what: impl Into<String>) -> Self {
        Self::Unsupported { entry: quoted(entry), what: what.into() }
    }

    pub(super) fn truncated() -> Self {
        Self::Truncated { entry: WHOLE.to_owned() }
    }

    pub(super) fn damaged(entry: impl AsRef<[u8]>, why: &'static str) -> Self {
        Self::Damaged { entry: quoted(entry), why: why.to_owned() }
    }
}

/// Escapes, quotes and truncates a name.
pub(super) fn quoted(name: impl AsRef<[u8]>) -> String {
    let name = name.as_ref();
    if name == WHOLE.as_bytes() {
        return WHOLE.to_owned();
    }
    // Truncated before it is escaped, because a name may have megabytes.
    let head = name.get(..QUOTED_CHARS_MAX * 4).unwrap_or(name);
    let text = String::from_utf8_lossy(head);
    let mut escaped: String = text.escape_debug().take(QUOTED_CHARS_MAX).collect();
    if head.len() < name.len() || text.escape_debug().nth(QUOTED_CHARS_MAX).is_some() {
        escaped.push('…');
    }
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_names_are_escaped_and_truncated() {
        assert_eq!(quoted("a\n\u{1b}[31m\u{202e}"), r#""a\n\u{1b}[31m\u{202e}""#);
        assert_eq!(quoted(b"\xff"), "\"\u{fffd}\"");
        assert_eq!(quoted("x".repeat(1_000_000)).chars().count(), QUOTED_CHARS_MAX + 3);
    }
}
