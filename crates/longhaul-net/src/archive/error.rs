//! Why an archive is not unpacked.

use std::io;

/// What is shown of an entry's name, so that a stranger cannot write our logs.
const QUOTED_CHARS_MAX: usize = 120;

/// Stands for an entry where the archive as a whole is meant.
pub(super) const WHOLE: &str = "the archive as a whole";

/// Why an archive is not unpacked. The names of entries are escaped and cut.
///
/// Almost all of these are for whoever made the archive to mend;
/// [`may_pass`](Self::may_pass) tells the others.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is none of the formats.
    #[error("it is no zip, tar, tar.gz or tar.zst")]
    UnknownFormat,
    /// All files together are too long.
    #[error("{entry}: with it there are {value} bytes, more than {limit} (bytes_max)")]
    TooManyBytes {
        /// `bytes_max`.
        limit: u64,
        /// How many it would be with this entry.
        value: u64,
        /// The entry.
        entry: String,
    },
    /// One file is too long.
    #[error("{entry}: it has {value} bytes, more than {limit} (file_bytes_max)")]
    FileTooLong {
        /// `file_bytes_max`.
        limit: u64,
        /// How long it is.
        value: u64,
        /// The entry.
        entry: String,
    },
    /// There are too many files and folders.
    #[error("{entry}: there are {value} files and folders, more than {limit} (entries_max)")]
    TooManyEntries {
        /// `entries_max`.
        limit: u64,
        /// How many there are, as far as we counted.
        value: u64,
        /// The entry.
        entry: String,
    },
    /// It unpacks to far more than it is: a bomb.
    #[error("{entry}: it unpacks to {value} times its length, more than {limit} (ratio_max)")]
    RatioTooHigh {
        /// `ratio_max`.
        limit: u64,
        /// How many times longer it gets, as far as we unpacked it.
        value: u64,
        /// The entry.
        entry: String,
    },
    /// A path leads through too many folders.
    #[error("{entry}: it is in {value} folders, more than {limit} (depth_max)")]
    TooDeep {
        /// `depth_max`.
        limit: u64,
        /// How deep it is.
        value: u64,
        /// The entry.
        entry: String,
    },
    /// A path is too long.
    #[error("{entry}: its path has {value} bytes, more than {limit} (path_bytes_max)")]
    PathTooLong {
        /// `path_bytes_max`.
        limit: u64,
        /// How long it is.
        value: u64,
        /// The entry.
        entry: String,
    },
    /// A path that might lead out of the folder, or means different things to different systems.
    #[error("{entry}: its path {why}")]
    BadPath {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two entries have one path on some file system, or one is a file where another needs a folder.
    #[error("{entry}: another entry has its path, if only case and composition are ignored")]
    PathTaken {
        /// The later entry.
        entry: String,
    },
    /// Neither a file nor a folder.
    #[error("{entry}: it is {what}; only files and folders are unpacked")]
    NotAFile {
        /// The entry.
        entry: String,
        /// What it is instead.
        what: &'static str,
    },
    /// An entry is encrypted.
    #[error("{entry}: it is encrypted")]
    Encrypted {
        /// The entry.
        entry: String,
    },
    /// A part of the format that we do not read.
    #[error("{entry}: {what} is not supported")]
    Unsupported {
        /// The entry.
        entry: String,
        /// What it needs.
        what: String,
    },
    /// Two entries share bytes, as in some bombs.
    #[error("{entry}: it overlaps with what follows it")]
    Overlap {
        /// The entry.
        entry: String,
    },
    /// There are bytes that belong to nothing, which some program might take for something.
    #[error("{entry}: {what} that belong to nothing")]
    Hidden {
        /// The entry at which they are.
        entry: String,
        /// Where they are.
        what: &'static str,
    },
    /// Two places of the archive say different things.
    #[error("{entry}: the archive contradicts itself: {what}")]
    Contradiction {
        /// The entry.
        entry: String,
        /// In what.
        what: &'static str,
    },
    /// A file has more or fewer bytes than the archive says.
    #[error("{entry}: it should have {declared} bytes and has {found}")]
    WrongSize {
        /// The entry.
        entry: String,
        /// What the archive says.
        declared: u64,
        /// What came out. If that is more, we did not look how much more.
        found: u64,
    },
    /// A file is not what it was when it was packed.
    #[error("{entry}: its checksum is wrong")]
    WrongChecksum {
        /// The entry.
        entry: String,
    },
    /// The archive ends too early.
    #[error("{entry}: the archive is cut off")]
    Truncated {
        /// The entry.
        entry: String,
    },
    /// It cannot be read.
    #[error("{entry}: the archive is damaged: {why}")]
    Damaged {
        /// The entry.
        entry: String,
        /// What is wrong.
        why: String,
    },
    /// The folder to unpack into has something in it.
    #[error("the folder to unpack into is not empty")]
    TargetNotEmpty,
    /// Somebody wants it to stop.
    #[error("unpacking was cancelled")]
    Cancelled,
    /// The archive cannot be read from the disk.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    /// The folder to unpack into cannot be used.
    #[error("cannot use the folder to unpack into")]
    Target(#[source] io::Error),
    /// Whoever got the entry failed; in [`extract`](super::extract) this is the disk.
    #[error("{entry}: cannot write it")]
    Write {
        /// The entry.
        entry: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ArchiveError {
    /// Whether another try with the same archive may go better: the machine failed, or somebody
    /// asked to stop, and the archive is not to blame.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Read(_)
            | Self::Target(_)
            | Self::TargetNotEmpty
            | Self::Write { .. }
            | Self::Cancelled => true,
            Self::UnknownFormat
            | Self::TooManyBytes { .. }
            | Self::FileTooLong { .. }
            | Self::TooManyEntries { .. }
            | Self::RatioTooHigh { .. }
            | Self::TooDeep { .. }
            | Self::PathTooLong { .. }
            | Self::BadPath { .. }
            | Self::PathTaken { .. }
            | Self::NotAFile { .. }
            | Self::Encrypted { .. }
            | Self::Unsupported { .. }
            | Self::Overlap { .. }
            | Self::Hidden { .. }
            | Self::Contradiction { .. }
            | Self::WrongSize { .. }
            | Self::WrongChecksum { .. }
            | Self::Truncated { .. }
            | Self::Damaged { .. } => false,
        }
    }

    /// What it means that reading failed. Errors of the system are its own, all others come from
    /// those who unpack; one of ours may have gone through them.
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

    pub(super) fn damaged(entry: impl AsRef<[u8]>, why: &'static str) -> Self {
        Self::Damaged { entry: quoted(entry), why: why.to_owned() }
    }
}

/// A name as it may be shown: escaped, in quotes and not longer than a line.
pub(super) fn quoted(name: impl AsRef<[u8]>) -> String {
    let name = name.as_ref();
    if name == WHOLE.as_bytes() {
        return WHOLE.to_owned();
    }
    // Cut before it is escaped: a name may have megabytes.
    let head = name.get(..QUOTED_CHARS_MAX * 4).unwrap_or(name);
    let text = String::from_utf8_lossy(head);
    let mut shown: String = text.escape_debug().take(QUOTED_CHARS_MAX).collect();
    if head.len() < name.len() || text.escape_debug().nth(QUOTED_CHARS_MAX).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_escaped_and_cut() {
        assert_eq!(quoted("a\n\u{1b}[31m\u{202e}"), r#""a\n\u{1b}[31m\u{202e}""#);
        assert_eq!(quoted(b"\xff"), "\"\u{fffd}\"");
        assert_eq!(quoted("x".repeat(1_000_000)).chars().count(), QUOTED_CHARS_MAX + 3);
    }
}
