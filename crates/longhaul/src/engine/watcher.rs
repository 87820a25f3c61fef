//! Watching one job, gap-free.

use std::collections::VecDeque;
use std::time::Duration;

use super::Engine;
use super::watchers::Subscription;
use crate::job::{JobId, Record};
use crate::store::StoreError;

/// How long a change may stay unseen whose hint got lost.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Yields a job's transitions, each once and in order, and ends after the terminal one. Progress
/// is coalesced to the latest.
pub struct Watcher {
    engine: Engine,
    id: JobId,
    subscription: Subscription,
    /// The last version that was yielded; `None` until the first.
    seen: Option<u64>,
    owed: VecDeque<Record>,
    ended: bool,
}

impl Engine {
    /// Watches a job: first its present state, then every transition. With `since`, a version that
    /// was seen before, every transition after that one instead, also those that happened while
    /// nobody watched.
    pub fn watch(&self, id: JobId, since: Option<u64>) -> Watcher {
        let subscription = self.shared.watchers.subscribe(&self.tenant, id);
        let engine = self.clone();
        Watcher { engine, id, subscription, seen: since, owed: VecDeque::new(), ended: false }
    }
}

impl Engine {
    /// Waits for a hint, and looks without one now and then: whoever changed the job may have gone
    /// before it could hint.
    pub(super) async fn wait_or_poll(&self, hint: impl Future<Output = ()>) {
        tokio::select! {
            () = hint => {}
            () = self.shared.clock.sleep(LOOK_EVERY) => {}
        }
    }
}

impl Watcher {
    /// The next state of the job; `None` after the terminal one.
    pub async fn next(&mut self) -> Option<Result<Record, StoreError>> {
        loop {
            if let Some(record) = self.owed.pop_front() {
                self.seen = Some(record.job.version);
                // A terminal transition that a resume has already undone does not end the story.
                self.ended = record.job.status.is_terminal() && self.owed.is_empty();
                return Some(Ok(record));
            }
            if self.ended {
                return None;
            }
            let record = match self.engine.job(self.id).await {
                Ok(record) => record,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            };
            match self.seen {
                None => self.owed.push_back(record),
                Some(seen) if record.job.version > seen => self.owed.extend(record.since(seen)),
                Some(_) if record.job.status.is_terminal() => self.ended = true,
                Some(_) => self.engine.wait_or_poll(self.subscription.changed()).await,
            }
        }
    }
}
