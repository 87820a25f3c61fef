//! Estimates `Retry-After` from recent run times and queue lengths.

use std::collections::HashMap;
use std::time::Duration;

use super::idle_map::IdleMap;
use crate::job::{Job, Name, Status, TenantId, Timestamp};
use crate::store::QueueState;
use crate::sync::Mutex;

/// Weight of the newest run in the moving average.
const NEWEST: f64 = 0.2;
/// Maximum age of the count of pending jobs.
const COUNT_AGE_MAX: Duration = Duration::from_secs(2);
const UNKNOWN: Duration = Duration::from_secs(10);
/// Smallest and largest estimate.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Run times by kind, and counts of pending jobs by tenant and queue.
#[derive(Debug, Default)]
pub(crate) struct RetryAfterEstimator {
    seconds: Mutex<HashMap<Name, f64>>,
    waiting: Mutex<IdleMap<TenantId, Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    counted_at: Option<Timestamp>,
    by_queue: HashMap<Name, u64>,
}

impl RetryAfterEstimator {
    /// Records the run time of a completed job.
    pub(crate) fn ran(&self, kind: &Name, took: Duration) {
        let took = took.as_secs_f64();
        let mut seconds = self.seconds.lock();
        if let Some(average) = seconds.get_mut(kind) {
            *average += (took - *average) * NEWEST;
        } else {
            seconds.insert(kind.clone(), took);
        }
    }

    /// Returns whether the tenant's pending jobs should be counted again. True for one caller at a
    /// time.
    pub(crate) fn wants_count(&self, tenant: &TenantId, now: Timestamp) -> bool {
        let mut waiting = self.waiting.lock();
        let known = waiting.entry(tenant, now, |_| false);
        let is_recent = known.counted_at.is_some_and(|at| now.since(at) < COUNT_AGE_MAX);
        if !is_recent {
            known.counted_at = Some(now);
        }
        !is_recent
    }

    /// Records the pending jobs of the tenant's queues.
    pub(crate) fn counted(&self, tenant: &TenantId, queues: &[QueueState], now: Timestamp) {
        let by_queue = queues.iter().map(|queue| (queue.name.clone(), queue.pending)).collect();
        let mut waiting = self.waiting.lock();
        *waiting.entry(tenant, now, |_| false) = Waiting { counted_at: Some(now), by_queue };
    }

    /// Estimates when `job` should be polled again, if `side_by_side` jobs of its kind run at the
    /// same time.
    pub(crate) fn retry_after(&self, job: &Job, side_by_side: usize, now: Timestamp) -> Duration {
        let seconds = self.seconds.lock();
        let Some(average) = seconds.get(&job.kind).copied() else {
            return UNKNOWN;
        };
        drop(seconds);
        let left = match job.status {
            Status::Running => {
                let ran = job.started_at.map_or(0.0, |at| now.since(at).as_secs_f64());
                average - ran
            }
            Status::Pending | Status::Waiting => {
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let rounds =
                    self.waiting(&job.tenant, &job.queue) as f64 / side_by_side.max(1) as f64;
                average * (1.0 + rounds) + job.run_at.since(now).as_secs_f64()
            }
            Status::Completed | Status::Failed | Status::Cancelled => 0.0,
        };
        let (least, most) = BOUNDS;
        Duration::from_secs_f64(left.clamp(least.as_secs_f64(), most.as_secs_f64()).ceil())
    }

    fn waiting(&self, tenant: &TenantId, queue: &Name) -> u64 {
        let waiting = self.waiting.lock();
        waiting.get(tenant).and_then(|known| known.by_queue.get(queue)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_ten_thousand_idle_tenants_are_forgotten() {
        let estimator = RetryAfterEstimator::default();
        let tenant = |number: usize| TenantId::new(format!("tenant-{number}")).unwrap();
        let at = Timestamp::from_millis;
        for number in 0..10_000 {
            assert!(estimator.wants_count(&tenant(number), at(0)));
            estimator.counted(&tenant(number), &[], at(0));
        }
        assert!(!estimator.wants_count(&tenant(0), at(1_999)));
        assert!(estimator.wants_count(&tenant(0), at(2_000)));
        assert!(estimator.wants_count(&tenant(1), at(62_000)));
        assert_eq!(estimator.waiting.lock().len(), 1);
    }
}
