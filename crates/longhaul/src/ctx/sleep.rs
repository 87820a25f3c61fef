//! Durable sleep: holds no worker and survives restarts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Ctx;
use super::replay::StepLookup;
use super::step::{RunningStep, cancelled};
use crate::job::{JobError, Json, Timestamp};
use crate::store::Checkpoint;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SleepCheckpoint {
    sleep_until: Timestamp,
}

impl Ctx {
    /// Suspends the job. It returns to its queue until then, so that it holds no worker and no
    /// attempt is charged; afterwards the handler runs again, and this call returns at once.
    ///
    /// It has a name like a step, because it stores a checkpoint. Concurrent steps are finished
    /// first; concurrent work outside of steps is dropped, and runs again after the sleep. Returns an error if the job is
    /// cancelled.
    pub async fn sleep(&self, name: impl Into<String>, duration: Duration) -> Result<(), JobError> {
        let result = self.sleep_as(name.into(), duration).await;
        self.state().record_return();
        result
    }

    async fn sleep_as(&self, name: String, duration: Duration) -> Result<(), JobError> {
        let clock = &self.0.shared.clock;
        let found = self.lookup(&name)?;
        let flight = RunningStep::begin(self);
        let until = match found {
            StepLookup::Stored(output) => output.to::<SleepCheckpoint>()?.sleep_until,
            StepLookup::Fresh { position } => {
                if self.is_cancelled() {
                    return Err(cancelled());
                }
                // Lets concurrent branches of the handler start first, so that they are seen.
                tokio::task::yield_now().await;
                let started_at = clock.now();
                let sleep_until = started_at.after(duration);
                let output = Json::from_value(&SleepCheckpoint { sleep_until })?;
                let (lease, alone) = (self.0.lease.clone(), flight.alone());
                let checkpoint = Checkpoint { lease, name, position, output, alone, started_at };
                self.checkpoint(checkpoint).await?;
                sleep_until
            }
        };
        if clock.now() < until {
            let _guard = SleepGuard::until(self, until);
            // Concurrent steps may keep the attempt running until then.
            clock.sleep_until(until).await;
        }
        Ok(())
    }
}

impl Ctx {
    /// Ends the attempt without charging it and runs the handler again after `delay`. Unlike a
    /// sleep it leaves no checkpoint. Never returns.
    pub async fn snooze(&self, delay: Duration) -> JobError {
        let until = self.0.shared.clock.now().after(delay);
        let _guard = SleepGuard::until(self, until);
        std::future::pending().await
    }
}

/// Registers a sleeping branch of the handler until dropped.
struct SleepGuard<'a> {
    ctx: &'a Ctx,
    until: Timestamp,
}

impl<'a> SleepGuard<'a> {
    fn until(ctx: &'a Ctx, until: Timestamp) -> Self {
        ctx.state().sleepers.push(until);
        Self { ctx, until }
    }
}

impl Drop for SleepGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.ctx.state();
        if let Some(index) = state.sleepers.iter().position(|until| *until == self.until) {
            state.sleepers.swap_remove(index);
        }
    }
}
