//! Reads a zip, in the order in which its entries are in the file.
//!
//! This is our own reader, and not the crate `zip`, because what has to be checked are the very
//! fields and offsets that a reader hides; and a file that two readers look at is a file that two
//! readers may see differently.

mod end;
mod record;

use std::io::{BufReader, Read, Seek, SeekFrom};

use flate2::bufread::DeflateDecoder;

use super::ArchiveError;
use super::bounded_read::{Exactly, fill};
use super::error::{WHOLE, quoted};
use super::path::EntryPath;
use super::reader::{EntryReader, FileHeader};
use super::seen_paths::EntryType;

use end::Directory;
use record::{Central, Local};

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Not a method but a mark that AES hides the method.
const AES: u16 = 99;

/// Where an entry is. All else is read again when its turn comes, so that a long list costs little.
struct Place {
    offset: u64,
    record_at: u64,
    /// Where it ends at the earliest.
    end_min: u64,
}

pub(super) fn read_entries(
    archive: impl Read + Seek,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    let mut archive = BufReader::new(archive);
    let directory = Directory::find(&mut archive, reader.archive_bytes)?;
    reader.expect_entries(directory.entries)?;
    let places = list(&mut archive, &directory, reader)?;
    let nexts = places.iter().skip(1).map(|place| place.offset).chain([directory.begins_at]);
    for (place, next) in places.iter().zip(nexts) {
        reader.check_cancelled()?;
        unpack(&mut archive, place, next, reader)?;
    }
    Ok(())
}

/// Reads the directory and refuses what can be refused by it, before anything is unpacked.
fn list(
    archive: &mut (impl Read + Seek),
    directory: &Directory,
    reader: &mut EntryReader<'_>,
) -> Result<Vec<Place>, ArchiveError> {
    seek(archive, directory.begins_at)?;
    let mut places = Vec::new();
    let mut record_at = directory.begins_at;
    for _ in 0..directory.entries {
        reader.check_cancelled()?;
        if record_at >= directory.ends_at {
            return Err(ArchiveError::contradiction(WHOLE, "the directory lists fewer entries"));
        }
        let record = Central::read(archive)?;
        let (path, kind) = admit(&record, reader)?;
        let end_min = record.offset.checked_add(record.bytes_min());
        let end_min = end_min.ok_or_else(|| overlap(path))?;
        match kind {
            // Some writers deflate nothing into two bytes.
            EntryType::Folder if record.unpacked > 0 || record.packed > 2 => {
                return Err(ArchiveError::contradiction(path, "a folder has content"));
            }
            EntryType::Folder => {}
            EntryType::File => reader.admit_file(record.unpacked, Some(record.packed), path)?,
        }
        places.push(Place { offset: record.offset, record_at, end_min });
        record_at += record.bytes;
    }
    if record_at != directory.ends_at {
        return Err(ArchiveError::contradiction(WHOLE, "the directory has another length"));
    }
    places.sort_by_key(|place| place.offset);
    check_places(archive, &places, directory)?;
    Ok(places)
}

/// Checks what the directory says of an entry, and takes its path.
fn admit<'r>(
    record: &'r Central,
    reader: &mut EntryReader<'_>,
) -> Result<(&'r str, EntryType), ArchiveError> {
    let entry = || quoted(&record.name);
    if record.is_encrypted() || record.method == AES {
        return Err(ArchiveError::Encrypted { entry: entry() });
    }
    if record.is_patch() {
        return Err(ArchiveError::Unsupported { entry: entry(), what: "a patch".to_owned() });
    }
    match record.method {
        STORED if record.packed != record.unpacked => {
            Err(ArchiveError::contradiction(&record.name, "it is stored, with two sizes"))
        }
        STORED | DEFLATED => reader.claim(&record.name, |checked| kind(record, checked)),
        method => {
            let what = format!("the compression method {method}");
            Err(ArchiveError::Unsupported { entry: entry(), what })
        }
    }
}

/// By its mode, which Unix programs go by, and by its slash, which all others go by.
fn kind(record: &Central, checked: &EntryPath<'_>) -> Result<EntryType, ArchiveError> {
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
                _ => "no file",
            };
            return Err(ArchiveError::NotAFile { entry: quoted(checked.path), what });
        }
    };
    if by_mode != by_slash || (record.is_dos_folder && by_slash == EntryType::File) {
        return Err(ArchiveError::contradiction(checked.path, "it is a file and a folder"));
    }
    Ok(by_slash)
}

/// From the first byte on, and none over the next. That there is no gap shows later.
fn check_places(
    archive: &mut (impl Read + Seek),
    places: &[Place],
    directory: &Directory,
) -> Result<(), ArchiveError> {
    if places.first().map_or(directory.begins_at, |first| first.offset) != 0 {
        let (entry, what) = (WHOLE.to_owned(), "bytes in front of the first entry");
        return Err(ArchiveError::Hidden { entry, what });
    }
    let nexts = places.iter().skip(1).map(|place| place.offset).chain([directory.begins_at]);
    for (place, next) in places.iter().zip(nexts) {
        if place.end_min > next {
            seek(archive, place.record_at)?;
            return Err(overlap(&Central::read(archive)?.name));
        }
    }
    Ok(())
}

/// Unpacks one entry, which has to end at `next`.
fn unpack<R: Read + Seek>(
    archive: &mut BufReader<R>,
    place: &Place,
    next: u64,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    seek(archive, place.record_at)?;
    let record = Central::read(archive)?;
    seek(archive, place.offset)?;
    let local = Local::read(archive, &record)?;
    local.check(&record)?;
    let checked = super::path::check(&record.name, reader.limits)?;
    let path = checked.path;
    let data_end = place.end_min.saturating_add(local.extra_bytes);
    let descriptor_bytes = next.checked_sub(data_end).ok_or_else(|| overlap(path))?;
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
    record: &Central,
    declared: &FileHeader<'_>,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    if record.method == STORED {
        return reader.file(declared, &mut Exactly { source: archive, left: record.packed });
    }
    let mut decoder = DeflateDecoder::new(archive.take(record.packed));
    reader.file(declared, &mut decoder)?;
    if decoder.into_inner().limit() > 0 {
        let (entry, what) = (quoted(declared.path), "bytes behind its deflated content");
        return Err(ArchiveError::Hidden { entry, what });
    }
    Ok(())
}

/// What may be between an entry's content and the next entry: its sizes and checksum, if it was
/// written before they were known. There are four ways to write it, of different lengths.
fn check_descriptor(
    archive: &mut impl Read,
    record: &Central,
    bytes: u64,
) -> Result<(), ArchiveError> {
    let expected = match (record.has_descriptor(), bytes) {
        (false, 0) => return Ok(()),
        (true, 12 | 16 | 20 | 24) => record.descriptor(bytes >= 20, matches!(bytes, 16 | 24)),
        (true | false, _) => {
            let (entry, what) = (quoted(&record.name), "bytes behind it");
            return Err(ArchiveError::Hidden { entry, what });
        }
    };
    let mut found = vec![0; expected.len()];
    fill(archive, &mut found, WHOLE)?;
    if found != expected {
        let what = "the sizes behind it are not those in the directory";
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
