//! Rescuer: ends attempts whose lease expired, because their worker died or was paused, and returns
//! their jobs to the queue.

use super::maintenance::BATCH_SIZE;
use crate::engine::EngineState;
use crate::store::StoreError;

/// Rescues one batch. Returns its size.
pub(super) async fn rescue(shared: &EngineState) -> Result<usize, StoreError> {
    let jobs = match shared.store.rescue(BATCH_SIZE).await {
        Err(error @ StoreError::Broken(_)) => {
            tracing::error!(%error, "the store failed; this process must be restarted");
            shared.record_store_error(&error);
            return std::future::pending().await;
        }
        rescued => rescued?,
    };
    for job in &jobs {
        tracing::warn!(
            job.id = %job.id, job.kind = %job.kind, tenant.id = %job.tenant,
            job.status = %job.status, job.attempt = job.attempt,
            "job lease expired; its attempt was ended",
        );
        shared.watchers.changed(&job.tenant, job.id, job.status, Some(job.version));
    }
    // Rescued jobs are pending again, or free capacity under a limit.
    if !jobs.is_empty() {
        shared.wake_all();
    }
    Ok(jobs.len())
}
