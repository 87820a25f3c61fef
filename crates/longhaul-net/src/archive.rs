//! Strict reader for archives from untrusted callers: zip, tar, tar.gz and tar.zst.
//!
//! [`extract`] writes the files to a folder; [`entries`] passes one file after the other to a closure
//! and touches no disk. Both block.
//!
//! An archive is accepted as a whole or not at all. Irregularities are rejected, not repaired, because
//! two programs that repair an archive differently see different files in it. So:
//!
//! - The format is detected by content, never by name.
//! - Everything has a limit ([`ArchiveLimits`]), measured on the extracted bytes.
//! - There are files and folders. Links, devices, sparse files and the like are rejected.
//! - A path is relative, UTF-8, and has no `..`, no backslash and no control character. No two paths are
//!   equal on any file system, ignoring case and Unicode composition.
//! - In a zip every byte belongs to exactly one record: entries from the first byte on, without gap or
//!   overlap, then the directory, then its end record, which ends the file. So nothing is in front (no
//!   self-extracting archive), behind or in between, there is no second directory, and a program that
//!   reads from the front sees the same files. Each local header matches the directory. Entries are
//!   stored or deflated, and not encrypted.
//! - A tar has the magic `ustar` in each header and ends with zeros. Long names come from pax or GNU
//!   headers; a pax size counts only where the plain field is too small for it.
//! - An archive inside of an archive is an ordinary file.
//!
//! Owners, times and permissions are dropped on purpose: files get mode 0600 and folders 0700, so that
//! an upload never becomes executable.

mod bounded_read;
mod error;
mod extract_dir;
mod format;
mod limits;
mod name_folding;
mod path;
mod reader;
mod seen_paths;
mod tar;
mod zip;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

pub use error::ArchiveError;
pub use format::ArchiveFormat;
pub use limits::ArchiveLimits;

use reader::EntryReader;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveSummary {
    pub format: ArchiveFormat,
    pub files: u64,
    /// Including folders that only occur in the paths of files.
    pub folders: u64,
    /// Of all files.
    pub bytes: u64,
}

/// File or folder in an archive, with its relative path without a trailing `/`.
#[expect(missing_debug_implementations, reason = "readers are not Debug")]
pub enum ArchiveEntry<'a> {
    /// A folder that the archive lists. Folders that only occur in the paths of files are left out.
    Folder { path: &'a str },
    File {
        path: &'a str,
        /// Declared length.
        bytes: u64,
        /// Fails as soon as the archive turns out to be invalid.
        content: &'a mut dyn Read,
    },
}

/// Extracts the archive `file` into the existing, empty folder `into`.
///
/// On an error, `into` is empty again. No other process may write there meanwhile; links that appear
/// nevertheless are not followed. `cancelled` is polled at least every 64 KiB.
///
/// ```
/// # use std::fs;
/// use longhaul_net::archive::{ArchiveError, ArchiveLimits, extract};
///
/// # let work = tempfile::tempdir()?;
/// # let (upload, folder) = (work.path().join("upload"), work.path().join("folder"));
/// # fs::write(&upload, b"#!/bin/sh")?;
/// # fs::create_dir(&folder)?;
/// let limits = ArchiveLimits { entries_max: 1_000, ..ArchiveLimits::default() };
/// let error = extract(&upload, &folder, &limits, &|| false);
/// assert!(matches!(error, Err(ArchiveError::UnknownFormat)));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn extract(
    file: &Path,
    into: &Path,
    limits: &ArchiveLimits,
    cancelled: &dyn Fn() -> bool,
) -> Result<ArchiveSummary, ArchiveError> {
    let archive = File::open(file).map_err(ArchiveError::Read)?;
    let dir = extract_dir::ExtractDir::open(into)?;
    let summary = entries(archive, limits, cancelled, &mut |entry| match entry {
        ArchiveEntry::Folder { path } => dir.folder(path),
        ArchiveEntry::File { path, content, .. } => dir.file(path, content),
    });
    if summary.is_err() {
        dir.clear();
    }
    summary
}

/// Passes each entry of an archive to `each`, in their order in the file.
///
/// The entries count only when this has returned `Ok`, because only then the whole archive is checked.
/// Content that `each` does not read is checked as well.
pub fn entries(
    mut archive: impl Read + Seek,
    limits: &ArchiveLimits,
    cancelled: &dyn Fn() -> bool,
    each: &mut dyn FnMut(ArchiveEntry<'_>) -> std::io::Result<()>,
) -> Result<ArchiveSummary, ArchiveError> {
    let (format, archive_bytes) = format::detect(&mut archive)?;
    let mut reader = EntryReader::new(limits, archive_bytes, cancelled, each);
    match format {
        ArchiveFormat::Zip => zip::read_entries(archive, &mut reader)?,
        ArchiveFormat::Tar => tar::read_entries(archive, &mut reader)?,
        ArchiveFormat::TarGz => tar::read_entries(format::gunzip(archive), &mut reader)?,
        ArchiveFormat::TarZst => tar::read_entries(format::unzstd(archive)?, &mut reader)?,
    }
    Ok(reader.summary(format))
}
