//! One archive on its way to whoever wants its entries.

use std::io::{self, Read};

use flate2::Crc;

use super::error::{WHOLE, quoted};
use super::path::{self, EntryPath};
use super::seen_paths::{EntryType, SeenPaths};
use super::{ArchiveError, Entry, Extracted, Format, Limits};

/// The most that one read takes, so that a cancel is noticed soon.
const READ_BYTES_MAX: usize = 64 << 10;

/// Holds an archive to the limits and hands out what passed.
pub(super) struct EntryReader<'a> {
    pub(super) limits: &'a Limits,
    pub(super) archive_bytes: u64,
    cancelled: &'a dyn Fn() -> bool,
    each: &'a mut dyn FnMut(Entry<'_>) -> io::Result<()>,
    seen_paths: SeenPaths,
    /// What was let in so far. Never less than what came out, since no file may have more than it
    /// was let in with.
    admitted_bytes: u64,
    unpacked_bytes: u64,
}

/// What an archive says of a file.
pub(super) struct FileHeader<'a> {
    pub(super) path: &'a str,
    pub(super) bytes: u64,
    pub(super) crc: Option<u32>,
}

impl<'a> EntryReader<'a> {
    pub(super) fn new(
        limits: &'a Limits,
        archive_bytes: u64,
        cancelled: &'a dyn Fn() -> bool,
        each: &'a mut dyn FnMut(Entry<'_>) -> io::Result<()>,
    ) -> Self {
        let (seen_paths, admitted_bytes, unpacked_bytes) = (SeenPaths::default(), 0, 0);
        Self { limits, archive_bytes, cancelled, each, seen_paths, admitted_bytes, unpacked_bytes }
    }

    pub(super) fn check_cancelled(&self) -> Result<(), ArchiveError> {
        if (self.cancelled)() { Err(ArchiveError::Cancelled) } else { Ok(()) }
    }

    /// Refuses by what an archive says of itself, before its list of entries is read.
    pub(super) fn expect_entries(&self, value: u64) -> Result<(), ArchiveError> {
        let limit = self.limits.entries_max;
        if value > limit {
            return Err(ArchiveError::TooManyEntries { limit, value, entry: WHOLE.to_owned() });
        }
        Ok(())
    }

    /// Checks a path and takes it, for what `kind` makes of it.
    pub(super) fn claim<'p>(
        &mut self,
        raw: &'p [u8],
        kind: impl FnOnce(&EntryPath<'p>) -> Result<EntryType, ArchiveError>,
    ) -> Result<(&'p str, EntryType), ArchiveError> {
        let checked = path::check(raw, self.limits)?;
        let kind = kind(&checked)?;
        self.seen_paths.insert(checked.path, kind, self.limits)?;
        Ok((checked.path, kind))
    }

    /// Lets so many bytes in.
    pub(super) fn admit(&mut self, bytes: u64, entry: &str) -> Result<(), ArchiveError> {
        let (value, limit) = (self.admitted_bytes.saturating_add(bytes), self.limits.bytes_max);
        if value > limit {
            return Err(ArchiveError::TooManyBytes { limit, value, entry: quoted(entry) });
        }
        self.admitted_bytes = value;
        Ok(())
    }

    /// Lets a file of so many bytes in, which are `packed` in the archive if it can be told.
    pub(super) fn admit_file(
        &mut self,
        bytes: u64,
        packed: Option<u64>,
        entry: &str,
    ) -> Result<(), ArchiveError> {
        let limit = self.limits.file_bytes_max;
        if bytes > limit {
            return Err(ArchiveError::FileTooLong { limit, value: bytes, entry: quoted(entry) });
        }
        if let Some(packed) = packed {
            self.limits.check_ratio(bytes, packed, entry)?;
        }
        self.admit(bytes, entry)?;
        if packed.is_some() {
            self.limits.check_ratio(self.admitted_bytes, self.archive_bytes, WHOLE)?;
        }
        Ok(())
    }

    pub(super) fn folder(&mut self, path: &str) -> Result<(), ArchiveError> {
        if path.is_empty() {
            return Ok(());
        }
        let told = (self.each)(Entry::Folder { path });
        told.map_err(|source| ArchiveError::Write { entry: quoted(path), source })
    }

    /// Hands a file out, then reads what was left of it and checks that all was as declared.
    pub(super) fn file(
        &mut self,
        declared: &FileHeader<'_>,
        source: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let &FileHeader { path, bytes, crc } = declared;
        let (cancelled, seen) = (self.cancelled, Crc::new());
        let mut content =
            Content { source, path, declared: bytes, found: 0, crc: seen, cancelled, fault: None };
        let told = (self.each)(Entry::File { path, bytes, content: &mut content });
        let told = told.and_then(|()| io::copy(&mut content, &mut io::sink()));
        // First what is wrong with the archive: the other may only be its echo, or be silent.
        if let Some(fault) = content.fault {
            return Err(fault);
        }
        told.map_err(|source| ArchiveError::Write { entry: quoted(path), source })?;
        if crc.is_some_and(|crc| crc != content.crc.sum()) {
            return Err(ArchiveError::WrongChecksum { entry: quoted(path) });
        }
        self.unpacked_bytes += bytes;
        Ok(())
    }

    pub(super) fn extracted(&self, format: Format) -> Extracted {
        let (files, folders) =
            (self.seen_paths.count(EntryType::File), self.seen_paths.count(EntryType::Folder));
        Extracted { format, files, folders, bytes: self.unpacked_bytes }
    }
}

/// The content of a file, counted as it comes out.
struct Content<'a> {
    source: &'a mut dyn Read,
    path: &'a str,
    declared: u64,
    found: u64,
    crc: Crc,
    cancelled: &'a dyn Fn() -> bool,
    /// Kept here, so that an archive does not become good by a reader that overlooks an error.
    fault: Option<ArchiveError>,
}

impl Content<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        if (self.cancelled)() {
            return Err(ArchiveError::Cancelled);
        }
        let count = loop {
            match self.source.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| ArchiveError::from_read(error, self.path))?,
            }
        };
        self.found += count as u64;
        if self.found > self.declared || (count == 0 && self.found < self.declared) {
            let (entry, declared, found) = (quoted(self.path), self.declared, self.found);
            return Err(ArchiveError::WrongSize { entry, declared, found });
        }
        self.crc.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(READ_BYTES_MAX);
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.fault.is_none() {
            match self.next(buffer) {
                Ok(count) => return Ok(count),
                Err(fault) => self.fault = Some(fault),
            }
        }
        Err(io::Error::other("the archive is not good"))
    }
}
