//! `ctx.sleep`: waiting that holds no worker and survives restarts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Ctx;
use super::replay::StepLookup;
use super::step::InFlight;
use crate::job::{JobError, Json, Timestamp};
use crate::store::Checkpoint;

/// What a sleep leaves behind as its checkpoint.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SleepCheckpoint {
    sleep_until: Timestamp,
}

impl Ctx {
    /// Lets the job sleep. It goes back in line until then, so that no worker is held and no
    /// attempt is charged; the handler then runs again, and this returns at once.
    ///
    /// Named like a step, because it is remembered like one. Steps that run beside it are finished
    /// first; what runs beside it outside of steps is dropped, and runs again after the sleep.
    pub async fn sleep(&self, name: impl Into<String>, duration: Duration) -> Result<(), JobError> {
        let result = self.sleep_as(name.into(), duration).await;
        self.state().answered();
        result
    }

    async fn sleep_as(&self, name: String, duration: Duration) -> Result<(), JobError> {
        let clock = &self.0.shared.clock;
        let found = self.ask(&name)?;
        let flight = InFlight::begin(self);
        let until = match found {
            StepLookup::Stored(output) => output.to::<SleepCheckpoint>()?.sleep_until,
            StepLookup::Fresh { position } => {
                // Lets whatever the handler begins beside this begin, so that it is seen.
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
            // Steps beside this one may keep the attempt alive until then.
            clock.sleep_until(until).await;
        }
        Ok(())
    }
}

impl Ctx {
    /// Puts the job off: the attempt ends here, uncharged, and the handler runs again after `delay`. Unlike a
    /// sleep nothing is remembered of it. It never returns.
    pub async fn snooze(&self, delay: Duration) -> JobError {
        let until = self.0.shared.clock.now().after(delay);
        let _guard = SleepGuard::until(self, until);
        std::future::pending().await
    }
}

/// A branch of the handler that sleeps; no longer when dropped.
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
        if let Some(place) = state.sleepers.iter().position(|until| *until == self.until) {
            state.sleepers.swap_remove(place);
        }
    }
}
