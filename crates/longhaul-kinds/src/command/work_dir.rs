//! Working folder of an attempt.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::{JobError, JobId};
use tokio::runtime::Handle;

use super::{CommandKind, ProgramUser, orphans};

/// Owner only, because the files belong to a job.
const MODE: u32 = 0o700;
/// Other users may enter the folder and cannot list it, so that they reach their own working folders.
const MODE_WITH_USERS: u32 = 0o711;

/// Retries, because a killed process may still be writing a file.
const DELETE_TRIES: u32 = 10;
const DELETE_PAUSE: Duration = Duration::from_millis(50);

/// Folder that is deleted with its content.
pub(super) struct AttemptDir {
    path: PathBuf,
    job: JobId,
    deleted: bool,
}

impl AttemptDir {
    /// Creates a folder below the kind's `work_root`. Its name is unique even if an attempt runs again or a program of a
    /// crashed server is still alive.
    pub(super) async fn create(
        kind: &CommandKind,
        job: JobId,
        attempt: u32,
    ) -> Result<Self, JobError> {
        let (root, prefix) = (kind.work_root.clone(), format!("{job}-{attempt}-"));
        let has_user = kind.run_as.is_some();
        let creating = tokio::task::spawn_blocking(move || {
            create(&root, has_user, &prefix).map_err(|error| {
                // Not in the job's error, because its tenant need not know the path.
                tracing::warn!(%error, path = %root.display(), "cannot create a working folder");
                JobError::retryable(format!("cannot create a working folder: {error}"))
            })
        });
        Ok(Self { path: creating.await??, job, deleted: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a user the owner of the folder and of `content`, which the user can reach only after all of it is owned.
    pub(super) async fn give_to(
        &self,
        user: &ProgramUser,
        content: impl Iterator<Item = &PathBuf>,
    ) -> Result<(), JobError> {
        let (user, folder) = (user.clone(), self.path.clone());
        let paths: Vec<PathBuf> = content.cloned().chain([folder]).collect();
        let owning = tokio::task::spawn_blocking(move || {
            paths.iter().try_for_each(|path| user.own(path)).map_err(|error| {
                JobError::retryable(format!("cannot prepare the working folder: {error}"))
            })
        });
        owning.await?
    }

    /// Deletes the folder. Dropping does the same in the background.
    pub(super) async fn delete(mut self) {
        delete(self.path.clone(), self.job).await;
        self.deleted = true;
    }
}

impl Drop for AttemptDir {
    fn drop(&mut self) {
        if self.deleted {
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(delete(self.path.clone(), self.job))),
            Err(_) => log(fs::remove_dir_all(&self.path), self.job),
        }
    }
}

fn create(root: &Path, has_user: bool, prefix: &str) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(MODE).create(root)?;
    if has_user {
        fs::set_permissions(root, fs::Permissions::from_mode(MODE_WITH_USERS))?;
    }
    let work_dir = tempfile::Builder::new()
        .prefix(prefix)
        .permissions(fs::Permissions::from_mode(MODE))
        .tempdir_in(root)?;
    Ok(work_dir.keep())
}

async fn delete(path: PathBuf, job: JobId) {
    let mut result = remove(&path).await;
    for _ in 1..DELETE_TRIES {
        if result.is_ok() {
            break;
        }
        tokio::time::sleep(DELETE_PAUSE).await;
        result = remove(&path).await;
    }
    log(result, job);
}

async fn remove(path: &Path) -> io::Result<()> {
    or_gone(tokio::fs::remove_dir_all(path).await)
}

fn or_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn log(result: io::Result<()>, job: JobId) {
    if let Err(error) = result {
        tracing::warn!(%error, job.id = %job, "cannot delete the working folder of a job");
    }
}

/// Kills programs that a crashed server left running, as far as
/// [they can be found](super#after-a-crash), and deletes their folders in `work_root`.
///
/// Call it before the engine starts, because it also kills the programs of running jobs.
pub fn clear_work_root(work_root: &Path) -> io::Result<()> {
    orphans::kill(work_root)?;
    or_gone(fs::remove_dir_all(work_root))
}
