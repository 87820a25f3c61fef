//! Replica heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::slots::Slots;
use crate::ctx::work_dir::host;
use crate::engine::{BuildError, EngineState};
use crate::store::{Heartbeat, StoreError};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a heartbeat after which a replica counts as dead: two heartbeats may get lost.
const SILENT_AFTER: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(super) struct Heartbeats {
    shared: Arc<EngineState>,
    slots: Arc<Slots>,
    concurrency: usize,
    /// True if this process owns the name. False once another process took it while this one was
    /// silent.
    named: Arc<AtomicBool>,
}

/// Sends the first heartbeat, before anything is claimed under a name that another process may
/// have.
pub(crate) async fn begin(shared: &EngineState, concurrency: usize) -> Result<(), BuildError> {
    match shared.store.heartbeat(&beat(shared, 0, concurrency)).await {
        Ok(()) => Ok(()),
        Err(StoreError::NameTaken { replica }) => {
            let known = shared.store.replicas().await.unwrap_or_default();
            let holder = known.into_iter().find(|known| known.heartbeat.replica == replica);
            Err(BuildError::NameTaken { replica, holder: holder.map(Box::new) })
        }
        Err(error) => {
            shared.record_store_error(&error);
            tracing::warn!(%error, "cannot send a heartbeat");
            Ok(())
        }
    }
}

fn beat(shared: &EngineState, running: usize, concurrency: usize) -> Heartbeat {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let mut kinds: Vec<_> = shared.kinds.keys().cloned().collect();
    kinds.sort_unstable();
    Heartbeat {
        replica: shared.replica.clone(),
        run: shared.run,
        role: shared.role.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: host(),
        pid: std::process::id(),
        kinds,
        running: count(running),
        concurrency: count(concurrency),
        silent_after: SILENT_AFTER,
    }
}

impl Heartbeats {
    pub(super) fn new(shared: &Arc<EngineState>, slots: &Arc<Slots>, concurrency: usize) -> Self {
        let (shared, slots) = (Arc::clone(shared), Arc::clone(slots));
        Self { shared, slots, concurrency, named: Arc::new(AtomicBool::new(true)) }
    }

    pub(super) async fn run(&self) {
        let shared = &*self.shared;
        loop {
            shared.clock.sleep(HEARTBEAT_INTERVAL).await;
            let beat = beat(shared, self.slots.running(), self.concurrency);
            let answer = shared.store.heartbeat(&beat).await;
            let taken = matches!(answer, Err(StoreError::NameTaken { .. }));
            self.named.store(!taken, Ordering::Relaxed);
            match answer {
                Ok(()) => {}
                // No job is affected: leases are fenced by their epoch, not by the replica's name.
                Err(error) if taken => {
                    tracing::error!(%error, "another process has taken the name of this replica; give each replica a unique name");
                }
                Err(error) => {
                    shared.record_store_error(&error);
                    tracing::warn!(%error, "cannot send a heartbeat");
                }
            }
        }
    }

    pub(super) async fn deregister(&self) {
        if !self.named.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.shared.store.deregister(&self.shared.replica).await {
            tracing::warn!(%error, "cannot deregister this replica");
        }
    }
}
