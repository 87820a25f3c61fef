//! Background maintenance, run by every replica.
//!
//! - [`Rescuer`] ends attempts whose lease expired,
//! - finished jobs past their retention are pruned,
//! - usage deltas are rolled up into hourly totals,
//! - output of attempts that ended with their process is deleted.
//!
//! Every task is safe to run concurrently on all replicas.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::WorkerSettings;
use super::rescue::Rescuer;
use crate::engine::EngineState;
use crate::store::StoreError;

/// Jobs handled per pass. A full batch is followed by another pass without waiting.
pub(super) const BATCH_SIZE: usize = 500;
const PRUNE_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between roll-ups of usage. Not urgent, because queries also read the deltas.
const ROLL_UP_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between deletions of output. Not urgent, because readers ignore it.
const PRUNE_OUTPUT_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn start(
    shared: &Arc<EngineState>,
    settings: WorkerSettings,
    tasks: &TaskTracker,
    ended: &CancellationToken,
) {
    let (shared, ended) = (Arc::clone(shared), ended.clone());
    tasks.spawn(async move {
        let rescuer = Rescuer::new(&shared, settings);
        tokio::select! {
            biased;
            () = repeat(
                "cannot rescue jobs with expired leases",
                || rescuer.pass(),
                || shared.clock.sleep(settings.rescue_interval),
            ) => {}
            () = repeat(
                "cannot prune expired jobs",
                || async { Ok(shared.store.prune(BATCH_SIZE).await? == BATCH_SIZE) },
                || shared.clock.sleep(PRUNE_INTERVAL),
            ) => {}
            () = repeat(
                "cannot roll up usage",
                || async { Ok(shared.store.roll_up_usage(BATCH_SIZE).await? == BATCH_SIZE) },
                || shared.clock.sleep(ROLL_UP_INTERVAL),
            ) => {}
            () = prune_output(&shared) => {}
            () = ended.cancelled() => {}
        }
    });
}

/// Deletes the output of ended attempts, if other processes can share the store.
async fn prune_output(shared: &EngineState) {
    let Some(streams) = shared.store.output_streams() else { return std::future::pending().await };
    repeat(
        "cannot prune output streams",
        || async { Ok(streams.prune_output(BATCH_SIZE).await? == BATCH_SIZE) },
        || shared.clock.sleep(PRUNE_OUTPUT_INTERVAL),
    )
    .await;
}

/// Repeats a pass for ever: at once if it returns that there is more to do, otherwise after a pause.
/// An error is logged with the message `cannot`.
pub(super) async fn repeat<Pass, Pause>(
    cannot: &str,
    pass: impl Fn() -> Pass,
    pause: impl Fn() -> Pause,
) where
    Pass: Future<Output = Result<bool, StoreError>>,
    Pause: Future<Output = ()>,
{
    loop {
        match pass().await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "{cannot}"),
        }
        pause().await;
    }
}
