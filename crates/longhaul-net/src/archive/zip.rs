//! Zip reader, in the order of the entries in the file.
//!
//! Our own in place of the crate `zip`, because the fields and offsets to check are those that the crate
//! hides, and because two readers of one file may see different files in it.

mod end;
mod record;

use std::io::{BufReader, Read, Seek, SeekFrom};

use flate2::bufread::DeflateDecoder;

use super::ArchiveError;
use super::bounded_read::{ExactLength, fill};
use super::error::{WHOLE, quoted};
use super::path::EntryPath;
use super::reader::{EntryReader, FileHeader};
use super::seen_paths::EntryType;

use end::Directory;
use record::{CentralHeader, LocalHeader};

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Marks AES encryption; the real method is elsewhere.
const AES: u16 = 99;

/// Location of an entry. Its records are read again later, so that a long list takes little memory.
struct EntryLocation {
    offset: u64,
    record_at: u64,
    /// Earliest possible end.
    end_min: u64,
    /// Offset of the next entry or of the directory, where this entry must end.
    end: u64,
}

pub(super) fn read_entries(
    archive: impl Read + Seek,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    let mut archive = BufReader::new(archive);
    let directory = Directory::find(&mut archive, reader.archive_bytes)?;
    reader.expect_entries(directory.entries)?;
    for location in list(&mut archive, &directory, reader)? {
        reader.check_cancelled()?;
        extract_entry(&mut archive, &location, reader)?;
    }
    Ok(())
}

/// Reads and checks the directory before anything is extracted.
fn list(
    archive: &mut (impl Read + Seek),
    directory: &Directory,
    reader: &mut EntryReader<'_>,
) -> Result<Vec<EntryLocation>, ArchiveError> {
    seek(archive, directory.begins_at)?;
    let mut locations = Vec::new();
    let mut record_at = directory.begins_at;
    for _ in 0..directory.entries {
        reader.check_cancelled()?;
        if record_at >= directory.ends_at {
            return Err(ArchiveError::contradiction(WHOLE, "the directory lists fewer entries"));
        }
        let record = CentralHeader::read(archive)?;
        let (path, kind) = admit(&record, reader)?;
        let end_min = record.offset.checked_add(record.bytes_min());
        let end_min = end_min.ok_or_else(|| overlap(path))?;
        match kind {
            // Some writers deflate an empty content to two bytes.
            EntryType::Folder if record.unpacked > 0 || record.packed > 2 => {
                return Err(ArchiveError::contradiction(path, "a folder has content"));
            }
            EntryType::Folder => {}
            EntryType::File => reader.admit_file(record.unpacked, Some(record.packed), path)?,
        }
        locations.push(EntryLocation { offset: record.offset, record_at, end_min, end: 0 });
        record_at += record.bytes;
    }
    if record_at != directory.ends_at {
        return Err(ArchiveError::contradiction(WHOLE, "the directory has a different length"));
    }
    locations.sort_by_key(|location| location.offset);
    let mut next = directory.begins_at;
    for location in locations.iter_mut().rev() {
        location.end = next;
        next = location.offset;
    }
    // The first entry is at byte 0. Gaps are found while extracting.
    if next != 0 {
        return Err(ArchiveError::hidden(WHOLE, "bytes in front of the first entry"));
    }
    if let Some(location) = locations.iter().find(|location| location.end_min > location.end) {
        seek(archive, location.record_at)?;
        return Err(overlap(&CentralHeader::read(archive)?.name));
    }
    Ok(locations)
}

/// Checks the directory record of an entry and records its path.
fn admit<'r>(
    record: &'r CentralHeader,
    reader: &mut EntryReader<'_>,
) -> Result<(&'r str, EntryType), ArchiveError> {
    if record.is_encrypted() || record.method == AES {
        return Err(ArchiveError::Encrypted { entry: quoted(&record.name) });
    }
    if record.is_patch() {
        return Err(ArchiveError::unsupported(&record.name, "a patch"));
    }
    match record.method {
        STORED if record.packed != record.unpacked => {
            Err(ArchiveError::contradiction(&record.name, "it is stored but has two sizes"))
        }
        STORED | DEFLATED => reader.claim(&record.name, |checked| kind(record, checked)),
        method => {
            let what = format!("the compression method {method}");
            Err(ArchiveError::unsupported(&record.name, what))
        }
    }
}

