//! The stop button: a chat is cancelled when its only caller disconnects.

use longhaul::store::StoreError;
use longhaul::{Engine, JobId};

/// Cancels a job when it is dropped, unless it was disarmed before.
///
/// A response that is dropped before its end has lost its caller. No other caller waits for the job, because a call
/// without an idempotency key submits a job for itself alone.
#[derive(Debug)]
pub(super) struct DisconnectGuard(Option<(Engine, JobId)>);

impl DisconnectGuard {
    pub(super) fn new(engine: &Engine, job: JobId) -> Self {
        Self(Some((engine.clone(), job)))
    }

    /// Creates a guard without effect.
    pub(super) fn disarmed() -> Self {
        Self(None)
    }

    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for DisconnectGuard {
    fn drop(&mut self) {
        let (Some((engine, job)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            match engine.cancel(job).await {
                // It finished in the meantime.
                Ok(_) | Err(StoreError::WrongStatus { .. }) => {}
                Err(error) => {
                    tracing::warn!(job.id = %job, %error, "cannot cancel the chat of a disconnected caller");
                }
            }
        });
    }
}
