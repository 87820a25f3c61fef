//! Limits of an archive.

use super::ArchiveError;
use super::error::quoted;

/// Extracted bytes without a ratio limit, because a few kilobytes of spaces are no bomb.
pub(super) const RATIO_FREE_BYTES: u64 = 1 << 20;

/// Limits of an archive, each with its own error.
///
/// They limit memory as well: the name of each entry (up to 255 bytes, without its folders) is kept in
/// two spellings, at most 60 MB with the defaults. All other buffers have a fixed size; the largest is
/// the 8 MiB window of zstd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Bytes of all files and of a tar's extended headers. Defaults to 1 GiB.
    pub bytes_max: u64,
    /// Defaults to 256 MiB.
    pub file_bytes_max: u64,
    /// Files and folders, including folders that only occur in the paths of files. Defaults to 100,000.
    pub entries_max: u64,
    /// Extracted bytes per packed byte, for the whole archive and for each entry of a zip, beyond the
    /// first MiB. Defaults to 200.
    pub ratio_max: u64,
    /// Nested folders. Defaults to 64.
    pub depth_max: u64,
    /// Defaults to 1,024.
    pub path_bytes_max: u64,
}

impl Default for ArchiveLimits {
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

impl ArchiveLimits {
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
