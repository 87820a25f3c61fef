//! What every replica does for all: ends dead workers' attempts, deletes what has expired, sums up usage.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::Shared;
use crate::store::StoreError;

/// How many jobs one look handles; the next look follows at once while there are as many.
const BATCH: usize = 500;
/// How often expired jobs are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// How often usage is summed up. Nobody waits for it: what is not summed up is read all the same.
const ROLL_UP_EVERY: Duration = Duration::from_secs(10);

pub(super) fn start(
    shared: &Arc<Shared>,
    rescue_interval: Duration,
    tasks: &TaskTracker,
    ended: &CancellationToken,
) {
    let sweeping = sweep_loop(Arc::clone(shared), rescue_interval);
    let expiring = expire_loop(Arc::clone(shared));
    let summing = roll_up_loop(Arc::clone(shared));
    let ended = ended.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = sweeping => {}
            () = expiring => {}
            () = summing => {}
            () = ended.cancelled() => {}
        }
    });
}

async fn sweep_loop(shared: Arc<Shared>, every: Duration) {
    loop {
        let more = match shared.store.rescue(BATCH).await {
            Ok(jobs) => {
                for job in &jobs {
                    tracing::warn!(
                        job.id = %job.id, job.kind = %job.kind, tenant.id = %job.tenant,
                        job.status = %job.status, job.attempt = job.attempt,
                        "a worker lost this job",
                    );
                    shared.watchers.changed(&job.tenant, job.id, job.status, Some(job.version));
                }
                // They are in line again, or make room for others where a limit counted them.
                if !jobs.is_empty() {
                    shared.wake_all();
                }
                jobs.len() == BATCH
            }
            Err(error @ StoreError::Broken(_)) => {
                tracing::error!(%error, "this process cannot go on");
                shared.record_store_error(&error);
                return std::future::pending().await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot sweep");
                false
            }
        };
        if !more {
            shared.clock.sleep(every).await;
        }
    }
}

async fn expire_loop(shared: Arc<Shared>) {
    loop {
        let more = match shared.store.prune(BATCH).await {
            Ok(deleted) => deleted == BATCH,
            Err(error) => {
                tracing::warn!(%error, "cannot delete expired jobs");
                false
            }
        };
        if !more {
            shared.clock.sleep(EXPIRE_EVERY).await;
        }
    }
}

async fn roll_up_loop(shared: Arc<Shared>) {
    loop {
        let more = match shared.store.roll_up_usage(BATCH).await {
            Ok(folded) => folded == BATCH,
            Err(error) => {
                tracing::warn!(%error, "cannot sum up usage");
                false
            }
        };
        if !more {
            shared.clock.sleep(ROLL_UP_EVERY).await;
        }
    }
}
