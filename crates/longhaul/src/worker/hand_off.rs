//! Hand-off: a job that is submitted to this process while it has a free slot starts at once, with one commit
//! instead of two.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::attempt::Runner;
use super::claim_loop;
use super::slots::SlotReservation;
use crate::store::{NewJob, StoreError, SubmitResult};

/// Starts submitted jobs in this process.
pub(crate) struct HandOff {
    pub(super) runner: Arc<Runner>,
    /// Running submissions, which a stop waits for, as for claims.
    pub(super) claiming: TaskTracker,
    pub(super) attempts: TaskTracker,
}

impl HandOff {
    /// Reserves a slot for a job, if one is free.
    pub(crate) fn reserve(&self, job: &NewJob) -> Option<SlotReservation> {
        if self.runner.stopping.is_cancelled() {
            return None;
        }
        let reserved = self.runner.slots.reserve(1, 1)?;
        claim_loop::request(&self.runner, &reserved).may_start(job).then_some(reserved)
    }

    /// Submits a job, and starts it if the store has leased it. Returns whether it has started.
    pub(crate) async fn submit(
        &self,
        job: NewJob,
        reserved: SlotReservation,
    ) -> Result<(SubmitResult, bool), StoreError> {
        let (runner, attempts) = (Arc::clone(&self.runner), self.attempts.clone());
        // In a task, so that a caller that stops waiting does not lose the lease.
        let submitting = self.claiming.spawn(async move {
            let claiming = runner.lease_renewer.claiming();
            // Measured before the claim is sent, so that the lease in the store does not end earlier.
            let sent_at = runner.shared.clock.now();
            let want = claim_loop::request(&runner, &reserved);
            let submitted = runner.shared.store.submit_and_claim(job, &want).await;
            let submitted = submitted.map(|(submitted, lease)| {
                let has_started = lease.is_some();
                if let Some(lease) = lease {
                    let slot = runner.slots.take(&lease.job.kind, &lease.job.queue);
                    attempts.spawn(Arc::clone(&runner).run(lease, sent_at, slot));
                }
                (submitted, has_started)
            });
            drop(claiming);
            submitted
        });
        submitting.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }
}
