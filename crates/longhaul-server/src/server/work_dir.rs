//! Working directory of this process, below the one that all processes share.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use longhaul_kinds::command::clear_work_root;

/// Extension of the lock file that the owner of a directory holds.
const LOCK: &str = "lock";

/// A directory that only this process uses.
#[derive(Debug)]
pub(super) struct ProcessWorkDir {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl ProcessWorkDir {
    /// Creates a directory for this process, and clears those of dead processes after killing their
    /// programs. If programs run as other users, these may enter a new `work` directory, but not list it.
    pub(super) fn acquire(work: &Path, has_users: bool) -> io::Result<Self> {
        let mode = if has_users { 0o711 } else { 0o700 };
        fs::DirBuilder::new().recursive(true).mode(mode).create(work)?;
        for entry in fs::read_dir(work)? {
            let lock_path = entry?.path();
            if lock_path.extension().is_some_and(|extension| extension == LOCK) {
                clear_if_dead(&lock_path)?;
            }
        }
        let path = work.join(format!("{}-{:08x}", std::process::id(), rand::random::<u32>()));
        let lock_path = path.with_extension(LOCK);
        let lock = File::create_new(&lock_path)?;
        lock.lock()?;
        Ok(Self { path, lock_path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProcessWorkDir {
    /// The next process clears what remains.
    fn drop(&mut self) {
        if clear_work_root(&self.path).is_ok() {
            fs::remove_file(&self.lock_path).ok();
        }
    }
}

fn clear_if_dead(lock_path: &Path) -> io::Result<()> {
    let lock = match File::options().write(true).open(lock_path) {
        Ok(lock) => lock,
        // Its owner has just exited.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match lock.try_lock() {
        Ok(()) => {
            clear_work_root(&lock_path.with_extension(""))?;
            fs::remove_file(lock_path)
        }
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(data: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(data).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn work_dirs_of_dead_processes_are_cleared() {
        let data = tempfile::tempdir().unwrap();
        let living = ProcessWorkDir::acquire(data.path(), false).unwrap();
        fs::create_dir(living.path()).unwrap();
        let dead = data.path().join("1-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("payload"), "x").unwrap();
        fs::write(dead.with_extension(LOCK), "").unwrap();
        let second = ProcessWorkDir::acquire(data.path(), false).unwrap();
        assert!(living.path().exists() && !dead.exists());
        drop((living, second));
        assert_eq!(names(data.path()), Vec::<PathBuf>::new());
    }
}
