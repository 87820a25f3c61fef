//! Tar reader.
//!
//! The crate `tar` parses the fields of a header. The iteration is our own, because that of the crate
//! reads extended headers of any length into memory.

mod extended;

use std::io::{BufReader, Read};
use std::mem;

use tar::Header;

use super::ArchiveError;
use super::bounded_read::{ExactLength, RatioLimited, fill};
use super::error::{WHOLE, quoted};
use super::path::EntryPath;
use super::reader::{EntryReader, FileHeader};
use super::seen_paths::EntryType;

use extended::{EntryMeta, ExtendedHeaders};

const BLOCK_BYTES: usize = 512;

/// Zeros behind the end. Tape blocks have 10 KiB by default and are rarely larger than this.
const TAIL_BYTES_MAX: usize = 1 << 20;

pub(super) fn read_entries(
    source: impl Read,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    let (limits, packed) = (reader.limits, reader.archive_bytes);
    let stream = &mut BufReader::new(RatioLimited { source, limits, packed, unpacked: 0 });
    let mut extended = ExtendedHeaders::default();
    let mut block = [0; BLOCK_BYTES];
    let mut first = true;
    loop {
        reader.check_cancelled()?;
        fill(stream, &mut block, WHOLE)?;
        if block.iter().all(|byte| *byte == 0) {
            break;
        }
        let header = Header::from_byte_slice(&block);
        check_header(header, mem::take(&mut first))?;
        if !extended.read(header, stream, reader)? {
            entry(header, &extended.take(header)?, stream, reader)?;
        }
    }
    if extended.is_pending() {
        return Err(ArchiveError::truncated());
    }
    check_tail(stream)
}

/// Checks magic and checksum. Without the magic, the format of the fields is undefined.
fn check_header(header: &Header, first: bool) -> Result<(), ArchiveError> {
    if header.as_ustar().is_none() && header.as_gnu().is_none() {
        return Err(if first {
            ArchiveError::UnknownFormat
        } else {
            ArchiveError::damaged(WHOLE, "a header has no ustar magic")
        });
    }
    // The checksum field itself counts as eight spaces.
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let expected = sum(header.as_bytes()) - sum(&header.as_old().cksum) + 8 * u32::from(b' ');
    if header.cksum().ok() != Some(expected) {
        return Err(ArchiveError::WrongChecksum { entry: quoted(header.path_bytes()) });
    }
    Ok(())
}

fn entry(
    header: &Header,
    meta: &EntryMeta,
    stream: &mut dyn Read,
    reader: &mut EntryReader<'_>,
) -> Result<(), ArchiveError> {
    // Not `entry_type`, which maps the flags of old formats to new ones.
    let [flag] = header.as_old().linkflag;
    let (path, kind) = reader.claim(&meta.name, |checked| kind(flag, checked))?;
    match kind {
        EntryType::Folder if meta.bytes > 0 => {
            Err(ArchiveError::contradiction(path, "a folder has content"))
        }
        EntryType::Folder => reader.folder(path),
        EntryType::File => {
            // The compressed size of one file in a stream is unknown.
            reader.admit_file(meta.bytes, None, path)?;
            let declared = FileHeader { path, bytes: meta.bytes, crc: None };
            reader.file(&declared, &mut ExactLength { source: stream, left: meta.bytes })?;
            skip_padding(stream, meta.bytes, path)
        }
    }
}

fn kind(flag: u8, checked: &EntryPath<'_>) -> Result<EntryType, ArchiveError> {
    let what = match flag {
        // Old formats mark folders by a trailing slash only.
        0 if checked.slash => return Ok(EntryType::Folder),
        b'5' => return Ok(EntryType::Folder),
        b'0' if checked.slash => {
            return Err(ArchiveError::contradiction(checked.path, "a file has a folder's path"));
        }
        0 | b'0' => return Ok(EntryType::File),
        b'1' => "a hard link",
        b'2' => "a symbolic link",
        b'3' | b'4' => "a device",
        b'6' => "a fifo",
        b'S' => "a sparse file",
        _ => {
            let what = format!("the type {}", quoted([flag]));
            return Err(ArchiveError::unsupported(checked.path, what));
        }
    };
    Err(ArchiveError::not_a_file(checked.path, what))
}

fn skip_padding(stream: &mut dyn Read, bytes: u64, entry: &str) -> Result<(), ArchiveError> {
    let mut block = [0; BLOCK_BYTES];
    let over = usize::try_from(bytes % BLOCK_BYTES as u64).unwrap_or_default();
    let padding = (BLOCK_BYTES - over) % BLOCK_BYTES;
    fill(stream, block.get_mut(..padding).unwrap_or_default(), entry)
}

/// Rejects a second archive behind the end, which some programs would read.
fn check_tail(stream: &mut dyn Read) -> Result<(), ArchiveError> {
    let mut buffer = [0; 8 * BLOCK_BYTES];
    let mut tail_bytes = 0;
    loop {
        let read = stream.read(&mut buffer);
        let count = read.map_err(|error| ArchiveError::from_read(error, WHOLE))?;
        tail_bytes += count;
        if count == 0 {
            return Ok(());
        }
        if buffer.iter().take(count).any(|byte| *byte != 0) {
            return Err(ArchiveError::hidden(WHOLE, "bytes behind the end"));
        }
        if tail_bytes > TAIL_BYTES_MAX {
            return Err(ArchiveError::hidden(WHOLE, "more than a MiB of zeros behind the end"));
        }
    }
}
