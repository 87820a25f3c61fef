//! Polls the store for changes of watched jobs that this process did not notify of.
//!
//! The store is polled; its notifications only make the next poll come sooner. Nothing depends on
//! whether notifications arrive, and without watchers nothing is polled.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::EngineState;
use crate::job::{JobId, TenantId};
use crate::store::ChangeNotifications;

/// Interval between polls without a notification.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between polls of a store that no other process shares. Only a change whose caller was
/// dropped between the commit and its notification is found by them.
const UNSHARED_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum interval between polls, regardless of the number of notifications.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of watched jobs from which on both intervals are twice as long, and so on: a poll reads them all.
const WATCHED_PER_INTERVAL: usize = 2_000;
/// Maximum factor of both intervals.
const INTERVALS_MAX: usize = 5;

/// Starts polling.
pub(crate) fn start(shared: &Arc<EngineState>, tasks: &TaskTracker, ended: &CancellationToken) {
    let notifications = shared.store.change_notifications();
    let (shared, ended) = (Arc::clone(shared), ended.clone());
    tasks.spawn(async move {
        let polls = async {
            match notifications {
                Some(ChangeNotifications { ready: due, jobs, .. }) => {
                    tokio::join!(wake_for(&shared, due), poll_jobs(&shared, jobs));
                }
                None => poll_unshared(&shared).await,
            }
        };
        ended.run_until_cancelled(polls).await;
    });
}

/// Wakes the claim loops when another replica made a job due.
async fn wake_for(shared: &EngineState, mut due: watch::Receiver<u64>) {
    loop {
        notification(&mut due).await;
        shared.wake_all();
    }
}

/// Polls all watched jobs with one query, as long as there are watchers.
async fn poll_jobs(shared: &EngineState, mut jobs: watch::Receiver<u64>) {
    let mut failures = 0;
    loop {
        let watched = shared.watchers.watched().await;
        // Before the poll, because a notification that arrives during it may be about a change that
        // it missed.
        jobs.mark_unchanged();
        if !poll(shared, &watched, &mut failures).await {
            continue;
        }
        let (min_interval, interval) = intervals(watched.len());
        shared.clock.sleep(min_interval).await;
        tokio::select! {
            biased;
            () = notification(&mut jobs) => {}
            () = shared.clock.sleep(interval.saturating_sub(min_interval)) => {}
        }
    }
}

/// Polls all watched jobs of a store that no other process shares.
async fn poll_unshared(shared: &EngineState) {
    let mut failures = 0;
    loop {
        shared.watchers.has_watched().await;
        shared.clock.sleep(UNSHARED_POLL_INTERVAL).await;
        let watched = shared.watchers.watched().await;
        poll(shared, &watched, &mut failures).await;
    }
}

/// Polls these jobs once. Returns false after a failure, when its backoff has passed.
async fn poll(shared: &EngineState, watched: &[(TenantId, JobId)], failures: &mut u32) -> bool {
    match shared.store.versions(watched).await {
        Ok(glimpses) => {
            *failures = 0;
            shared.record_store_success();
            for (job, glimpse) in watched.iter().zip(glimpses) {
                shared.watchers.observed(job, glimpse);
            }
            true
        }
        Err(error) => {
            *failures += 1;
            shared.record_store_error(&error);
            tracing::warn!(%error, failures, "cannot poll watched jobs");
            shared.back_off(*failures).await;
            false
        }
    }
}

/// Returns the minimum interval and the interval between polls of so many jobs.
fn intervals(watched: usize) -> (Duration, Duration) {
    let factor = (1 + watched / WATCHED_PER_INTERVAL).min(INTERVALS_MAX);
    let factor = u32::try_from(factor).unwrap_or(1);
    (MIN_POLL_INTERVAL * factor, POLL_INTERVAL * factor)
}

/// Waits for the next notification; for ever if the store has stopped sending any.
pub(crate) async fn notification(hints: &mut watch::Receiver<u64>) {
    if hints.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_watched_jobs_are_polled_less_often() {
        let millis = |watched| {
            let (min_interval, interval) = intervals(watched);
            (min_interval.as_millis(), interval.as_millis())
        };
        assert_eq!(millis(0), (50, 200));
        assert_eq!(millis(1_999), (50, 200));
        assert_eq!(millis(2_000), (100, 400));
        assert_eq!(millis(10_000_000), (250, 1_000));
    }
}
