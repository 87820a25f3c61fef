//! Background maintenance, run by every replica.
//!
//! - [`rescue`] ends attempts whose lease expired,
//! - [`prune`] deletes finished jobs past their retention,
//! - usage deltas are rolled up into hourly totals.
//!
//! Every task is safe to run concurrently on all replicas.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{prune, rescue};
use crate::engine::Shared;

/// Jobs handled per pass. A full batch is followed by another pass without waiting.
pub(super) const BATCH_SIZE: usize = 500;
/// Interval between roll-ups of usage. Not urgent, because queries also read the deltas.
const ROLL_UP_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn start(
    shared: &Arc<Shared>,
    rescue_interval: Duration,
    tasks: &TaskTracker,
    ended: &CancellationToken,
) {
    let rescuing = rescue::run(Arc::clone(shared), rescue_interval);
    let pruning = prune::run(Arc::clone(shared));
    let rolling_up = roll_up_loop(Arc::clone(shared));
    let ended = ended.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = rescuing => {}
            () = pruning => {}
            () = rolling_up => {}
            () = ended.cancelled() => {}
        }
    });
}

async fn roll_up_loop(shared: Arc<Shared>) {
    loop {
        let more = match shared.store.roll_up_usage(BATCH_SIZE).await {
            Ok(folded) => folded == BATCH_SIZE,
            Err(error) => {
                tracing::warn!(%error, "cannot roll up usage");
                false
            }
        };
        if !more {
            shared.clock.sleep(ROLL_UP_INTERVAL).await;
        }
    }
}
