//! The archive reader: valid archives of every format, and invalid ones.
#![expect(clippy::indexing_slicing, reason = "what the tests share may fail the test that uses it")]

mod bombs;
mod builders;
mod extract_dir;
mod formats;
mod limits;
mod mutated;
mod random;
mod tar;
mod zip;
mod zip_end;
mod zip_entry;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use longhaul_net::archive::{ArchiveError, ArchiveLimits, ArchiveSummary, extract};
use tempfile::TempDir;

/// Paths below a folder, with the content of files.
type FileTree = BTreeMap<String, Option<Vec<u8>>>;

/// Folder with an archive and an empty folder beside it.
struct Bench {
    work: TempDir,
}

impl Bench {
    fn new(archive: &[u8]) -> Self {
        let work = tempfile::tempdir().unwrap();
        fs::write(work.path().join("archive"), archive).unwrap();
        fs::create_dir(work.path().join("into")).unwrap();
        Self { work }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.work.path().join(name)
    }

    fn extract(&self, limits: &ArchiveLimits) -> Result<ArchiveSummary, ArchiveError> {
        let summary = extract(&self.path("archive"), &self.path("into"), limits, &|| false);
        // Whatever it was, it stayed in its folder, and left nothing there if it was rejected.
        let beside: Vec<_> = tree(self.work.path()).into_keys().collect();
        let outside = beside.iter().filter(|path| !path.starts_with("into")).count();
        assert_eq!(outside, 1, "{beside:?}");
        if summary.is_err() {
            assert_eq!(tree(&self.path("into")), FileTree::new());
        }
        summary
    }
}

/// Extracts an archive.
fn unpacked(archive: &[u8]) -> FileTree {
    let bench = Bench::new(archive);
    bench.extract(&ArchiveLimits::default()).unwrap();
    tree(&bench.path("into"))
}

/// Returns the error of an invalid archive.
fn rejected(archive: &[u8]) -> ArchiveError {
    rejected_by(archive, &ArchiveLimits::default())
}

fn rejected_by(archive: &[u8], limits: &ArchiveLimits) -> ArchiveError {
    let error = Bench::new(archive).extract(limits).unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    error
}

macro_rules! assert_refused {
    ($archive:expr, $pattern:pat) => {
        let error = $crate::archive::rejected($archive);
        assert!(matches!(error, $pattern), "{error:?}");
    };
}
use assert_refused;

fn tree(folder: &Path) -> FileTree {
    let mut found = FileTree::new();
    collect(folder, "", &mut found);
    found
}

fn collect(folder: &Path, prefix: &str, found: &mut FileTree) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let is_folder = entry.file_type().unwrap().is_dir();
        if is_folder {
            collect(&entry.path(), &format!("{path}/"), found);
        }
        found.insert(path, (!is_folder).then(|| fs::read(entry.path()).unwrap()));
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
