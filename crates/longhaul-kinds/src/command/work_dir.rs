//! The working work_dir of an attempt.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::{JobError, JobId};
use tokio::runtime::Handle;

use super::orphans;

/// For the owner alone: it holds what a job is about.
const MODE: u32 = 0o700;

/// Processes that were killed a moment ago may still be in the middle of writing a file.
const DELETE_TRIES: u32 = 10;
const DELETE_PAUSE: Duration = Duration::from_millis(50);

/// A work_dir that is deleted with all that is in it.
pub(super) struct WorkDir {
    path: PathBuf,
    job: JobId,
    deleted: bool,
}

impl WorkDir {
    /// A new work_dir below `root`. Its name is unique even where an attempt is run again, or what
    /// a crashed server started is still alive.
    pub(super) async fn create(root: &Path, job: JobId, attempt: u32) -> Result<Self, JobError> {
        let (root, prefix) = (root.to_owned(), format!("{job}-{attempt}-"));
        let creating = tokio::task::spawn_blocking(move || {
            create(&root, &prefix).map_err(|error| {
                JobError::retryable(format!(
                    "cannot create a working work_dir in {}: {error}",
                    root.display()
                ))
            })
        });
        Ok(Self { path: creating.await??, job, deleted: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes it. Dropping does the same, but nobody knows when it is done.
    pub(super) async fn delete(mut self) {
        delete(self.path.clone(), self.job).await;
        self.deleted = true;
    }
}

impl Drop for WorkDir {
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

fn create(root: &Path, prefix: &str) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(MODE).create(root)?;
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
        tracing::warn!(%error, job.id = %job, "cannot delete a job's working work_dir");
    }
}

/// Kills what attempts of a server that was killed have left running, as far as
/// [it can be found](super#after-a-crash), and deletes what they have left in `work_root`.
///
/// For the start of a server, before its engine starts: it would kill running jobs and take their
/// folders away, too.
pub fn clear_work_root(work_root: &Path) -> io::Result<()> {
    orphans::kill(work_root)?;
    or_gone(fs::remove_dir_all(work_root))
}
