//! Folder that an archive is extracted into.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::ArchiveError;

/// Owner only, because the files belong to a job.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: Mode = Mode::RWXU;

/// Opens every name relative to its parent and never as a link, so that no path can leave the folder.
pub(super) struct ExtractDir {
    path: PathBuf,
    root: OwnedFd,
}

impl ExtractDir {
    pub(super) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty());
        let root = root.map_err(|error| ArchiveError::ExtractDir(error.into()))?;
        let mut inside = fs::read_dir(path).map_err(ArchiveError::ExtractDir)?;
        if inside.next().is_some() {
            return Err(ArchiveError::ExtractDirNotEmpty);
        }
        Ok(Self { path: path.to_owned(), root })
    }

    /// Creates a folder and its parents.
    pub(super) fn folder(&self, path: &str) -> io::Result<()> {
        self.open_folder(path).map(drop)
    }

    /// Creates a file and its parents.
    pub(super) fn file(&self, path: &str, content: &mut dyn Read) -> io::Result<()> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.open_folder(folder)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(folder, name, flags, FILE_MODE)?);
        io::copy(content, &mut file)?;
        Ok(())
    }

    /// Deletes everything that was extracted. The caller deletes the folder itself.
    pub(super) fn clear(&self) {
        if let Err(error) = clear(&self.path) {
            tracing::warn!(%error, "cannot delete the files of a rejected archive");
        }
    }

    fn open_folder(&self, path: &str) -> io::Result<OwnedFd> {
        let mut folder = self.root.try_clone()?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            folder = match open_in(&folder, name) {
                Err(Errno::NOENT) => {
                    mkdirat(&folder, name, FOLDER_MODE)?;
                    open_in(&folder, name)?
                }
                opened => opened?,
            };
        }
        Ok(folder)
    }
}

fn open_in(folder: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
