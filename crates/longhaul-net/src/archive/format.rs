//! What an archive is, by its first bytes.

use std::io::{BufReader, Read, Seek, SeekFrom};

use flate2::bufread::MultiGzDecoder;

use super::ArchiveError;

/// What RFC 8878 asks every decoder to take, and `zstd -19` needs; `--long` needs more.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Where a tar has its mark.
const USTAR_AT: usize = 257;

/// The formats that are unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A zip with stored or deflated entries.
    Zip,
    /// A tar, packed by nothing.
    Tar,
    /// A tar in gzip.
    TarGz,
    /// A tar in Zstandard.
    TarZst,
}

/// The format of an archive, and how long it is. Leaves it at its beginning.
pub(super) fn recognise(archive: &mut (impl Read + Seek)) -> Result<(Format, u64), ArchiveError> {
    let bytes = archive.seek(SeekFrom::End(0)).map_err(ArchiveError::Read)?;
    archive.rewind().map_err(ArchiveError::Read)?;
    let mut head = Vec::new();
    archive.by_ref().take(512).read_to_end(&mut head).map_err(ArchiveError::Read)?;
    archive.rewind().map_err(ArchiveError::Read)?;
    let tar = head.get(USTAR_AT..).is_some_and(|rest| rest.starts_with(b"ustar"));
    let format = match head.as_slice() {
        // A zip without entries begins with its end.
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Format::Zip,
        [0x1f, 0x8b, ..] => Format::TarGz,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Format::TarZst,
        _ if tar => Format::Tar,
        _ => return Err(ArchiveError::UnknownFormat),
    };
    Ok((format, bytes))
}

/// The tar in a tar.gz, which may be in several pieces.
pub(super) fn gunzipped(archive: impl Read) -> impl Read {
    MultiGzDecoder::new(BufReader::new(archive))
}

/// The tar in a tar.zst, which may be in several pieces.
pub(super) fn unzstd(archive: impl Read) -> Result<impl Read, ArchiveError> {
    let decoder = zstd::Decoder::with_buffer(BufReader::new(archive));
    let mut decoder = decoder.map_err(ArchiveError::Read)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(ArchiveError::Read)?;
    Ok(decoder)
}
