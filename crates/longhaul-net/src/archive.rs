//! Unpacks archives that strangers upload: zip, tar, tar.gz and tar.zst.
//!
//! For kinds that take an archive as payload. [`extract`] unpacks it into a job's working folder,
//! [`entries`] hands over one file after the other and touches no disk. Both block: call them where
//! blocking is allowed.
//!
//! An archive is taken whole or not at all. What is odd is refused and not repaired, because two
//! programs that repair an archive differently see two different archives in it. So:
//!
//! - What format it is says its content, never its name.
//! - Everything has a limit ([`Limits`]), and what counts is what comes out.
//! - There are files and folders. Links, devices, sparse files and the like are refused.
//! - A path is relative, UTF-8, and has no `..`, no backslash and no control character. No two
//!   are the same on any file system: not by case either, nor by how Unicode composes letters.
//! - In a zip every byte belongs to exactly one thing: entries from the first byte on, without gap
//!   or overlap, then the directory, then its end, which ends the file. So there is nothing in
//!   front (no self-extracting archive), nothing behind and nothing in between, no second
//!   directory anywhere, and whoever reads it from the front sees what we see. Each local header
//!   says what the directory says. Entries are stored or deflated, and not encrypted.
//! - A tar has the mark `ustar` in each header and ends with zeros, behind which nothing follows.
//!   Long names come from pax or GNU headers; a pax size counts only where the plain field is too
//!   small for it.
//! - An archive in an archive is a file like any other.
//!
//! Owners, times and permissions are dropped on purpose: files are 0600 and folders 0700, and what
//! a stranger sent does not become executable by being unpacked.

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
pub use format::Format;
pub use limits::Limits;

use reader::EntryReader;

/// What was in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extracted {
    /// The format it turned out to have.
    pub format: Format,
    /// Regular files.
    pub files: u64,
    /// Folders, also those that only the paths of files name.
    pub folders: u64,
    /// Bytes of all files together.
    pub bytes: u64,
}

/// One thing in an archive, with its path: relative, with `/` and without a `/` at its end.
#[expect(missing_debug_implementations, reason = "a reader has nothing to show")]
pub enum Entry<'a> {
    /// A folder that the archive lists. Those that only the paths of files name are not told.
    Folder {
        /// Where it is.
        path: &'a str,
    },
    /// A regular file.
    File {
        /// Where it is.
        path: &'a str,
        /// How long its content is, if the archive does not lie.
        bytes: u64,
        /// Its content. Fails as soon as the archive turns out to be bad.
        content: &'a mut dyn Read,
    },
}

/// Unpacks the archive `file` into the folder `into`, which has to be there and empty.
///
/// If it fails, `into` is empty again. Nobody else may write there meanwhile; links that somebody
/// puts there nevertheless are not followed. `cancelled` is asked every 64 KiB or more often.
///
/// ```
/// # use std::fs;
/// use longhaul_net::archive::{ArchiveError, Limits, extract};
///
/// # let work = tempfile::tempdir()?;
/// # let (upload, folder) = (work.path().join("upload"), work.path().join("folder"));
/// # fs::write(&upload, b"#!/bin/sh")?;
/// # fs::create_dir(&folder)?;
/// let limits = Limits { entries_max: 1_000, ..Limits::default() };
/// let refused = extract(&upload, &folder, &limits, &|| false);
/// assert!(matches!(refused, Err(ArchiveError::UnknownFormat)));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn extract(
    file: &Path,
    into: &Path,
    limits: &Limits,
    cancelled: &dyn Fn() -> bool,
) -> Result<Extracted, ArchiveError> {
    let archive = File::open(file).map_err(ArchiveError::Read)?;
    let target = extract_dir::ExtractDir::open(into)?;
    let extracted = entries(archive, limits, cancelled, &mut |entry| match entry {
        Entry::Folder { path } => target.folder(path),
        Entry::File { path, content, .. } => target.file(path, content),
    });
    if extracted.is_err() {
        target.clear();
    }
    extracted
}

/// Hands each entry of an archive to `each`, in the order in which they are in it.
///
/// What `each` got is worth nothing before this has returned `Ok`: only then is the whole archive
/// known to be good. Content that `each` does not read is checked all the same.
pub fn entries(
    mut archive: impl Read + Seek,
    limits: &Limits,
    cancelled: &dyn Fn() -> bool,
    each: &mut dyn FnMut(Entry<'_>) -> std::io::Result<()>,
) -> Result<Extracted, ArchiveError> {
    let (format, archive_bytes) = format::recognise(&mut archive)?;
    let mut reader = EntryReader::new(limits, archive_bytes, cancelled, each);
    match format {
        Format::Zip => zip::read_entries(archive, &mut reader)?,
        Format::Tar => tar::read_entries(archive, &mut reader)?,
        Format::TarGz => tar::read_entries(format::gunzipped(archive), &mut reader)?,
        Format::TarZst => tar::read_entries(format::unzstd(archive)?, &mut reader)?,
    }
    Ok(reader.extracted(format))
}
