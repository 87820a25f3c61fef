//! Waiting for jobs on behalf of a caller.
//!
//! A wait can outlive the caller's authorization: its API key is revoked, its token expires, its
//! subscription lapses. Every wait therefore ends with a new authorization check.

use std::time::Duration;

use longhaul::job::Record;
use longhaul::{Engine, JobHandle};

use crate::api::AppState;
use crate::api::http::caller::{Authorization, Permission};
use crate::api::http::load_shedding::without_permit;
use crate::problem::Result;

/// Waits until the job has finished, the timeout passes or the server stops, and returns the current
/// record.
///
/// A caller that lost its authorization gets the record of its submission: it may know that the job was
/// accepted, but not what happened since.
pub(crate) async fn for_finish<P: Permission>(
    state: &AppState,
    handle: &JobHandle,
    authorization: &Authorization<P>,
    timeout: Duration,
) -> Result<Record> {
    let submitted = handle.submitted();
    if timeout.is_zero() || submitted.job.status.is_terminal() {
        return Ok(submitted.clone());
    }
    let finished = async {
        tokio::select! {
            finished = handle.wait() => Some(finished),
            () = state.clock.sleep(timeout) => None,
        }
    };
    match wait_and_recheck(state, authorization, finished).await {
        Ok(Some(Some(record))) => Ok(record?),
        Ok(Some(None) | None) => Ok(handle.record().await?),
        Err(_) => Ok(submitted.clone()),
    }
}

/// Waits without a timeout until the job has finished. Returns `None` if the server stops first.
pub(crate) async fn for_result<P: Permission>(
    state: &AppState,
    handle: &JobHandle,
    authorization: &Authorization<P>,
) -> Result<Option<Record>> {
    let finished = wait_and_recheck(state, authorization, handle.wait()).await?;
    Ok(finished.transpose()?)
}

/// Waits until the job has another version than `record`, the timeout passes or the server stops, and
/// returns the current record.
pub(crate) async fn for_change<P: Permission>(
    state: &AppState,
    engine: &Engine,
    record: Record,
    authorization: &Authorization<P>,
    timeout: Duration,
) -> Result<Record> {
    let mut watcher = engine.watch(record.job.id, Some(record.job.version));
    let changed = async {
        tokio::select! {
            _ = watcher.next() => true,
            () = state.clock.sleep(timeout.min(state.settings.sync_wait_max)) => false,
        }
    };
    match wait_and_recheck(state, authorization, changed).await? {
        // The watcher may have yielded an older transition.
        Some(true) => Ok(engine.job(record.job.id).await?),
        Some(false) | None => Ok(record),
    }
}

/// Waits without a load-shedding permit, then re-checks the authorization. `None` if the server stops.
async fn wait_and_recheck<P: Permission, T>(
    state: &AppState,
    authorization: &Authorization<P>,
    wait: impl Future<Output = T>,
) -> Result<Option<T>> {
    let waited = without_permit(async {
        tokio::select! {
            value = wait => Some(value),
            () = state.stop.cancelled() => None,
        }
    });
    let value = waited.await;
    authorization.recheck().await?;
    Ok(value)
}
