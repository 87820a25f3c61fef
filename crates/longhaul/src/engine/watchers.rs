//! Registry of the job watchers of this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

use crate::job::{JobId, Status, TenantId};
use crate::store::JobVersion;
use crate::sync::Mutex;

/// Notifies watchers that a job may have changed. A notification is only a hint: watchers read the
/// job from the store, so that a superfluous one costs one read.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    watched: Arc<Mutex<WatchedJobs>>,
    /// Number of subscriptions, so that changes without watchers need no lock.
    count: Arc<AtomicUsize>,
    /// Wakes the change poller when the first subscription arrives.
    came: Notify,
}

/// Keyed by tenant too, so that watching another tenant's id reveals nothing.
type WatchedJobs = HashMap<(TenantId, JobId), WatchedJob>;

#[derive(Debug, Default)]
struct WatchedJob {
    sender: watch::Sender<HintCounts>,
    last_hint: LastHint,
}

/// The state at the last notification, so that a poll does not repeat it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LastHint {
    #[default]
    Never,
    At(u64),
    /// The job did not exist.
    Gone,
}

/// Number of changes and of ends since the first subscription.
#[derive(Debug, Default)]
struct HintCounts {
    changes: u64,
    ends: u64,
}

/// A subscription to one job. Dropping it unsubscribes.
#[derive(Debug)]
pub(crate) struct WatchSubscription {
    job: (TenantId, JobId),
    /// `Some` until dropped. Taken under the lock, so that of two concurrent drops the second sees
    /// that it is the last.
    hints: Option<watch::Receiver<HintCounts>>,
    ends_seen: u64,
    watched: Arc<Mutex<WatchedJobs>>,
    count: Arc<AtomicUsize>,
}

impl WatchedJob {
    fn hint(&self, ended: bool) {
        self.sender.send_modify(|hints| {
            hints.changes += 1;
            hints.ends += u64::from(ended);
        });
    }
}

impl Watchers {
    /// Notifies of a change that this process made: the job's new status and, if known, its
    /// version.
    pub(crate) fn changed(
        &self,
        tenant: &TenantId,
        id: JobId,
        status: Status,
        version: Option<u64>,
    ) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(entry) = self.watched.lock().get_mut(&(tenant.clone(), id)) {
            if let Some(version) = version {
                entry.last_hint = LastHint::At(version);
            }
            entry.hint(status.is_terminal());
        }
    }

    /// Notifies of a change that a poll found, if it is new.
    pub(crate) fn observed(&self, job: &(TenantId, JobId), glimpse: Option<JobVersion>) {
        let (now, ended) = match glimpse {
            Some(JobVersion { version, status, .. }) => {
                (LastHint::At(version), status.is_terminal())
            }
            None => (LastHint::Gone, true),
        };
        if let Some(entry) = self.watched.lock().get_mut(job)
            && entry.last_hint != now
        {
            entry.last_hint = now;
            entry.hint(ended);
        }
    }

    /// Returns the watched jobs; waits until there is one.
    pub(crate) async fn watched(&self) -> Vec<(TenantId, JobId)> {
        loop {
            self.has_watched().await;
            let watched: Vec<_> = self.watched.lock().keys().cloned().collect();
            if !watched.is_empty() {
                return watched;
            }
        }
    }

    /// Waits until there is a watched job.
    pub(crate) async fn has_watched(&self) {
        while self.watched.lock().is_empty() {
            self.came.notified().await;
        }
    }

    /// Subscribes to a job. Read the job after this call, so that no change is missed.
    pub(crate) fn subscribe(&self, tenant: &TenantId, id: JobId) -> WatchSubscription {
        self.count.fetch_add(1, Ordering::AcqRel);
        let job = (tenant.clone(), id);
        let mut watched = self.watched.lock();
        let first = watched.is_empty();
        let entry = watched.entry(job.clone()).or_default();
        let (hints, ends_seen) = (entry.sender.subscribe(), entry.sender.borrow().ends);
        drop(watched);
        if first {
            self.came.notify_one();
        }
        let (watched, count) = (Arc::clone(&self.watched), Arc::clone(&self.count));
        WatchSubscription { job, hints: Some(hints), ends_seen, watched, count }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.watched.lock().len()
    }
}

