//! Progress on its way to the store, coalesced to the latest of each job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::Shared;
use crate::job::{JobId, Progress, Status};
use crate::store::{LeaseRef, Report, StoreError};

/// A job's progress is written at most this often: a loop that reports each of a million items
/// must not become a million writes.
const INTERVAL: Duration = Duration::from_millis(100);

/// What running jobs last last.
#[derive(Debug, Default)]
pub(crate) struct ProgressReporter {
    /// A std mutex: held for map accesses, never across an await.
    latest: Mutex<HashMap<JobId, LatestProgress>>,
    some: Notify,
}

#[derive(Debug)]
struct LatestProgress {
    lease: LeaseRef,
    progress: Progress,
    state: WriteState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteState {
    No,
    /// It is on its way, and the end of the attempt may overtake it.
    Maybe,
    Yes,
}

impl ProgressReporter {
    pub(super) fn start(
        shared: &Arc<Shared>,
        tasks: &TaskTracker,
        ended: CancellationToken,
    ) -> Arc<Self> {
        let reports = Arc::new(Self::default());
        let (writer, shared) = (Arc::clone(&reports), Arc::clone(shared));
        tasks.spawn(async move {
            tokio::select! {
                () = writer.write_on(&shared) => {}
                () = ended.cancelled() => {}
            }
        });
        reports
    }

    /// Replaces what the job last before.
    pub(crate) fn put(&self, lease: &LeaseRef, progress: Progress) {
        let latest = LatestProgress { lease: lease.clone(), progress, state: WriteState::No };
        self.lock().insert(lease.job, latest);
        self.some.notify_one();
    }

    /// What the job last last, unless it is stored for certain: it goes with the end of the attempt.
    pub(super) fn take(&self, lease: &LeaseRef) -> Option<Progress> {
        let mut latest = self.lock();
        if latest.get(&lease.job).is_none_or(|latest| latest.lease != *lease) {
            return None;
        }
        let last = latest.remove(&lease.job)?;
        (last.state != WriteState::Yes).then_some(last.progress)
    }

    async fn write_on(&self, shared: &Shared) {
        loop {
            self.some.notified().await;
            let reports = self.begin();
            let leases: Vec<LeaseRef> = reports.iter().map(|report| report.lease.clone()).collect();
            let answers = shared.store.report(reports).await;
            for (lease, answer) in leases.iter().zip(answers) {
                let written = match &answer {
                    Ok(()) => WriteState::Yes,
                    // The attempt has ended, and its last progress went with its end.
                    Err(StoreError::LeaseLost) => continue,
                    Err(error) => {
                        shared.record_store_error(error);
                        tracing::warn!(%error, job.id = %lease.job, "cannot store a job's progress");
                        self.some.notify_one();
                        WriteState::No
                    }
                };
                self.end(lease, written);
                shared.watchers.changed(&lease.tenant, lease.job, Status::Running, None);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// What is not written yet, from now on on its way.
    fn begin(&self) -> Vec<Report> {
        let mut latest = self.lock();
        let unwritten = latest.values_mut().filter(|latest| latest.state == WriteState::No);
        unwritten
            .map(|latest| {
                latest.state = WriteState::Maybe;
                let (lease, progress) = (latest.lease.clone(), Some(latest.progress.clone()));
                Report { lease, phases: Vec::new(), progress }
            })
            .collect()
    }

    /// What was on its way has arrived or not, unless the job has last something else since.
    fn end(&self, lease: &LeaseRef, written: WriteState) {
        if let Some(latest) = self.lock().get_mut(&lease.job)
            && latest.lease == *lease
            && latest.state == WriteState::Maybe
        {
            latest.state = written;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, LatestProgress>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
