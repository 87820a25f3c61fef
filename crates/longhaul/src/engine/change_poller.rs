//! Looks out for what other processes do to the jobs of a store that they share.
//!
//! The store is the truth and is polled; its hints only hurry the next look. So nothing depends on
//! whether hints get through, and where nobody watches, nothing is asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Shared;
use crate::job::Retry;
use crate::store::ChangeNotifications;

/// How often watched jobs are looked at that nobody hinted at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// And how often at most, however many hints there are.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(50);
/// How the looks get rarer while the store fails.
const FAILING: Retry =
    Retry { max_attempts: u32::MAX, first: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Starts looking, if the store is one that other processes share.
pub(crate) fn start(shared: &Arc<Shared>, tasks: &TaskTracker, ended: &CancellationToken) {
    let Some(ChangeNotifications { ready: line, jobs }) = shared.store.change_notifications()
    else {
        return;
    };
    let (shared, ended) = (Arc::clone(shared), ended.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = wake_for(&shared, line) => {}
            () = look_at_jobs(&shared, jobs) => {}
            () = ended.cancelled() => {}
        }
    });
}

/// Wakes the claim loop when somebody else has put something in line.
async fn wake_for(shared: &Shared, mut line: watch::Receiver<u64>) {
    loop {
        hinted(&mut line).await;
        shared.wake_all();
    }
}

/// Looks at all watched jobs at once, again and again while somebody watches.
async fn look_at_jobs(shared: &Shared, mut jobs: watch::Receiver<u64>) {
    let mut failures = 0;
    loop {
        let watched = shared.watchers.watched().await;
        // Before the look: what is hinted at from here on may have come too late for it.
        jobs.mark_unchanged();
        match shared.store.versions(&watched).await {
            Ok(glimpses) => {
                failures = 0;
                for (job, glimpse) in watched.iter().zip(glimpses) {
                    shared.watchers.observed(job, glimpse);
                }
            }
            Err(error) => {
                failures += 1;
                shared.record_store_error(&error);
                tracing::warn!(%error, failures, "cannot look at the jobs that are watched");
                shared.clock.sleep(FAILING.delay(failures, 1.0)).await;
                continue;
            }
        }
        shared.clock.sleep(LOOK_AT_MOST_EVERY).await;
        tokio::select! {
            () = hinted(&mut jobs) => {}
            () = shared.clock.sleep(LOOK_EVERY.saturating_sub(LOOK_AT_MOST_EVERY)) => {}
        }
    }
}

/// Waits for a hint that was not seen yet. Without anybody to give one: for ever.
async fn hinted(hints: &mut watch::Receiver<u64>) {
    if hints.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
