//! How much an archive may hold.

use super::ArchiveError;
use super::error::quoted;

/// Unpacked bytes that no ratio is asked of: a few kilobytes of spaces are no bomb.
pub(super) const RATIO_FREE_BYTES: u64 = 1 << 20;

/// What an archive may hold at most. Each limit has an error of its own.
///
/// Memory is bounded by these, too: for each entry its name (up to 255 bytes, without the folders)
/// is kept in two spellings, which makes some 60 MB at the worst with the defaults. Besides that
/// there are only buffers of a fixed size, of which the largest is zstd's window of 8 MiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together, and of a tar's extended headers; 1 GiB.
    pub bytes_max: u64,
    /// Bytes of one file; 256 MiB.
    pub file_bytes_max: u64,
    /// Files and folders, also folders that only the paths of files name; 100,000.
    pub entries_max: u64,
    /// How many times longer unpacked bytes may be than packed ones; 200. Asked of the archive
    /// as a whole, and in a zip of each entry; the first MiB of either is free.
    pub ratio_max: u64,
    /// How many folders a file may be in, one in the other; 64.
    pub depth_max: u64,
    /// Bytes of a path; 1,024.
    pub path_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes_max: 1 << 30,
            file_bytes_max: 256 << 20,
            entries_max: 100_000,
            ratio_max: 200,
            depth_max: 64,
            path_bytes_max: 1_024,
        }
    }
}

impl Limits {
    /// As many bytes as may come out of `packed` ones.
    pub(super) fn unpacked_max(&self, packed: u64) -> u64 {
        packed.saturating_mul(self.ratio_max).saturating_add(RATIO_FREE_BYTES)
    }

    pub(super) fn check_ratio(
        &self,
        unpacked: u64,
        packed: u64,
        entry: &str,
    ) -> Result<(), ArchiveError> {
        if unpacked <= self.unpacked_max(packed) {
            return Ok(());
        }
        let value = unpacked / packed.max(1);
        Err(ArchiveError::RatioTooHigh { limit: self.ratio_max, value, entry: quoted(entry) })
    }
}
