//! Who watches what in this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::job::{JobId, Status};

/// Tells watchers that a job may have changed. Only a hint: what changed is read from the store,
/// so a hint too many costs one read and the store remains the truth.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    /// A std mutex: held for a map access, never across an await.
    watched: Arc<Mutex<Watched>>,
    /// Lets the busy path, where nobody watches, skip the lock.
    count: Arc<AtomicUsize>,
}

type Watched = HashMap<JobId, watch::Sender<Hints>>;

/// How often a job was seen to change, and to end, since somebody first watched it.
#[derive(Debug, Default)]
struct Hints {
    changes: u64,
    ends: u64,
}

/// A place in the hub; leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    id: JobId,
    /// There until dropped; taken out under the lock, so that of two that leave at once the second
    /// sees that it is the last.
    hints: Option<watch::Receiver<Hints>>,
    ends_seen: u64,
    watched: Arc<Mutex<Watched>>,
    count: Arc<AtomicUsize>,
}

impl Hub {
    /// Hints at a change of `id`, which now has this status.
    pub(crate) fn changed(&self, id: JobId, status: Status) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(&id) {
            sender.send_modify(|hints| {
                hints.changes += 1;
                hints.ends += u64::from(status.is_terminal());
            });
        }
    }

    /// From now on no change of `id` goes unhinted. Read the job after this, not before.
    pub(crate) fn subscribe(&self, id: JobId) -> Subscription {
        self.count.fetch_add(1, Ordering::AcqRel);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = watched.entry(id).or_insert_with(|| watch::Sender::new(Hints::default()));
        let (hints, ends_seen) = (entry.subscribe(), entry.borrow().ends);
        drop(watched);
        let (watched, count) = (Arc::clone(&self.watched), Arc::clone(&self.count));
        Subscription { id, hints: Some(hints), ends_seen, watched, count }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.watched.lock().unwrap().len()
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
        if watched.get(&self.id).is_some_and(|sender| sender.receiver_count() == 0) {
            watched.remove(&self.id);
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Timestamp;

    #[tokio::test]
    async fn hint_between_subscribing_and_waiting_is_not_lost() {
        let hub = Hub::default();
        let id = JobId::from_parts(Timestamp::from_millis(1), 1);
        let mut one = hub.subscribe(id);
        let mut other = hub.subscribe(id);
        hub.changed(id, Status::Running);
        one.changed().await;
        hub.changed(id, Status::Failed);
        other.ended().await;
    }

    #[test]
    fn nothing_is_left_behind_when_watchers_leave() {
        let hub = Hub::default();
        let id = JobId::from_parts(Timestamp::from_millis(1), 1);
        let one = hub.subscribe(id);
        drop(hub.subscribe(id));
        assert_eq!(hub.len(), 1);
        drop(one);
        assert_eq!(hub.len(), 0);
    }
}