impl WatchSubscription {
    /// Waits for the next notification; returns at once if there was one since the last call.
    pub(crate) async fn changed(&mut self) {
        let Some(hints) = &mut self.hints else { return std::future::pending().await };
        if hints.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the next notification that the job has ended. Saves callers that wait for the end
    /// a read per change.
    pub(crate) async fn ended(&mut self) {
        let seen = self.ends_seen;
        let Some(hints) = &mut self.hints else { return std::future::pending().await };
        let ends = hints.wait_for(|hints| hints.ends > seen).await.map(|hints| hints.ends);
        match ends {
            Ok(ends) => self.ends_seen = ends,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for WatchSubscription {
    fn drop(&mut self) {
        let mut watched = self.watched.lock();
        self.hints = None;
        if watched.get(&self.job).is_some_and(|entry| entry.sender.receiver_count() == 0) {
            watched.remove(&self.job);
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Timestamp;

    fn id() -> JobId {
        JobId::from_parts(Timestamp::from_millis(1), 1)
    }

    fn us() -> TenantId {
        TenantId::default()
    }

    /// Simulates the result of a poll.
    fn look(watchers: &Watchers, version: u64, status: Status) {
        watchers
            .observed(&(us(), id()), Some(JobVersion { version, status, cancel_requested: false }));
    }

    /// Returns the number of notifications for the job.
    fn hints(watchers: &Watchers) -> u64 {
        watchers.watched.lock()[&(us(), id())].sender.borrow().changes
    }

    #[tokio::test]
    async fn hint_between_subscribing_and_waiting_is_not_lost() {
        let watchers = Watchers::default();
        let mut one = watchers.subscribe(&us(), id());
        let mut other = watchers.subscribe(&us(), id());
        watchers.changed(&us(), id(), Status::Running, None);
        one.changed().await;
        watchers.changed(&us(), id(), Status::Failed, None);
        other.ended().await;
    }

    #[test]
    fn nothing_is_left_behind_when_watchers_leave() {
        let watchers = Watchers::default();
        let one = watchers.subscribe(&us(), id());
        drop(watchers.subscribe(&us(), id()));
        assert_eq!(watchers.len(), 1);
        drop(one);
        assert_eq!(watchers.len(), 0);
    }

    #[tokio::test]
    async fn look_hints_at_what_moved_and_only_once() {
        let (watchers, job) = (Watchers::default(), (us(), id()));
        let mut watcher = watchers.subscribe(&us(), id());
        // The watcher may have read any version: the first poll always notifies.
        look(&watchers, 1, Status::Pending);
        look(&watchers, 1, Status::Pending);
        assert_eq!(hints(&watchers), 1);
        look(&watchers, 2, Status::Running);
        assert_eq!(hints(&watchers), 2);
        watchers.observed(&job, None);
        watchers.observed(&job, None);
        assert_eq!(hints(&watchers), 3);
        watcher.ended().await;
    }

    #[test]
    fn look_does_not_repeat_what_this_process_did_itself() {
        let watchers = Watchers::default();
        let _watcher = watchers.subscribe(&us(), id());
        watchers.changed(&us(), id(), Status::Running, Some(2));
        look(&watchers, 2, Status::Running);
        assert_eq!(hints(&watchers), 1);
    }

    #[tokio::test]
    async fn tenants_that_watch_one_id_do_not_share_it() {
        let (watchers, other) = (Watchers::default(), TenantId::new("other").unwrap());
        let _theirs = watchers.subscribe(&other, id());
        let _ours = watchers.subscribe(&us(), id());
        assert_eq!(watchers.watched().await.len(), 2);
        watchers.observed(&(other, id()), None);
        assert_eq!(hints(&watchers), 0);
    }

    #[tokio::test]
    async fn looking_waits_until_somebody_watches() {
        let watchers = Arc::new(Watchers::default());
        drop(watchers.subscribe(&us(), id()));
        let looking = tokio::spawn({
            let watchers = Arc::clone(&watchers);
            async move { watchers.watched().await }
        });
        tokio::task::yield_now().await;
        assert!(!looking.is_finished());
        let _watcher = watchers.subscribe(&us(), id());
        assert_eq!(looking.await.unwrap(), [(us(), id())]);
    }
}
