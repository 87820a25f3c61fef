//! Pruner: deletes finished jobs past their retention.

use std::sync::Arc;
use std::time::Duration;

use super::maintenance::BATCH_SIZE;
use crate::engine::Shared;

/// Interval between passes.
const INTERVAL: Duration = Duration::from_secs(5);

pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let more = match shared.store.prune(BATCH_SIZE).await {
            Ok(deleted) => deleted == BATCH_SIZE,
            Err(error) => {
                tracing::warn!(%error, "cannot prune expired jobs");
                false
            }
        };
        if !more {
            shared.clock.sleep(INTERVAL).await;
        }
    }
}
