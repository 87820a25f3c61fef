//! Archives that strangers upload: what is unpacked, and above all what is not.
#![expect(clippy::indexing_slicing, reason = "what the tests share may fail the test that uses it")]

mod bombs;
mod formats;
mod limits;
mod make;
mod mutated;
mod random;
mod tar;
mod target;
mod zip;
mod zip_end;
mod zip_entry;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use longhaul_net::archive::{ArchiveError, Extracted, Limits, extract};
use tempfile::TempDir;

/// Paths below a folder, with the content of files.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// A folder with an archive in it and an empty folder beside.
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

    fn extract(&self, limits: &Limits) -> Result<Extracted, ArchiveError> {
        let extracted = extract(&self.path("archive"), &self.path("into"), limits, &|| false);
        // Whatever it was, it stayed in its folder, and left nothing there if it was refused.
        let beside: Vec<_> = tree(self.work.path()).into_keys().collect();
        let outside = beside.iter().filter(|path| !path.starts_with("into")).count();
        assert_eq!(outside, 1, "{beside:?}");
        if extracted.is_err() {
            assert_eq!(tree(&self.path("into")), Tree::new());
        }
        extracted
    }
}

/// What comes out of an archive.
fn unpacked(archive: &[u8]) -> Tree {
    let bench = Bench::new(archive);
    bench.extract(&Limits::default()).unwrap();
    tree(&bench.path("into"))
}

/// Why an archive is refused.
fn refused(archive: &[u8]) -> ArchiveError {
    refused_by(archive, &Limits::default())
}

fn refused_by(archive: &[u8], limits: &Limits) -> ArchiveError {
    let error = Bench::new(archive).extract(limits).unwrap_err();
    assert!(!error.may_pass(), "{error}");
    error
}

macro_rules! assert_refused {
    ($archive:expr, $pattern:pat) => {
        let error = $crate::archive::refused($archive);
        assert!(matches!(error, $pattern), "{error:?}");
    };
}
use assert_refused;

fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    collect(folder, "", &mut found);
    found
}

fn collect(folder: &Path, prefix: &str, found: &mut Tree) {
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
