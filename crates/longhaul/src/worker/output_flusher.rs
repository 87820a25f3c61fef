//! Flushes the output of attempts in this process to the store, for readers in other processes.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::STOP_TIMEOUT;
use crate::ctx::STORE_RETRY;
use crate::engine::EngineState;
use crate::store::{OutputPosition, OutputStreamStore};

/// Minimum interval between flushes. One flush contains the new chunks of all attempts.
const INTERVAL: Duration = Duration::from_millis(25);
/// Maximum size of a flush in bytes, unless a part is larger.
const FLUSH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time between the end of an attempt and the deletion of its chunks, in which readers still get them.
const KEPT_AFTER_END: Duration = Duration::from_millis(500);

/// Starts flushing, if other processes can share the store.
pub(super) fn start(shared: &Arc<EngineState>, tasks: &TaskTracker, ended: &CancellationToken) {
    let (shared, ended) = (Arc::clone(shared), ended.clone());
    if shared.store.output_streams().is_some() {
        tasks.spawn(async move {
            let Some(store) = shared.store.output_streams() else { return };
            tokio::select! {
                () = flush_loop(&shared, store) => {}
                () = trim_loop(&shared, store) => {}
                () = ended.cancelled() => {}
            }
            let left = shared.output_streams.take_ended(usize::MAX);
            // After a timeout, the maintenance of another replica deletes them.
            tokio::time::timeout(STOP_TIMEOUT, trim(store, &left)).await.ok();
        });
    }
}

async fn flush_loop(shared: &EngineState, store: &dyn OutputStreamStore) {
    loop {
        shared.output_streams.written().await;
        if store.has_peers() {
            let flush = shared.output_streams.take_unflushed(FLUSH_BYTES_MAX);
            for attempt in 1.. {
                if flush.appended.is_empty() {
                    break;
                }
                // Repeated with the same chunks, because the store may have them although it failed.
                let Err(error) = store.append_output(&flush.appended).await else { break };
                shared.record_store_error(&error);
                tracing::warn!(%error, attempt, "cannot flush output streams");
                let random = shared.random.fraction();
                tokio::time::sleep(STORE_RETRY.delay(attempt, random)).await;
            }
            trim(store, &flush.trimmed).await;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Deletes the chunks of attempts that ended a while ago.
async fn trim_loop(shared: &EngineState, store: &dyn OutputStreamStore) {
    loop {
        let ended = shared.output_streams.ended().await;
        tokio::time::sleep(KEPT_AFTER_END).await;
        trim(store, &shared.output_streams.take_ended(ended)).await;
    }
}

async fn trim(store: &dyn OutputStreamStore, positions: &[OutputPosition]) {
    if positions.is_empty() {
        return;
    }
    // Chunks that are left behind are deleted by maintenance.
    if let Err(error) = store.trim_output(positions).await {
        tracing::warn!(%error, "cannot trim output streams");
    }
}
