//! How many of a tenant's jobs may wait, in all and in a queue, without counting them for each submission.
//!
//! Each process remembers the last count of a quota's pending jobs and what it has accepted since.
//! That is never too low for what this process accepts, so it alone never goes over the maximum; it
//! gets too high as jobs are claimed, and only then is there another count. What other replicas
//! accept is seen at the next count: with several of them the limit is approximate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Shared;
use crate::job::{Name, TenantId, Timestamp};
use crate::store::StoreError;

/// A quota that seems to be full is counted at most this often.
const COUNT_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// How old the count of a quota may get that is more than half full.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10);

/// What the last count and what happened since say of one quota.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct PendingCount {
    counted: u64,
    /// `None` before the first count.
    counted_at: Option<Timestamp>,
    /// Accepted since.
    accepted: u64,
    /// Let in and not answered yet: they may or may not be in the next count.
    in_flight: u64,
    /// Accepted since the count that is under way began: it may have missed them.
    meanwhile: u64,
}

/// What to do with a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Admit,
    Reject,
    CountFirst,
}

impl PendingCount {
    /// Never less than what is pending and was accepted here.
    fn estimate(&self) -> u64 {
        self.counted.saturating_add(self.accepted).saturating_add(self.in_flight)
    }

    fn verdict(&self, max: u64, now: Timestamp) -> Verdict {
        let Some(counted_at) = self.counted_at else { return Verdict::CountFirst };
        let (estimate, age) = (self.estimate(), now.since(counted_at));
        if estimate >= max {
            return if age < COUNT_AT_MOST_EVERY { Verdict::Reject } else { Verdict::CountFirst };
        }
        if estimate > max / 2 && age >= COUNT_AGE_MAX {
            return Verdict::CountFirst;
        }
        Verdict::Admit
    }

    fn admit(&mut self) {
        self.in_flight += 1;
    }

    /// One that was let in became a job, or may have.
    fn accept(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.record_pending();
    }

    /// One that was let in did not become a job.
    fn release(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A job is pending that nobody asked here to let in.
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

/// All of a tenant's pending jobs, or those in one of its queues.
type QuotaKey = (TenantId, Option<Name>);

/// The quotas that this process let jobs into.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// How many of one tenant's jobs may wait in these queues.
    queues: HashMap<Name, u64>,
    /// A std mutex: held for a map access, never across an await.
    quotas: Mutex<HashMap<QuotaKey, Arc<Quota>>>,
}

#[derive(Debug, Default)]
struct Quota {
    /// A std mutex: held for a few field writes, never across an await.
    count: Mutex<PendingCount>,
    /// Whoever counts; the others wait for what comes out.
    counting: tokio::sync::Mutex<()>,
}

/// Why a submission was not let in.
#[derive(Debug)]
pub(super) enum QuotaExceeded {
    /// So many jobs wait already, in this queue or in all of them.
    Full { queue: Option<Name>, max: u64 },
    /// The count failed.
    Store(StoreError),
}

/// A reservation for one pending job. Dropped, it counts as taken: the job may have been stored.
#[derive(Debug)]
pub(super) struct Reservation(Vec<Arc<Quota>>);

impl Reservation {
    /// The submission made no job.
    pub(super) fn release(mut self) {
        for quota in std::mem::take(&mut self.0) {
            quota.count().release();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for quota in &self.0 {
            quota.count().accept();
        }
    }
}

impl Quota {
    fn count(&self) -> MutexGuard<'_, PendingCount> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides, and takes a reservation if the submission is let in.
    fn decide(&self, max: u64, now: Timestamp) -> Verdict {
        let mut count = self.count();
        let verdict = count.verdict(max, now);
        if verdict == Verdict::Admit {
            count.admit();
        }
        verdict
    }
}

impl Admission {
    /// With limits of their own for some queues.
    pub(super) fn new(queues: HashMap<Name, u64>) -> Self {
        Self { queues, quotas: Mutex::default() }
    }