/// Compares the Unix mode and the trailing slash, because programs differ in which one they follow.
fn kind(record: &CentralHeader, checked: &EntryPath<'_>) -> Result<EntryType, ArchiveError> {
    let by_slash = if checked.slash { EntryType::Folder } else { EntryType::File };
    let by_mode = match record.mode >> 12 {
        0 => by_slash,
        0o4 => EntryType::Folder,
        0o10 => EntryType::File,
        other => {
            let what = match other {
                0o1 => "a fifo",
                0o2 | 0o6 => "a device",
                0o12 => "a symbolic link",
                _ => "not a file",
            };
            return Err(ArchiveError::not_a_file(checked.path, what));
        }
    };
    if by_mode != by_slash || (record.is_dos_folder && by_slash == EntryType::File) {
        return Err(ArchiveError::contradiction(checked.path, "it is a file and a folder"));
    }
    Ok(by_slash)
}

fn extract_entry<R: Read + Seek>(
    archive: &mut BufReader<R>,
    location: &EntryLocation,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    seek(archive, location.record_at)?;
    let record = CentralHeader::read(archive)?;
    seek(archive, location.offset)?;
    let local = LocalHeader::read(archive, &record)?;
    local.check(&record)?;
    let checked = super::path::check(&record.name, reader.limits)?;
    let path = checked.path;
    let data_end = location.end_min.saturating_add(local.extra_bytes);
    let descriptor_bytes = location.end.checked_sub(data_end).ok_or_else(|| overlap(path))?;
    if checked.slash {
        let skipped = archive.seek_relative(record.packed.try_into().unwrap_or_default());
        skipped.map_err(ArchiveError::Read)?;
        reader.folder(path)?;
    } else {
        let declared = FileHeader { path, bytes: record.unpacked, crc: Some(record.crc) };
        content(archive, &record, &declared, reader)?;
    }
    check_descriptor(archive, &record, descriptor_bytes)
}

fn content<R: Read>(
    archive: &mut BufReader<R>,
    record: &CentralHeader,
    declared: &FileHeader<'_>,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    if record.method == STORED {
        return reader.file(declared, &mut ExactLength { source: archive, left: record.packed });
    }
    let mut decoder = DeflateDecoder::new(archive.take(record.packed));
    reader.file(declared, &mut decoder)?;
    if decoder.into_inner().limit() > 0 {
        return Err(ArchiveError::hidden(declared.path, "bytes behind its deflated content"));
    }
    Ok(())
}

/// Checks the data descriptor: sizes and checksum behind the content, of an entry that was written before
/// they were known. It has four forms of different lengths.
fn check_descriptor(
    archive: &mut impl Read,
    record: &CentralHeader,
    bytes: u64,
) -> Result<(), ArchiveError> {
    let expected = match (record.has_descriptor(), bytes) {
        (false, 0) => return Ok(()),
        (true, 12 | 16 | 20 | 24) => record.descriptor(bytes >= 20, matches!(bytes, 16 | 24)),
        (true | false, _) => return Err(ArchiveError::hidden(&record.name, "bytes behind it")),
    };
    let mut found = vec![0; expected.len()];
    fill(archive, &mut found, WHOLE)?;
    if found != expected {
        let what = "its data descriptor differs from the directory";
        return Err(ArchiveError::contradiction(&record.name, what));
    }
    Ok(())
}

fn seek(archive: &mut impl Seek, to: u64) -> Result<(), ArchiveError> {
    archive.seek(SeekFrom::Start(to)).map(drop).map_err(ArchiveError::Read)
}

fn overlap(entry: impl AsRef<[u8]>) -> ArchiveError {
    ArchiveError::Overlap { entry: quoted(entry) }
}
