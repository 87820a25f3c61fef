//! Format detection by the first bytes.

use std::io::{BufReader, Read, Seek, SeekFrom};

use flate2::bufread::MultiGzDecoder;

use super::ArchiveError;

/// Window of 8 MiB, which RFC 8878 recommends to support and `zstd -19` needs. `--long` needs more.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Offset of the magic in a tar header.
const USTAR_AT: usize = 257;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    Zip,
    Tar,
    TarGz,
    TarZst,
}

/// Returns the format and length of an archive and rewinds it.
pub(super) fn detect(
    archive: &mut (impl Read + Seek),
) -> Result<(ArchiveFormat, u64), ArchiveError> {
    let bytes = archive.seek(SeekFrom::End(0)).map_err(ArchiveError::Read)?;
    archive.rewind().map_err(ArchiveError::Read)?;
    let mut head = Vec::new();
    archive.by_ref().take(512).read_to_end(&mut head).map_err(ArchiveError::Read)?;
    archive.rewind().map_err(ArchiveError::Read)?;
    let tar = head.get(USTAR_AT..).is_some_and(|rest| rest.starts_with(b"ustar"));
    let format = match head.as_slice() {
        // An empty zip starts with its end record.
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => ArchiveFormat::Zip,
        [0x1f, 0x8b, ..] => ArchiveFormat::TarGz,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ArchiveFormat::TarZst,
        _ if tar => ArchiveFormat::Tar,
        _ => return Err(ArchiveError::UnknownFormat),
    };
    Ok((format, bytes))
}

/// Decompresses gzip, which may have several members.
pub(super) fn gunzip(archive: impl Read) -> impl Read {
    MultiGzDecoder::new(BufReader::new(archive))
}

/// Decompresses zstd, which may have several frames.
pub(super) fn unzstd(archive: impl Read) -> Result<impl Read, ArchiveError> {
    let decoder = zstd::Decoder::with_buffer(BufReader::new(archive));
    let mut decoder = decoder.map_err(ArchiveError::Read)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(ArchiveError::Read)?;
    Ok(decoder)
}
