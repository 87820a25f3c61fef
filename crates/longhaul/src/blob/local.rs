//! Blobs in a local directory.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object_store::local::LocalFileSystem;

use super::error::{BlobError, from_io};

/// Only the owner may read even encrypted blobs.
const FOLDER_MODE: u32 = 0o700;

/// Opens a directory, which is created if it does not exist.
pub(super) fn open(path: &str) -> Result<(LocalFileSystem, PathBuf), BlobError> {
    if path.is_empty() || (path.starts_with("//") && !path.starts_with("///")) {
        return Err(BlobError::refused("the address of a folder is file:PATH"));
    }
    let folder = make(Path::new(path)).map_err(|error| {
        BlobError::Refused(format!("its folder {path} cannot be used: {error}"))
    })?;
    let store = LocalFileSystem::new_with_prefix(&folder)?;
    // A blob counts as written once it would survive a crash of the machine. A job's directory is
    // removed with its last blob. Deletions are not synced: a blob that reappears after a crash is
    // an orphan.
    Ok((store.with_fsync(true).with_automatic_cleanup(true), folder))
}

fn make(path: &Path) -> io::Result<PathBuf> {
    if !path.is_dir() {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        let folder = path.canonicalize()?;
        if let Some(parent) = folder.parent() {
            File::open(parent)?.sync_all()?;
        }
    }
    path.canonicalize()
}

/// Deletes unfinished files of killed processes that have not been written to since `before`.
/// Returns their number. [`super::Blobs::list`] does not include such files.
pub(super) fn sweep_unfinished(folder: &Path, before: SystemTime) -> Result<u64, BlobError> {
    let mut swept = 0;
    for tenant in entries(folder)? {
        for job in entries(&tenant)? {
            for file in entries(&job)? {
                let is_old = |file: &Path| Some(fs::metadata(file).ok()?.modified().ok()? < before);
                if is_unfinished(&file) && is_old(&file) == Some(true) {
                    swept += u64::from(fs::remove_file(&file).is_ok());
                }
            }
        }
    }
    Ok(swept)
}

/// Returns the entries of a directory; none if it does not exist or is none.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, BlobError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    match read() {
        Ok(paths) => Ok(paths),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(from_io(&error)),
    }
}

/// Returns whether the name is that of an unfinished file: `<random>#<number>`.
fn is_unfinished(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split_once('#').is_some_and(|(random, number)| {
        random.len() == 32 && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}
