//! Polls the store for the output of attempts in other processes.
//!
//! Like the change poller: notifications only make the next poll come sooner, and without readers nothing
//! is polled.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::EngineState;
use super::change_poller::notification;
use crate::store::OutputStreamStore;

/// Interval between polls without a notification.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum interval between polls, regardless of the number of notifications.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Parts of one stream per poll. If there are more, the next poll follows at once.
const PARTS_MAX: usize = 32;

/// Starts polling, if other processes can share the store.
pub(crate) fn start(shared: &Arc<EngineState>, tasks: &TaskTracker, ended: &CancellationToken) {
    let (shared, ended) = (Arc::clone(shared), ended.clone());
    if shared.store.output_streams().is_some() {
        tasks.spawn(async move {
            if let Some(store) = shared.store.output_streams() {
                tokio::select! {
                    () = poll(&shared, store) => {}
                    () = ended.cancelled() => {}
                }
            }
        });
    }
}

/// Polls all wanted streams with one query, as long as there are any.
async fn poll(shared: &EngineState, store: &dyn OutputStreamStore) {
    let mut notifications = store.output_notifications();
    let mut failures = 0;
    loop {
        let wanted = shared.output_streams.wanted().await;
        // Before the poll, because a notification that arrives during it may be about chunks that it missed.
        notifications.mark_unchanged();
        match store.read_output(&wanted, PARTS_MAX).await {
            Ok(parts) => {
                failures = 0;
                shared.record_store_success();
                let streams = parts.chunk_by(|one, other| one.lease == other.lease);
                let has_more = streams.map(<[_]>::len).any(|count| count >= PARTS_MAX);
                for part in parts {
                    shared.output_streams.receive(part);
                }
                if has_more {
                    continue;
                }
            }
            Err(error) => {
                failures += 1;
                shared.record_store_error(&error);
                tracing::warn!(%error, failures, "cannot poll output streams");
                shared.back_off(failures).await;
                continue;
            }
        }
        shared.clock.sleep(MIN_POLL_INTERVAL).await;
        tokio::select! {
            () = notification(&mut notifications) => {}
            () = shared.clock.sleep(POLL_INTERVAL.saturating_sub(MIN_POLL_INTERVAL)) => {}
        }
    }
}
