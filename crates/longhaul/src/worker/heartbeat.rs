//! Replica heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::process;
use super::slots::Slots;
use crate::ctx::work_dir::host;
use crate::engine::{BuildError, EngineState};
use crate::metrics;
use crate::store::{Heartbeat, ReplicaState, StoreError};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after a failed heartbeat.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
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
    if let Err(error) = take_over(shared).await {
        tracing::warn!(%error, "cannot look for an earlier process with the name of this replica");
    }
    match send(shared, &beat(shared, 0, concurrency)).await {
        Ok(()) => Ok(()),
        Err(StoreError::NameTaken { replica }) => {
            let holder = holder(shared).await.unwrap_or_default();
            Err(BuildError::NameTaken { replica, holder: holder.map(Box::new) })
        }
        Err(error) => {
            record_failure(shared, &error);
            Ok(())
        }
    }
}

/// Sends a heartbeat. Gives it up when the next one is due, so that a connection that is silent for good ends neither the
/// heartbeats nor the start of a replica.
async fn send(shared: &EngineState, beat: &Heartbeat) -> Result<(), StoreError> {
    tokio::select! {
        biased;
        result = shared.store.heartbeat(beat) => result,
        () = shared.clock.sleep(HEARTBEAT_INTERVAL) => {
            Err(StoreError::Unavailable(format!("no response in {HEARTBEAT_INTERVAL:?}")))
        }
    }
}

fn record_failure(shared: &EngineState, error: &StoreError) {
    metrics::heartbeat_failed();
    shared.record_store_error(error);
    tracing::warn!(%error, "cannot send a heartbeat");
}

/// Returns the process that has the name of this replica.
async fn holder(shared: &EngineState) -> Result<Option<ReplicaState>, StoreError> {
    let known = shared.store.replicas().await?;
    Ok(known.into_iter().find(|known| known.heartbeat.replica == shared.replica))
}

/// Replaces an earlier process with the name of this replica, if it is known to have ended: its name is free at once, and
/// its jobs are rescued without waiting for their leases to run out.
async fn take_over(shared: &EngineState) -> Result<(), StoreError> {
    let Some(ReplicaState { heartbeat, .. }) = holder(shared).await? else { return Ok(()) };
    if !process::has_ended(&heartbeat) {
        return Ok(());
    }
    tracing::info!(
        replica = shared.replica,
        pid = heartbeat.pid,
        "replacing an earlier process with this name that has ended without deregistering",
    );
    shared.store.take_over(&shared.replica, heartbeat.run).await
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
        process: process::IDENTITY.clone(),
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
        let mut pause = HEARTBEAT_INTERVAL;
        loop {
            shared.clock.sleep(pause).await;
            pause = HEARTBEAT_INTERVAL;
            let beat = beat(shared, self.slots.running(), self.concurrency);
            let answer = send(shared, &beat).await;
            let taken = matches!(answer, Err(StoreError::NameTaken { .. }));
            self.named.store(!taken, Ordering::Relaxed);
            match answer {
                Ok(()) => shared.record_store_success(),
                // No job is affected: leases are fenced by their epoch, not by the replica's name.
                Err(error) if taken => {
                    tracing::error!(%error, "another process has taken the name of this replica; give each replica a unique name");
                }
                Err(error) => {
                    record_failure(shared, &error);
                    pause = RETRY_INTERVAL;
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
