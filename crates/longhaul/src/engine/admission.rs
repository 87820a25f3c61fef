//! Quotas on pending jobs, per tenant and per queue, without a count for each submission.
//!
//! Each process keeps the last count of a quota's pending jobs and the number of jobs that it has
//! accepted since. The sum is never too low for what this process accepts, so that one process
//! never exceeds a quota. It becomes too high as jobs are claimed, and only then the store counts
//! again. Submissions to other replicas are seen at the next count: with several replicas the quota
//! is approximate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::EngineState;
use super::idle_map::IdleMap;
use crate::job::{Name, TenantId, Timestamp};
use crate::store::StoreError;
use crate::sync::Mutex;

/// Minimum interval between counts of a quota that seems to be used up.
const COUNT_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// Maximum age of the count of a quota that is more than half used.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10);

/// Estimate of the pending jobs under one quota.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct PendingCount {
    counted: u64,
    /// `None` before the first count.
    counted_at: Option<Timestamp>,
    /// Jobs accepted since the count.
    accepted: u64,
    /// Admitted submissions without a result yet. The next count may or may not include them.
    in_flight: u64,
    /// Jobs accepted since the running count began, which may have missed them.
    meanwhile: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuotaDecision {
    Admit,
    Reject,
    CountFirst,
}

impl PendingCount {
    /// Upper bound of the pending jobs, apart from those that other replicas accepted.
    fn estimate(&self) -> u64 {
        self.counted.saturating_add(self.accepted).saturating_add(self.in_flight)
    }

    fn decision(&self, max: u64, now: Timestamp) -> QuotaDecision {
        let Some(counted_at) = self.counted_at else { return QuotaDecision::CountFirst };
        let (estimate, age) = (self.estimate(), now.since(counted_at));
        if estimate >= max {
            return if age < COUNT_AT_MOST_EVERY {
                QuotaDecision::Reject
            } else {
                QuotaDecision::CountFirst
            };
        }
        if estimate > max / 2 && age >= COUNT_AGE_MAX {
            return QuotaDecision::CountFirst;
        }
        QuotaDecision::Admit
    }

    fn admit(&mut self) {
        self.in_flight += 1;
    }

    /// Records that an admitted submission was stored, or may have been.
    fn accept(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.record_pending();
    }

    /// Records that an admitted submission was not stored.
    fn release(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records a pending job that needed no admission, for example a resumed one.
    fn record_pending(&mut self) {
        self.accepted += 1;
        self.meanwhile += 1;
    }

    fn begin_count(&mut self) {
        self.meanwhile = 0;
    }

    fn end_count(&mut self, counted: u64, now: Timestamp) {
        self.counted = counted;
        self.counted_at = Some(now);
        self.accepted = self.meanwhile;
    }
}

/// A tenant's total, or one of its queues.
type QuotaKey = (TenantId, Option<Name>);

/// The quotas that this process has used.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Quotas per tenant for single queues.
    queues: HashMap<Name, u64>,
    quotas: Mutex<IdleMap<QuotaKey, Arc<Quota>>>,
}

#[derive(Debug, Default)]
struct Quota {
    count: Mutex<PendingCount>,
    /// Held by the caller that counts, so that concurrent callers share one count.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
pub(super) enum QuotaExceeded {
    /// The quota of this queue, or of the tenant, is used up.
    Full {
        queue: Option<Name>,
        max: u64,
    },
    Store(StoreError),
}

/// Quota for one pending job. Dropping it counts the job as stored, because it may have been.
#[derive(Debug)]
pub(super) struct Reservation(Vec<Arc<Quota>>);

impl Reservation {
    /// Returns the quota, because no job was stored.
    pub(super) fn release(mut self) {
        for quota in std::mem::take(&mut self.0) {
            quota.count.lock().release();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for quota in &self.0 {
            quota.count.lock().accept();
        }
    }
}

impl Quota {
    fn decide(&self, max: u64, now: Timestamp) -> QuotaDecision {
        let mut count = self.count.lock();
        let decision = count.decision(max, now);
        if decision == QuotaDecision::Admit {
            count.admit();
        }
        decision
    }
}

impl Admission {
    pub(super) fn new(queues: HashMap<Name, u64>) -> Self {
        Self { queues, quotas: Mutex::default() }
    }

    /// Reserves quota for one more job of the tenant, whose total may be `max`.
    pub(super) async fn reserve(
        &self,
        tenant: &TenantId,
        queue: &Name,
        max: u64,
        shared: &EngineState,
    ) -> Result<Reservation, QuotaExceeded> {
        let mut reservation = Reservation(Vec::with_capacity(2));
        for (queue, max) in self.quotas_of(queue, max) {
            match self.admit_to((tenant.clone(), queue), max, shared).await {
                Ok(quota) => reservation.0.push(quota),
                Err(full) => {
                    reservation.release();
                    return Err(full);
                }
            }
        }
        Ok(reservation)
    }

