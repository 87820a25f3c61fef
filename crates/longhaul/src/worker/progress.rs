//! Progress reports, coalesced to the latest of each job.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::EngineState;
use crate::job::{JobId, Progress, Status};
use crate::store::{LeaseRef, Report, StoreError};
use crate::sync::Mutex;

/// Minimum interval between writes of a job's progress, so that a loop that reports each of a
/// million items does not cause a million writes.
const INTERVAL: Duration = Duration::from_millis(100);

/// The latest progress of running jobs.
#[derive(Debug, Default)]
pub(crate) struct ProgressReporter {
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
    /// The write is running, and the settlement may overtake it.
    Maybe,
    Yes,
}

impl ProgressReporter {
    pub(super) fn start(
        shared: &Arc<EngineState>,
        tasks: &TaskTracker,
        ended: CancellationToken,
    ) -> Arc<Self> {
        let reports = Arc::new(Self::default());
        let (writer, shared) = (Arc::clone(&reports), Arc::clone(shared));
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = writer.write_loop(&shared) => {}
                () = ended.cancelled() => {}
            }
        });
        reports
    }

    /// Replaces the job's progress.
    pub(crate) fn put(&self, lease: &LeaseRef, progress: Progress) {
        let latest = LatestProgress { lease: lease.clone(), progress, state: WriteState::No };
        self.latest.lock().insert(lease.job, latest);
        self.some.notify_one();
    }

    /// Removes the job's progress and returns it unless it is stored, so that the settlement
    /// includes it.
    pub(super) fn take(&self, lease: &LeaseRef) -> Option<Progress> {
        let mut latest = self.latest.lock();
        if latest.get(&lease.job).is_none_or(|latest| latest.lease != *lease) {
            return None;
        }
        let last = latest.remove(&lease.job)?;
        (last.state != WriteState::Yes).then_some(last.progress)
    }

    async fn write_loop(&self, shared: &EngineState) {
        loop {
            self.some.notified().await;
            let reports = self.begin();
            let leases: Vec<LeaseRef> = reports.iter().map(|report| report.lease.clone()).collect();
            let answers = shared.store.report(reports).await;
            for (lease, answer) in leases.iter().zip(answers) {
                let written = match &answer {
                    Ok(()) => WriteState::Yes,
                    // The attempt has ended, and its settlement included the last progress.
                    Err(StoreError::LeaseLost) => continue,
                    Err(error) => {
                        shared.record_store_error(error);
                        tracing::warn!(%error, job.id = %lease.job, "cannot store progress");
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

    /// Returns the unwritten reports and marks them as being written.
    fn begin(&self) -> Vec<Report> {
        let mut latest = self.latest.lock();
        let unwritten = latest.values_mut().filter(|latest| latest.state == WriteState::No);
        unwritten
            .map(|latest| {
                latest.state = WriteState::Maybe;
                let (lease, progress) = (latest.lease.clone(), Some(latest.progress.clone()));
                Report { lease, phases: Vec::new(), progress }
            })
            .collect()
    }

    /// Records the result of a write, unless the job has reported again since.
    fn end(&self, lease: &LeaseRef, written: WriteState) {
        if let Some(latest) = self.latest.lock().get_mut(&lease.job)
            && latest.lease == *lease
            && latest.state == WriteState::Maybe
        {
            latest.state = written;
        }
    }
}
