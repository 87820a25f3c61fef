//! End record of a zip, which locates its directory.

use std::io::{Read, Seek};

use super::super::ArchiveError;
use super::super::bounded_read::{ByteFields, fill, read_array};
use super::super::error::WHOLE;
use super::seek;

const SIGNATURE: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const COMMENT_BYTES_MAX: usize = u16::MAX as usize;

const LOCATOR_SIGNATURE: &[u8] = b"PK\x06\x07";
const LOCATOR_BYTES: usize = 20;

const ZIP64_SIGNATURE: &[u8] = b"PK\x06\x06";
const ZIP64_BYTES: usize = 56;

/// Location of the directory and its number of entries.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) entries: u64,
    pub(super) begins_at: u64,
    pub(super) ends_at: u64,
}

/// Values of the plain and the zip64 end record.
struct EndRecord {
    entries: u64,
    directory_bytes: u64,
    directory_at: u64,
}

impl Directory {
    /// Finds the only record that ends with the file, and checks that the directory ends where the end
    /// records start.
    pub(super) fn find(
        archive: &mut (impl Read + Seek),
        archive_bytes: u64,
    ) -> Result<Self, ArchiveError> {
        let at = find_end(archive, archive_bytes)?;
        seek(archive, at)?;
        let plain = plain(&read_array::<END_BYTES>(archive)?)?;
        let (values, record_at) = match locator(archive, at)? {
            Some(zip64_at) => (zip64(archive, zip64_at, at, &plain)?, zip64_at),
            None => (plain, at),
        };
        let EndRecord { entries, directory_bytes, directory_at: begins_at } = values;
        if begins_at.checked_add(directory_bytes) != Some(record_at) {
            return Err(contradiction("the directory does not end at its end record"));
        }
        Ok(Self { entries, begins_at, ends_at: record_at })
    }
}

/// Finds the end record. There must be exactly one, at the end of the file, because some programs follow
/// the first one they find and others the last.
fn find_end(archive: &mut (impl Read + Seek), archive_bytes: u64) -> Result<u64, ArchiveError> {
    let tail_bytes = archive_bytes.min((END_BYTES + COMMENT_BYTES_MAX) as u64);
    let tail_at = archive_bytes - tail_bytes;
    seek(archive, tail_at)?;
    let mut tail = vec![0; usize::try_from(tail_bytes).unwrap_or_default()];
    fill(archive, &mut tail, WHOLE)?;
    let signed = |at: &usize| tail.get(*at..).is_some_and(|rest| rest.starts_with(SIGNATURE));
    let ends_the_file = |at| ends_at(&tail, at) == Some(tail.len());
    let last = (0..tail.len()).rev().find(signed).ok_or_else(ArchiveError::truncated)?;
    if ends_at(&tail, last).is_none_or(|ends_at| ends_at > tail.len()) {
        return Err(ArchiveError::truncated());
    }
    if !ends_the_file(last) {
        let what = "bytes behind the end record, or an end record in the comment,";
        return Err(ArchiveError::hidden(WHOLE, what));
    }
    if (0..last).filter(signed).any(ends_the_file) {
        return Err(contradiction("it has two end records"));
    }
    Ok(tail_at + last as u64)
}

/// Returns the end of the record at `at`, including its comment.
fn ends_at(tail: &[u8], at: usize) -> Option<usize> {
    let mut fields = ByteFields(tail.get(at..)?);
    fields.bytes(END_BYTES - 2)?;
    let comment_bytes = fields.u16()?;
    Some(at + END_BYTES + usize::from(comment_bytes))
}

fn plain(record: &[u8]) -> Result<EndRecord, ArchiveError> {
    let read = || {
        let mut fields = ByteFields(record);
        fields.bytes(SIGNATURE.len())?;
        let disks = (fields.u16()?, fields.u16()?);
        let entries = (fields.u16()?, fields.u16()?);
        let (directory_bytes, directory_at) = (fields.u32()?.into(), fields.u32()?.into());
        let values = EndRecord { entries: entries.1.into(), directory_bytes, directory_at };
        Some((disks == (0, 0) && entries.0 == entries.1, values))
    };
    one_part(read())
}

/// Returns the offset of the zip64 record, if there is a locator for it.
fn locator(archive: &mut (impl Read + Seek), end_at: u64) -> Result<Option<u64>, ArchiveError> {
    let Some(at) = end_at.checked_sub(LOCATOR_BYTES as u64) else { return Ok(None) };
    seek(archive, at)?;
    let locator = read_array::<LOCATOR_BYTES>(archive)?;
    let mut fields = ByteFields(&locator);
    if fields.bytes(LOCATOR_SIGNATURE.len()) != Some(LOCATOR_SIGNATURE) {
        return Ok(None);
    }
    let mut read = || {
        let (disk, at, disks) = (fields.u32()?, fields.u64()?, fields.u32()?);
        Some((disk == 0 && disks <= 1, at))
    };
    one_part(read()).map(Some)
}

/// Reads the zip64 record, which may differ from the plain one only where that one overflows.
fn zip64(
    archive: &mut (impl Read + Seek),
    at: u64,
    end_at: u64,
    plain: &EndRecord,
) -> Result<EndRecord, ArchiveError> {
    if at.checked_add((ZIP64_BYTES + LOCATOR_BYTES) as u64) != Some(end_at) {
        return Err(contradiction("the zip64 end record is in the wrong place"));
    }
    seek(archive, at)?;
    let record = read_array::<ZIP64_BYTES>(archive)?;
    let read = || {
        let mut fields = ByteFields(&record);
        let signed = fields.bytes(ZIP64_SIGNATURE.len())? == ZIP64_SIGNATURE;
        let whole = fields.u64()? == ZIP64_BYTES as u64 - 12;
        fields.u32()?; // versions
        let disks = (fields.u32()?, fields.u32()?);
        let entries = (fields.u64()?, fields.u64()?);
        let (directory_bytes, directory_at) = (fields.u64()?, fields.u64()?);
        let values = EndRecord { entries: entries.1, directory_bytes, directory_at };
        Some((signed && whole && disks == (0, 0) && entries.0 == entries.1, values))
    };
    let values = one_part(read())?;
    let agree = |plain: u64, full: u64, values: u64| plain == full || plain == values;
    let (full16, full32) = (u16::MAX.into(), u32::MAX.into());
    if agree(plain.entries, full16, values.entries)
        && agree(plain.directory_bytes, full32, values.directory_bytes)
        && agree(plain.directory_at, full32, values.directory_at)
    {
        return Ok(values);
    }
    Err(contradiction("its two end records differ"))
}

fn one_part<T>(read: Option<(bool, T)>) -> Result<T, ArchiveError> {
    match read {
        Some((true, values)) => Ok(values),
        Some((false, _)) => Err(contradiction("its end record is that of a multi-part zip")),
        None => Err(ArchiveError::truncated()),
    }
}

fn contradiction(what: &'static str) -> ArchiveError {
    ArchiveError::contradiction(WHOLE, what)
}
