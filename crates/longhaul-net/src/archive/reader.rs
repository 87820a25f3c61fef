//! Checks the entries of an archive and passes them on.

use std::io::{self, Read};

use flate2::Crc;

use super::error::{WHOLE, quoted};
use super::path::{self, EntryPath};
use super::seen_paths::{EntryType, SeenPaths};
use super::{ArchiveEntry, ArchiveError, ArchiveFormat, ArchiveLimits, ArchiveSummary};

/// Bytes per read, so that a cancellation takes effect soon.
const READ_BYTES_MAX: usize = 64 << 10;

/// Enforces the limits and passes entries to the consumer.
pub(super) struct EntryReader<'a> {
    pub(super) limits: &'a ArchiveLimits,
    pub(super) archive_bytes: u64,
    cancelled: &'a dyn Fn() -> bool,
    each: &'a mut dyn FnMut(ArchiveEntry<'_>) -> io::Result<()>,
    seen_paths: SeenPaths,
    /// Declared bytes so far. Never less than the extracted ones, because no file may exceed its
    /// declared size.
    admitted_bytes: u64,
    unpacked_bytes: u64,
}

pub(super) struct FileHeader<'a> {
    pub(super) path: &'a str,
    pub(super) bytes: u64,
    pub(super) crc: Option<u32>,
}

impl<'a> EntryReader<'a> {
    pub(super) fn new(
        limits: &'a ArchiveLimits,
        archive_bytes: u64,
        cancelled: &'a dyn Fn() -> bool,
        each: &'a mut dyn FnMut(ArchiveEntry<'_>) -> io::Result<()>,
    ) -> Self {
        let (seen_paths, admitted_bytes, unpacked_bytes) = (SeenPaths::default(), 0, 0);
        Self { limits, archive_bytes, cancelled, each, seen_paths, admitted_bytes, unpacked_bytes }
    }

    pub(super) fn check_cancelled(&self) -> Result<(), ArchiveError> {
        if (self.cancelled)() { Err(ArchiveError::Cancelled) } else { Ok(()) }
    }

    /// Checks the declared number of entries before the list is read.
    pub(super) fn expect_entries(&self, value: u64) -> Result<(), ArchiveError> {
        let limit = self.limits.entries_max;
        if value > limit {
            return Err(ArchiveError::TooManyEntries { limit, value, entry: WHOLE.to_owned() });
        }
        Ok(())
    }

    /// Checks a path and records it as seen, with the type that `kind` returns.
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

    /// Counts declared bytes towards the limit.
    pub(super) fn admit(&mut self, bytes: u64, entry: &str) -> Result<(), ArchiveError> {
        let (value, limit) = (self.admitted_bytes.saturating_add(bytes), self.limits.bytes_max);
        if value > limit {
            return Err(ArchiveError::TooManyBytes { limit, value, entry: quoted(entry) });
        }
        self.admitted_bytes = value;
        Ok(())
    }

    /// Checks the declared size of a file. `packed` is its compressed size, if known.
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
        let handled = (self.each)(ArchiveEntry::Folder { path });
        handled.map_err(|source| ArchiveError::Write { entry: quoted(path), source })
    }

    /// Passes a file on, reads the rest of it and checks its size and checksum.
    pub(super) fn file(
        &mut self,
        declared: &FileHeader<'_>,
        source: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let &FileHeader { path, bytes, crc } = declared;
        let (cancelled, seen) = (self.cancelled, Crc::new());
        let mut content =
            Content { source, path, declared: bytes, found: 0, crc: seen, cancelled, fault: None };
        let handled = (self.each)(ArchiveEntry::File { path, bytes, content: &mut content });
        let handled = handled.and_then(|()| io::copy(&mut content, &mut io::sink()));
        // A fault of the archive comes first: the consumer may repeat it or swallow it.
        if let Some(fault) = content.fault {
            return Err(fault);
        }
        handled.map_err(|source| ArchiveError::Write { entry: quoted(path), source })?;
        if crc.is_some_and(|crc| crc != content.crc.sum()) {
            return Err(ArchiveError::WrongChecksum { entry: quoted(path) });
        }
        self.unpacked_bytes += bytes;
        Ok(())
    }

    pub(super) fn summary(&self, format: ArchiveFormat) -> ArchiveSummary {
        let (files, folders) =
            (self.seen_paths.count(EntryType::File), self.seen_paths.count(EntryType::Folder));
        ArchiveSummary { format, files, folders, bytes: self.unpacked_bytes }
    }
}

/// Content of a file, counted while it is read.
struct Content<'a> {
    source: &'a mut dyn Read,
    path: &'a str,
    declared: u64,
    found: u64,
    crc: Crc,
    cancelled: &'a dyn Fn() -> bool,
    /// Kept, so that a consumer that ignores an error cannot make an archive valid.
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
        Err(io::Error::other("the archive is invalid"))
    }
}
