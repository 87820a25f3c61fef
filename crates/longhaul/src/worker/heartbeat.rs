//! Signs of life: what others learn of this process, for as long as it lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::slots::Slots;
use crate::engine::{BuildError, Shared};
use crate::store::{Heartbeat, StoreError};

/// How often a process says that it lives.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// After how long a silent one is taken for dead: two heartbeats may get lost.
const SILENT_AFTER: Duration = Duration::from_secs(15);

/// The signs of life of one process.
#[derive(Clone)]
pub(super) struct Heartbeats {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
    concurrency: usize,
    /// Whether the name is ours: not once another process was given it while this one was silent.
    named: Arc<AtomicBool>,
}

/// The first sign of life, before anything is claimed under a name that another process has.
pub(crate) async fn begin(shared: &Shared, concurrency: usize) -> Result<(), BuildError> {
    match shared.store.heartbeat(&beat(shared, 0, concurrency)).await {
        Ok(()) => Ok(()),
        Err(StoreError::NameTaken { replica }) => {
            let known = shared.store.replicas().await.unwrap_or_default();
            let holder = known.into_iter().find(|known| known.heartbeat.replica == replica);
            Err(BuildError::NameTaken { replica, holder: holder.map(Box::new) })
        }
        Err(error) => {
            shared.record_store_error(&error);
            tracing::warn!(%error, "cannot tell the store that this replica lives");
            Ok(())
        }
    }
}

fn beat(shared: &Shared, running: usize, concurrency: usize) -> Heartbeat {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let mut kinds: Vec<_> = shared.kinds.keys().cloned().collect();
    kinds.sort_unstable();
    Heartbeat {
        replica: shared.replica.clone(),
        run: shared.run,
        role: shared.role.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        kinds,
        running: count(running),
        concurrency: count(concurrency),
        silent_after: SILENT_AFTER,
    }
}

impl Heartbeats {
    pub(super) fn new(shared: &Arc<Shared>, slots: &Arc<Slots>, concurrency: usize) -> Self {
        let (shared, slots) = (Arc::clone(shared), Arc::clone(slots));
        Self { shared, slots, concurrency, named: Arc::new(AtomicBool::new(true)) }
    }

    /// Goes on after the first one.
    pub(super) async fn run(&self) {
        let shared = &*self.shared;
        loop {
            shared.clock.sleep(BEAT_EVERY).await;
            let beat = beat(shared, self.slots.running(), self.concurrency);
            let answer = shared.store.heartbeat(&beat).await;
            let taken = matches!(answer, Err(StoreError::NameTaken { .. }));
            self.named.store(!taken, Ordering::Relaxed);
            match answer {
                Ok(()) => {}
                // Nothing is lost by it: what counts on leases is their epoch, not the name.
                Err(error) if taken => tracing::error!(%error, "give each replica its own name"),
                Err(error) => {
                    shared.record_store_error(&error);
                    tracing::warn!(%error, "cannot tell the store that this replica lives");
                }
            }
        }
    }

    /// Says goodbye.
    pub(super) async fn leave(&self) {
        if !self.named.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.shared.store.deregister(&self.shared.replica).await {
            tracing::warn!(%error, "cannot tell the store that this replica stops");
        }
    }
}
