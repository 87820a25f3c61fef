//! Copies of files with their digests, at a limited rate.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longhaul_server::encoding::hex;
use sha2::{Digest as _, Sha256};

use super::manifest::BackupFile;
use crate::cli::output::progress_bar::TransferBar;
use crate::cli::{CliError, CliResult};

/// Only the owner may read a backup, because inputs and results are not encrypted.
pub(crate) const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
const BUFFER_BYTES: usize = 1024 * 1024;

pub(crate) struct FileCopier<'a> {
    rate: Option<RateLimit>,
    bar: &'a TransferBar,
    done: u64,
    /// Directories with new entries.
    folders: BTreeSet<PathBuf>,
}

/// Size and digest of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl FileDigest {
    pub(super) fn named(self, path: String) -> BackupFile {
        BackupFile { path, bytes: self.bytes, sha256: self.sha256 }
    }
}

/// Spreads bytes over time.
struct RateLimit {
    bytes_per_s: u64,
    /// Earliest time of the next bytes.
    next_at: Option<Instant>,
}

impl RateLimit {
    /// Returns the time to wait before these bytes.
    fn wait(&mut self, bytes: u64, now: Instant) -> Duration {
        let start = self.next_at.map_or(now, |next_at| next_at.max(now));
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.next_at = start.checked_add(cost);
        start.saturating_duration_since(now)
    }
}

impl<'a> FileCopier<'a> {
    /// Creates a copier. `rate` is the maximum number of bytes per second.
    pub(crate) fn new(rate: Option<u64>, bar: &'a TransferBar) -> Self {
        let rate = rate.map(|bytes_per_s| RateLimit { bytes_per_s, next_at: None });
        Self { rate, bar, done: 0, folders: BTreeSet::new() }
    }

    /// Waits until the rate allows this number of bytes, and counts them.
    pub(crate) fn advance(&mut self, bytes: u64) {
        if let Some(rate) = &mut self.rate {
            std::thread::sleep(rate.wait(bytes, Instant::now()));
        }
        self.done += bytes;
        self.bar.set(self.done);
    }

    /// Copies a file to a new one, which only its owner can access, and syncs it. Creates missing directories.
    pub(crate) fn copy(&mut self, from: &Path, to: &Path) -> CliResult<FileDigest> {
        let mut source = File::open(from).map_err(error("read", from))?;
        let mut target = self.create(to).map_err(error("create", to))?;
        let mut hash = Sha256::new();
        let mut bytes = 0;
        self.read(&mut source, from, |piece| {
            hash.update(piece);
            bytes += piece.len() as u64;
            target.write_all(piece).map_err(error("write", to))
        })?;
        target.sync_all().map_err(error("sync", to))?;
        Ok(FileDigest { bytes, sha256: hex(&hash.finalize()) })
    }

    /// Reads a file and returns its digest.
    pub(crate) fn digest(&mut self, path: &Path) -> CliResult<FileDigest> {
        let mut file = File::open(path).map_err(error("read", path))?;
        let mut hash = Sha256::new();
        let mut bytes = 0;
        self.read(&mut file, path, |piece| {
            hash.update(piece);
            bytes += piece.len() as u64;
            Ok(())
        })?;
        Ok(FileDigest { bytes, sha256: hex(&hash.finalize()) })
    }

    fn read(
        &mut self,
        file: &mut File,
        path: &Path,
        mut take: impl FnMut(&[u8]) -> CliResult<()>,
    ) -> CliResult<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = file.read(&mut buffer).map_err(error("read", path))?;
            let piece = buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                return Ok(());
            }
            self.advance(piece.len() as u64);
            take(piece)?;
        }
    }

    fn create(&mut self, path: &Path) -> io::Result<File> {
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
            self.folders.extend(folder.ancestors().map(Path::to_owned));
        }
        File::options().write(true).create_new(true).mode(FILE_MODE).open(path)
    }

    /// Syncs the directories of all new files.
    pub(crate) fn sync_folders(&mut self) -> CliResult<()> {
        for folder in std::mem::take(&mut self.folders) {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            match synced {
                Ok(()) => {}
                // A directory above the backup that this user may not read has no new entries.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(reason) => return Err(error("sync", folder)(reason)),
            }
        }
        Ok(())
    }
}

/// Creates a directory that only its owner can access, unless it exists.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        Ok(())
    } else {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
    }
}

/// Returns a function that describes a failure, for example "cannot read FILE: permission denied".
pub(crate) fn error<'p>(
    action: &'static str,
    path: &'p Path,
) -> impl Fn(io::Error) -> CliError + 'p {
    move |reason| CliError::Other(anyhow::anyhow!("cannot {action} {}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_spreads_bytes_and_saves_no_credit() {
        let start = Instant::now();
        let mut rate = RateLimit { bytes_per_s: 1_000, next_at: None };
        assert_eq!(rate.wait(500, start), Duration::ZERO);
        assert_eq!(rate.wait(500, start), Duration::from_millis(500));
        assert_eq!(rate.wait(500, start + Duration::from_millis(600)), Duration::from_millis(400));
        // The time of a pause cannot be used later.
        let later = start + Duration::from_mins(1);
        assert_eq!(rate.wait(500, later), Duration::ZERO);
        assert_eq!(rate.wait(500, later), Duration::from_millis(500));
    }

    #[test]
    fn copied_file_has_its_digest_and_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b/c/d"));
        std::fs::write(&from, "abc").unwrap();
        let bar = TransferBar::new("x", None, false, crate::cli::output::color::Style::PLAIN);
        let mut copier = FileCopier::new(None, &bar);
        let digest = copier.copy(&from, &to).unwrap();
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
        assert_eq!(digest, FileDigest { bytes: 3, sha256 });
        assert_eq!(copier.digest(&to).unwrap(), digest);
        assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, FILE_MODE);
        copier.sync_folders().unwrap();
        assert!(copier.copy(&from, &to).is_err(), "it replaces no file");
    }
}
