//! Who watches what in this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::job::{JobId, Status, TenantId};
use crate::store::JobVersion;

/// Tells watchers that a job may have changed. Only a hint: what changed is read from the store,
/// so a hint too many costs one read and the store remains the truth.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// A std mutex: held for a map access, never across an await.
    watched: Arc<Mutex<Watched>>,
    /// Lets the busy path, where nobody watches, skip the lock.
    count: Arc<AtomicUsize>,
    /// Tells whoever looks for changes that somebody watches again.
    came: Notify,
}

/// By tenant too: whoever watches another tenant's id must not share its hints.
type Watched = HashMap<(TenantId, JobId), WatchedJob>;

/// A job that somebody watches.
#[derive(Debug, Default)]
struct WatchedJob {
    sender: watch::Sender<HintCounts>,
    last_hint: LastHint,
}

/// As what the watchers of a job were last told to read it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LastHint {
    #[default]
    Never,
    /// With this version.
    At(u64),
    /// When it was not there.
    Gone,
}

/// How often a job was seen to change, and to end, since somebody first watched it.
#[derive(Debug, Default)]
struct HintCounts {
    changes: u64,
    ends: u64,
}

/// A place in the watchers; leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    job: (TenantId, JobId),
    /// There until dropped; taken out under the lock, so that of two that leave at once the second
    /// sees that it is the last.
    hints: Option<watch::Receiver<HintCounts>>,
    ends_seen: u64,
    watched: Arc<Mutex<Watched>>,
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
    /// HintCounts at a change of a job that this process made. It has this status now and, if that is
    /// known, this version.
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
        if let Some(entry) = self.lock().get_mut(&(tenant.clone(), id)) {
            if let Some(version) = version {
                entry.last_hint = LastHint::At(version);
            }
            entry.hint(status.is_terminal());
        }
    }

    /// HintCounts at a change of a job that a look at the store has shown, if it is one.
    pub(crate) fn observed(&self, job: &(TenantId, JobId), glimpse: Option<JobVersion>) {
        let (now, ended) = match glimpse {
            Some(JobVersion { version, status }) => (LastHint::At(version), status.is_terminal()),
            None => (LastHint::Gone, true),
        };
        if let Some(entry) = self.lock().get_mut(job)
            && entry.last_hint != now
        {
            entry.last_hint = now;
            entry.hint(ended);
        }
    }

    /// What is watched, once somebody watches something.
    pub(crate) async fn watched(&self) -> Vec<(TenantId, JobId)> {
        loop {
            let watched: Vec<_> = self.lock().keys().cloned().collect();
            if !watched.is_empty() {
                return watched;
            }
            self.came.notified().await;
        }
    }

    /// From now on no change of the job goes unhinted. Read the job after this, not before.
    pub(crate) fn subscribe(&self, tenant: &TenantId, id: JobId) -> Subscription {
        self.count.fetch_add(1, Ordering::AcqRel);
        let job = (tenant.clone(), id);
        let mut watched = self.lock();
        let first = watched.is_empty();
        let entry = watched.entry(job.clone()).or_default();
        let (hints, ends_seen) = (entry.sender.subscribe(), entry.sender.borrow().ends);
        drop(watched);
        if first {
            self.came.notify_one();
        }
        let (watched, count) = (Arc::clone(&self.watched), Arc::clone(&self.count));
        Subscription { job, hints: Some(hints), ends_seen, watched, count }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Subscription {
    /// Waits for the next hint; at once if there was one since the last call.
    pub(crate) async fn changed(&mut self) {
        let Some(hints) = &mut self.hints else { return std::future::pending().await };
        if hints.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the next hint that the job has ended; at once if there was one since the last
    /// call. Spares those who only want the end a read per change.
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

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// A look shows the job like this.
    fn look(watchers: &Watchers, version: u64, status: Status) {
        watchers.observed(&(us(), id()), Some(JobVersion { version, status }));
    }

    /// How often the watchers of the job were told to look.
    fn hints(watchers: &Watchers) -> u64 {
        watchers.lock()[&(us(), id())].sender.borrow().changes
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
        // Nobody knows what the watcher has read: the first look always hints.
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
