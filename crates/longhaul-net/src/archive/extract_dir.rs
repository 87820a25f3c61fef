//! The folder that an archive is unpacked into.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::ArchiveError;

/// For the owner alone: it holds what a job is about.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: Mode = Mode::RWXU;

/// Every name is opened in the folder before it and never as a link, so that no path leads out,
/// whatever is put in the way.
pub(super) struct ExtractDir {
    path: PathBuf,
    root: OwnedFd,
}

impl ExtractDir {
    pub(super) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty());
        let root = root.map_err(|error| ArchiveError::Target(error.into()))?;
        let mut inside = fs::read_dir(path).map_err(ArchiveError::Target)?;
        if inside.next().is_some() {
            return Err(ArchiveError::TargetNotEmpty);
        }
        Ok(Self { path: path.to_owned(), root })
    }

    /// Makes a folder, with those around it.
    pub(super) fn folder(&self, path: &str) -> io::Result<()> {
        self.open_folder(path).map(drop)
    }

    /// Makes a file, with the folders around it.
    pub(super) fn file(&self, path: &str, content: &mut dyn Read) -> io::Result<()> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.open_folder(folder)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(folder, name, flags, FILE_MODE)?);
        io::copy(content, &mut file)?;
        Ok(())
    }

    /// Deletes what was written. What cannot be deleted goes with the working folder.
    pub(super) fn clear(&self) {
        if let Err(error) = clear(&self.path) {
            tracing::warn!(%error, "cannot delete what was unpacked of a refused archive");
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
