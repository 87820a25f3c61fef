//! Polls the store for cancellations of running jobs, when another replica notifies of some.
//!
//! Only for speed: an attempt whose replica receives no notification learns of its cancellation with its next checkpoint
//! or lease renewal. Not an early renewal, because a renewal writes every lease and splits shared ones.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::lease_renewer::LeaseRenewer;
use crate::engine::EngineState;
use crate::engine::change_poller::notification;
use crate::store::StoreError;

/// Minimum interval between polls, regardless of the number of notifications.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Starts polling, if other processes can share the store.
pub(super) fn start(
    shared: &Arc<EngineState>,
    lease_renewer: &Arc<LeaseRenewer>,
    tasks: &TaskTracker,
    ended: &CancellationToken,
) {
    let Some(notifications) = shared.store.change_notifications() else { return };
    let (shared, lease_renewer) = (Arc::clone(shared), Arc::clone(lease_renewer));
    let ended = ended.clone();
    tasks.spawn(async move {
        let polls = poll_when_notified(&shared, &lease_renewer, notifications.cancellations);
        ended.run_until_cancelled(polls).await;
    });
}

async fn poll_when_notified(
    shared: &EngineState,
    lease_renewer: &LeaseRenewer,
    mut cancellations: watch::Receiver<u64>,
) {
    loop {
        notification(&mut cancellations).await;
        if let Err(error) = poll(shared, lease_renewer).await {
            shared.record_store_error(&error);
            tracing::warn!(%error, "cannot read which jobs were cancelled");
        }
        shared.clock.sleep(MIN_POLL_INTERVAL).await;
    }
}

/// Signals cancellation to the attempts of this replica whose jobs were cancelled.
async fn poll(shared: &EngineState, lease_renewer: &LeaseRenewer) -> Result<(), StoreError> {
    let leases = lease_renewer.leases();
    if leases.is_empty() {
        return Ok(());
    }
    let jobs: Vec<_> = leases.iter().map(|lease| (lease.tenant.clone(), lease.job)).collect();
    let versions = shared.store.versions(&jobs).await?;
    for (lease, version) in leases.iter().zip(versions) {
        if version.is_some_and(|version| version.cancel_requested) {
            lease_renewer.cancel_attempt(lease);
        }
    }
    Ok(())
}
