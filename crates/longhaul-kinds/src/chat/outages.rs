//! Outages of targets, as this process observes them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::{Clock, Timestamp};

/// Start of the outage of each unreachable target. Waiting jobs are retried less often in a long outage.
#[derive(Debug)]
pub(super) struct Outages {
    clock: Clock,
    /// By name of the target. A std mutex: held for a few field writes, never across an await.
    began: Mutex<HashMap<String, Timestamp>>,
}

impl Outages {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, began: Mutex::default() }
    }

    /// Records that a target is unreachable, and returns for how long it has been.
    pub(super) fn unreachable(&self, target: &str) -> Duration {
        let now = self.clock.now();
        let mut began = self.lock();
        now.since(*began.entry(target.to_owned()).or_insert(now))
    }

    /// Records that a target is reachable.
    pub(super) fn reachable(&self, target: &str) {
        self.lock().remove(target);
    }

    /// Returns true if the last call of the target failed.
    pub(super) fn has(&self, target: &str) -> bool {
        self.lock().contains_key(target)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