    /// Finds count for one more pending job of the tenant, which may have `max`.
    pub(super) async fn reserve(
        &self,
        tenant: &TenantId,
        queue: &Name,
        max: u64,
        shared: &Shared,
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
        shared: &Shared,
    ) -> Result<Arc<Quota>, QuotaExceeded> {
        let quota = self.quota(&id);
        let mut verdict = quota.decide(max, shared.clock.now());
        if verdict == Verdict::CountFirst {
            let _counting = quota.counting.lock().await;
            // Another may have counted while this one waited for its turn.
            verdict = quota.decide(max, shared.clock.now());
            if verdict == Verdict::CountFirst {
                quota.count().begin_count();
                let counted = shared.store.count_pending(&id.0, id.1.as_ref(), max).await;
                quota.count().end_count(counted.map_err(QuotaExceeded::Store)?, shared.clock.now());
                verdict = quota.decide(max, shared.clock.now());
            }
        }
        match verdict {
            Verdict::Admit => Ok(quota),
            Verdict::Reject | Verdict::CountFirst => Err(QuotaExceeded::Full { queue: id.1, max }),
        }
    }

    /// A job record_pending in quota by another way than a submission.
    pub(super) fn record_pending(&self, tenant: &TenantId, queue: &Name) {
        for (queue, _) in self.quotas_of(queue, 0) {
            self.quota(&(tenant.clone(), queue)).count().record_pending();
        }
    }

    /// The quotas that a job in this queue stands in, and how long they may be.
    fn quotas_of(&self, queue: &Name, max: u64) -> impl Iterator<Item = (Option<Name>, u64)> {
        let own = self.queues.get(queue).map(|max| (Some(queue.clone()), *max));
        [(None, max)].into_iter().chain(own)
    }

    fn quota(&self, id: &QuotaKey) -> Arc<Quota> {
        let mut quotas = self.quotas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(quota) = quotas.get(id) {
            return Arc::clone(quota);
        }
        Arc::clone(quotas.entry(id.clone()).or_default())
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
    fn line_that_nobody_counted_is_counted_first() {
        assert_eq!(PendingCount::default().verdict(MAX, at(0)), Verdict::CountFirst);
        assert_eq!(counted(0).verdict(MAX, at(0)), Verdict::Admit);
    }

    #[test]
    fn full_line_is_counted_again_after_a_second_and_not_before() {
        assert_eq!(counted(MAX).verdict(MAX, at(999)), Verdict::Reject);
        assert_eq!(counted(MAX).verdict(MAX, at(1_000)), Verdict::CountFirst);
        assert_eq!(counted(0).verdict(0, at(0)), Verdict::Reject, "none are allowed at all");
    }

    #[test]
    fn old_count_is_good_enough_while_less_than_half_is_used() {
        assert_eq!(counted(MAX / 2).verdict(MAX, at(3_600_000)), Verdict::Admit);
        assert_eq!(counted(MAX / 2 + 1).verdict(MAX, at(9_999)), Verdict::Admit);
        assert_eq!(counted(MAX / 2 + 1).verdict(MAX, at(10_000)), Verdict::CountFirst);
    }

    #[test]
    fn places_that_are_taken_and_jobs_under_way_use_the_room_up() {
        let mut count = counted(MAX - 2);
        count.admit();
        assert_eq!(count.verdict(MAX, at(0)), Verdict::Admit);
        count.admit();
        assert_eq!(count.verdict(MAX, at(0)), Verdict::Reject);
        count.accept();
        assert_eq!(count.verdict(MAX, at(0)), Verdict::Reject);
        count.release();
        assert_eq!(count.verdict(MAX, at(0)), Verdict::Admit);
        count.record_pending();
        assert_eq!(count.verdict(MAX, at(0)), Verdict::Reject);
    }

    /// A count that runs beside submissions may or may not have seen them.
    #[test]
    fn count_forgets_nothing_that_it_may_have_missed() {
        let mut count = counted(3);
        for _ in 0..4 {
            count.admit();
        }
        count.accept();
        count.begin_count();
        count.accept();
        count.release();
        // It saw the first one, which was stored before it began, and none of the others.
        count.end_count(4, at(1_000));
        assert_eq!(count.estimate(), 4 + 1 + 1);
    }
}
