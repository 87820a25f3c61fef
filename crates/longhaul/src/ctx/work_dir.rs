//! Working directories of an attempt.

use std::path::{Path, PathBuf};

use super::Ctx;
use crate::failpoint::{self, Failpoint};
use crate::job::JobError;
use crate::store::{BlobRef, Deletion};

impl Ctx {
    /// Creates a private working directory for this attempt. It is deleted with its content when
    /// the attempt ends.
    pub async fn work_dir(&self) -> Result<PathBuf, JobError> {
        let root = &self.shared().work_root;
        let name = format!("{}-{}-{:08x}", self.id(), self.attempt(), rand::random::<u32>());
        let path = root.join(name);
        let made = path.clone();
        let making = tokio::task::spawn_blocking(move || make_private(&made));
        let made = making.await.map_err(std::io::Error::from).and_then(|made| made);
        made.map_err(|error| {
            let path = path.display();
            JobError::retryable(format!("cannot create the working directory {path}: {error}"))
        })?;
        // Recorded after its creation, because a recorded directory that does not exist counts as
        // deleted.
        self.record_work_dir(&path).await?;
        Ok(path)
    }

    /// Records a working directory, so that its deletion is recorded too.
    pub(super) async fn record_work_dir(&self, path: &Path) -> Result<(), JobError> {
        if !self.outputs().work_dirs.iter().any(|known| known == path) {
            self.outputs().work_dirs.push(path.to_owned());
        }
        if !self.job().has_payload {
            return Ok(());
        }
        failpoint::reach(Failpoint::WorkDirCreated).await;
        let (shared, on_host) = (self.shared(), on_this_host(path));
        self.retry_until_lease_lost(|| {
            shared.store.record_work_dir(&self.0.lease, &on_host, &shared.replica)
        })
        .await?;
        failpoint::reach(Failpoint::WorkDirRecorded).await;
        Ok(())
    }

    /// Deletes the attempt's working directories and records the deletions.
    pub(crate) async fn delete_work_dirs(&self) {
        let work_dirs = std::mem::take(&mut self.outputs().work_dirs);
        let mut deletions = Vec::new();
        for path in work_dirs {
            let (tenant, job) = (self.job().tenant.clone(), self.id());
            let blob = BlobRef { tenant, job, path: on_this_host(&path) };
            let removing = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path));
            match removing.await.map_err(std::io::Error::from).and_then(|removed| removed) {
                Ok(()) => deletions.push(Deletion { blob, failure: None }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    deletions.push(Deletion { blob, failure: None });
                }
                Err(error) => {
                    tracing::error!(%error, job.id = %self.id(), "cannot delete a working directory");
                }
            }
        }
        failpoint::reach(Failpoint::WorkDirDeleted).await;
        if self.job().has_payload
            && !deletions.is_empty()
            && let Err(error) =
                self.shared().store.record_deletions(deletions, &self.shared().replica).await
        {
            tracing::warn!(%error, job.id = %self.id(), "cannot record the deletion of a working directory");
        }
    }
}

/// Prefixes a path with the host's name, because other hosts have the same paths.
fn on_this_host(path: &Path) -> String {
    format!("{}:{}", host(), path.display())
}

pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn make_private(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
