//! Readers with limits.

use std::io::{self, Read};

use super::error::WHOLE;
use super::{ArchiveError, ArchiveLimits};

/// Little-endian numbers and bytes from the front of a record.
pub(super) struct ByteFields<'a>(pub(super) &'a [u8]);

impl<'a> ByteFields<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
}

/// Reads exactly `left` bytes, and fails if the source has fewer.
pub(super) struct ExactLength<'a> {
    pub(super) source: &'a mut dyn Read,
    pub(super) left: u64,
}

impl Read for ExactLength<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&mut *self.source).take(self.left).read(buffer)?;
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// Decompressed stream with a limit on its compression ratio.
pub(super) struct RatioLimited<'a, R> {
    pub(super) source: R,
    pub(super) limits: &'a ArchiveLimits,
    pub(super) packed: u64,
    pub(super) unpacked: u64,
}

impl<R: Read> Read for RatioLimited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.unpacked += count as u64;
        self.limits.check_ratio(self.unpacked, self.packed, WHOLE).map_err(io::Error::other)?;
        Ok(count)
    }
}

pub(super) fn read_array<const N: usize>(source: &mut impl Read) -> Result<[u8; N], ArchiveError> {
    let mut array = [0; N];
    fill(source, &mut array, WHOLE)?;
    Ok(array)
}

pub(super) fn fill(
    source: &mut (impl Read + ?Sized),
    buffer: &mut [u8],
    entry: &str,
) -> Result<(), ArchiveError> {
    source.read_exact(buffer).map_err(|error| ArchiveError::from_read(error, entry))
}
