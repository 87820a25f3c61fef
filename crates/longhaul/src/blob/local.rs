//! Blobs in a folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object_store::local::LocalFileSystem;

use super::error::{BlobError, from_io};

/// Only the owner reads even what is sealed.
const FOLDER_MODE: u32 = 0o700;

/// Opens a folder and makes it if it is not there.
pub(super) fn open(path: &str) -> Result<(LocalFileSystem, PathBuf), BlobError> {
    if path.is_empty() || (path.starts_with("//") && !path.starts_with("///")) {
        return Err(BlobError::refused("the address of a folder is file:PATH"));
    }
    let folder = make(Path::new(path)).map_err(|error| {
        BlobError::Refused(format!("its folder {path} cannot be used: {error}"))
    })?;
    let store = LocalFileSystem::new_with_prefix(&folder)?;
    // A blob counts as written once it would survive a crash of the machine. A job's folder goes with
    // its last blob. Deletions are not synced: a blob that a crash brings back is an orphan.
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

/// Deletes what processes that were killed left of blobs they were writing, if nobody has written to
/// it since: how many that were. The store shows no such files to [`super::Blobs::list`].
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

/// What is in a folder; nothing if it is none, or gone by now.
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

/// Whether it has a name that the store gives to files until they are whole: `<random>#<number>`.
fn is_unfinished(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split_once('#').is_some_and(|(random, number)| {
        random.len() == 32 && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}
