//! Rescuer: ends attempts whose lease expired, because their worker died or was paused, and returns
//! their jobs to the queue.
//!
//! After an outage of the store the leases of all jobs may have expired, although their workers are alive. So nothing
//! is rescued for the duration of one lease, in which these workers renew or release their jobs. A replica that had no
//! outage rescues meanwhile: a worker that alone cannot reach the store is not different from a dead one.

use std::time::Duration;

use tokio::time::Instant;

use super::WorkerSettings;
use super::maintenance::BATCH_SIZE;
use crate::clock::Clock;
use crate::engine::EngineState;
use crate::job::Timestamp;
use crate::store::StoreError;
use crate::sync::Mutex;

/// An outage lasts at least the lease divided by this number: long enough that a store with single failing calls does
/// not prevent rescues, and short enough that no renewed lease expires before the outage is noticed.
const OUTAGE_DIVISOR: u32 = 3;

/// Rescues jobs, except during and shortly after an outage of the store.
pub(super) struct Rescuer<'a> {
    shared: &'a EngineState,
    outages: Mutex<OutageTracker>,
}

/// Outages of the store, as the rescuer sees them.
#[derive(Debug)]
struct OutageTracker {
    lease: Duration,
    /// Time of the first failed call since the last successful one.
    failing_since: Option<Timestamp>,
    /// End of the time without rescues after the last outage.
    held_until: Option<Timestamp>,
}

impl<'a> Rescuer<'a> {
    pub(super) fn new(shared: &'a EngineState, settings: WorkerSettings) -> Self {
        let mut outages = OutageTracker::new(settings.lease);
        if settings.after_outage {
            outages.held_until = Some(shared.clock.now().after(settings.lease));
        }
        Self { shared, outages: Mutex::new(outages) }
    }

    /// Rescues one batch. Returns whether there may be more.
    pub(super) async fn pass(&self) -> Result<bool, StoreError> {
        let rescued = self.rescue().await?;
        Ok(rescued == BATCH_SIZE)
    }

    /// Rescues up to one batch. Returns its size.
    async fn rescue(&self) -> Result<usize, StoreError> {
        let (shared, clock) = (self.shared, &self.shared.clock);
        let (sent_at, sent) = (clock.now(), Instant::now());
        // The store's other maintenance goes on, and its result shows whether the outage is over.
        let limit = if self.outages.lock().may_rescue(sent_at) { BATCH_SIZE } else { 0 };
        let rescued = shared.store.rescue(limit).await;
        self.outages.lock().record(&rescued, sent_at, sent, clock);
        let jobs = match rescued {
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
}

impl OutageTracker {
    fn new(lease: Duration) -> Self {
        Self { lease, failing_since: None, held_until: None }
    }

    /// Returns whether jobs may be rescued now.
    fn may_rescue(&self, now: Timestamp) -> bool {
        let is_away = self.failing_since.is_some_and(|since| self.is_outage(now.since(since)));
        !is_away && self.held_until.is_none_or(|until| until <= now)
    }

    /// Records a call that was sent at `sent_at`.
    fn record<T>(
        &mut self,
        result: &Result<T, StoreError>,
        sent_at: Timestamp,
        sent: Instant,
        clock: &Clock,
    ) {
        if result.is_err() {
            self.failing_since.get_or_insert(sent_at);
            return;
        }
        // A call may have succeeded only because it was repeated until the outage was over. Counted for rescues only,
        // so that a store that is always slow still gets some.
        let lasted = if self.may_rescue(sent_at) { sent.elapsed() } else { Duration::ZERO };
        let now = clock.now();
        let failing = self.failing_since.take().map(|since| now.since(since)).unwrap_or_default();
        let outage = failing.max(lasted);
        if self.is_outage(outage) {
            tracing::warn!(
                ?outage,
                lease = ?self.lease,
                "the store is available again; no job is rescued for the duration of one lease",
            );
            self.held_until = Some(now.after(self.lease));
        }
    }

    fn is_outage(&self, duration: Duration) -> bool {
        duration >= self.lease / OUTAGE_DIVISOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    struct Calls {
        clock: Clock,
        outages: OutageTracker,
    }

    impl Calls {
        fn new() -> Self {
            let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
            Self { clock, outages: OutageTracker::new(LEASE) }
        }

        fn call(&mut self, result: &Result<(), StoreError>) {
            let (sent_at, sent) = (self.clock.now(), Instant::now());
            self.outages.record(result, sent_at, sent, &self.clock);
        }

        fn fail(&mut self) {
            self.call(&Err(StoreError::Unavailable("away".to_owned())));
        }

        async fn wait_5_s(&mut self) {
            let (sent_at, sent) = (self.clock.now(), Instant::now());
            tokio::time::advance(Duration::from_secs(5)).await;
            self.outages.record(&Ok(()), sent_at, sent, &self.clock);
        }

        fn advance(&self, seconds: u64) -> bool {
            self.clock.advance(Duration::from_secs(seconds));
            self.outages.may_rescue(self.clock.now())
        }
    }

    #[tokio::test]
    async fn single_failure_does_not_delay_rescues() {
        let mut calls = Calls::new();
        for _ in 0..10 {
            calls.fail();
            assert!(calls.advance(2));
            calls.call(&Ok(()));
            assert!(calls.advance(2));
        }
    }

    #[tokio::test]
    async fn nothing_is_rescued_in_an_outage_and_one_lease_after_it() {
        let mut calls = Calls::new();
        calls.fail();
        assert!(calls.advance(4));
        assert!(!calls.advance(1), "a third of the lease");
        calls.fail();
        assert!(!calls.advance(3_600));
        calls.call(&Ok(()));
        assert!(!calls.advance(0));
        assert!(!calls.advance(14));
        calls.call(&Ok(()));
        assert!(calls.advance(1), "one lease after the first success, not after the last");
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_succeeds_after_a_long_wait_ends_an_outage() {
        let mut calls = Calls::new();
        for _ in 0..2 {
            calls.wait_5_s().await;
            assert!(!calls.advance(14));
            calls.wait_5_s().await;
            assert!(calls.advance(1), "a slow call that rescues nothing does not count");
        }
    }
}
