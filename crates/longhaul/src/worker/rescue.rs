//! Rescuer: ends attempts whose lease expired, because their worker died or was paused, and returns
//! their jobs to the queue.

use std::sync::Arc;
use std::time::Duration;

use super::maintenance::BATCH_SIZE;
use crate::engine::Shared;
use crate::store::StoreError;

pub(super) async fn run(shared: Arc<Shared>, every: Duration) {
    loop {
        let more = match shared.store.rescue(BATCH_SIZE).await {
            Ok(jobs) => {
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
                jobs.len() == BATCH_SIZE
            }
            Err(error @ StoreError::Broken(_)) => {
                tracing::error!(%error, "the store failed; this process must be restarted");
                shared.record_store_error(&error);
                return std::future::pending().await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot rescue jobs with expired leases");
                false
            }
        };
        if !more {
            shared.clock.sleep(every).await;
        }
    }
}