    async fn admit_to(
        &self,
        id: QuotaKey,
        max: u64,
        shared: &EngineState,
    ) -> Result<Arc<Quota>, QuotaExceeded> {
        let quota = self.quota(&id, shared.clock.now());
        let mut decision = quota.decide(max, shared.clock.now());
        if decision == QuotaDecision::CountFirst {
            let _counting = quota.counting.lock().await;
            // Another caller may have counted while this one waited for the lock.
            decision = quota.decide(max, shared.clock.now());
            if decision == QuotaDecision::CountFirst {
                quota.count.lock().begin_count();
                let counted = shared.store.count_pending(&id.0, id.1.as_ref(), max).await;
                quota
                    .count
                    .lock()
                    .end_count(counted.map_err(QuotaExceeded::Store)?, shared.clock.now());
                decision = quota.decide(max, shared.clock.now());
            }
        }
        match decision {
            QuotaDecision::Admit => Ok(quota),
            QuotaDecision::Reject | QuotaDecision::CountFirst => {
                Err(QuotaExceeded::Full { queue: id.1, max })
            }
        }
    }

    /// Records a job that became pending without a submission: a resumed or forked one. A quota that is not known is
    /// counted anyway before it is used.
    pub(super) fn record_pending(&self, tenant: &TenantId, queue: &Name) {
        for (queue, _) in self.quotas_of(queue, 0) {
            if let Some(quota) = self.quotas.lock().get(&(tenant.clone(), queue)) {
                quota.count.lock().record_pending();
            }
        }
    }

    /// Returns the quotas that apply to a job in this queue.
    fn quotas_of(&self, queue: &Name, max: u64) -> impl Iterator<Item = (Option<Name>, u64)> {
        let own = self.queues.get(queue).map(|max| (Some(queue.clone()), *max));
        [(None, max)].into_iter().chain(own)
    }

    /// Returns a quota. Those that were not used lately are forgotten, except while submissions hold them.
    fn quota(&self, id: &QuotaKey, now: Timestamp) -> Arc<Quota> {
        let is_held = |quota: &Arc<Quota>| Arc::strong_count(quota) > 1;
        Arc::clone(self.quotas.lock().entry(id, now, is_held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 10;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn counted(jobs: u64) -> PendingCount {
        let mut count = PendingCount::default();
        count.begin_count();
        count.end_count(jobs, at(0));
        count
    }

    #[test]
    fn quota_without_a_count_is_counted_first() {
        assert_eq!(PendingCount::default().decision(MAX, at(0)), QuotaDecision::CountFirst);
        assert_eq!(counted(0).decision(MAX, at(0)), QuotaDecision::Admit);
    }

    #[test]
    fn used_up_quota_is_counted_again_after_a_second() {
        assert_eq!(counted(MAX).decision(MAX, at(999)), QuotaDecision::Reject);
        assert_eq!(counted(MAX).decision(MAX, at(1_000)), QuotaDecision::CountFirst);
        assert_eq!(counted(0).decision(0, at(0)), QuotaDecision::Reject, "none are allowed at all");
    }

    #[test]
    fn old_count_of_a_quota_suffices_while_half_is_free() {
        assert_eq!(counted(MAX / 2).decision(MAX, at(3_600_000)), QuotaDecision::Admit);
        assert_eq!(counted(MAX / 2 + 1).decision(MAX, at(9_999)), QuotaDecision::Admit);
        assert_eq!(counted(MAX / 2 + 1).decision(MAX, at(10_000)), QuotaDecision::CountFirst);
    }

    #[test]
    fn reservations_and_accepted_jobs_use_up_the_quota() {
        let mut count = counted(MAX - 2);
        count.admit();
        assert_eq!(count.decision(MAX, at(0)), QuotaDecision::Admit);
        count.admit();
        assert_eq!(count.decision(MAX, at(0)), QuotaDecision::Reject);
        count.accept();
        assert_eq!(count.decision(MAX, at(0)), QuotaDecision::Reject);
        count.release();
        assert_eq!(count.decision(MAX, at(0)), QuotaDecision::Admit);
        count.record_pending();
        assert_eq!(count.decision(MAX, at(0)), QuotaDecision::Reject);
    }

    #[test]
    fn quota_count_includes_jobs_that_it_may_have_missed() {
        let mut count = counted(3);
        for _ in 0..4 {
            count.admit();
        }
        count.accept();
        count.begin_count();
        count.accept();
        count.release();
        // The count includes the first job, which was stored before it began, and none of the
        // others.
        count.end_count(4, at(1_000));
        assert_eq!(count.estimate(), 4 + 1 + 1);
    }
    #[test]
    fn quotas_of_ten_thousand_idle_tenants_are_forgotten() {
        let admission = Admission::default();
        let id = |tenant: usize| (TenantId::new(format!("tenant-{tenant}")).unwrap(), None);
        let held = admission.quota(&id(0), at(0));
        held.count.lock().admit();
        for tenant in 1..=10_000 {
            admission.quota(&id(tenant), at(1));
        }
        admission.quota(&id(10_001), at(60_000));
        assert_eq!(admission.quotas.lock().len(), 10_002, "used within the last minute, or held");
        admission.quota(&id(10_001), at(120_000));
        assert_eq!(admission.quotas.lock().len(), 2);
        let kept = admission.quota(&id(0), at(120_000));
        assert_eq!(kept.count.lock().in_flight, 1, "its submission may be stored yet");
    }

    #[test]
    fn resumed_job_of_an_unknown_tenant_leaves_no_quota_behind() {
        let admission = Admission::default();
        admission.record_pending(&TenantId::default(), &Name::default_queue());
        assert_eq!(admission.quotas.lock().len(), 0);
    }
}
