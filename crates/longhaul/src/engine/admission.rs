//! How many of a tenant's jobs may wait, without counting them for each submission.
//!
//! Each process remembers the last count of a tenant's pending jobs and what it has accepted since.
//! That is never too low for what this process accepts, so it alone never goes over the maximum; it
//! gets too high as jobs are claimed, and only then is there another count. What other replicas
//! accept is seen at the next count: with several of them the limit is approximate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Shared;
use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;

/// A tenant that seems to be full is counted at most this often.
const COUNT_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// How old the count of a tenant may get that is more than half full.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10);

/// What the last count and what happened since say of one tenant.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Room {
    counted: u64,
    /// `None` before the first count.
    counted_at: Option<Timestamp>,
    /// Accepted since.
    accepted: u64,
    /// Let in and not answered yet: they may or may not be in the next count.
    under_way: u64,
    /// Accepted since the count that is under way began: it may have missed them.
    meanwhile: u64,
}

/// What to do with a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    LetIn,
    Refuse,
    CountFirst,
}

impl Room {
    /// Never less than what is pending and was accepted here.
    fn estimate(&self) -> u64 {
        self.counted.saturating_add(self.accepted).saturating_add(self.under_way)
    }

    fn verdict(&self, max: u64, now: Timestamp) -> Verdict {
        let Some(counted_at) = self.counted_at else { return Verdict::CountFirst };
        let (estimate, age) = (self.estimate(), now.since(counted_at));
        if estimate >= max {
            return if age < COUNT_AT_MOST_EVERY { Verdict::Refuse } else { Verdict::CountFirst };
        }
        if estimate > max / 2 && age >= COUNT_AGE_MAX {
            return Verdict::CountFirst;
        }
        Verdict::LetIn
    }

    fn let_in(&mut self) {
        self.under_way += 1;
    }

    /// One that was let in became a job, or may have.
    fn accept(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.came();
    }

    /// One that was let in did not become a job.
    fn give_back(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// A job is pending that nobody asked here to let in.
    fn came(&mut self) {
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

/// The tenants that this process accepted jobs of.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// A std mutex: held for a map access, never across an await.
    tenants: Mutex<HashMap<TenantId, Arc<Tenant>>>,
}

#[derive(Debug, Default)]
struct Tenant {
    /// A std mutex: held for a few field writes, never across an await.
    room: Mutex<Room>,
    /// Whoever counts; the others wait for what comes out.
    counting: tokio::sync::Mutex<()>,
}

/// Why a submission was not let in.
#[derive(Debug)]
pub(super) enum NoPlace {
    Full,
    /// The count failed.
    Store(StoreError),
}

/// A place for one pending job. Dropped, it counts as taken: the job may have been stored.
#[derive(Debug)]
pub(super) struct Place(Option<Arc<Tenant>>);

impl Place {
    /// The submission made no job.
    pub(super) fn give_back(mut self) {
        if let Some(tenant) = self.0.take() {
            tenant.room().give_back();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(tenant) = self.0.take() {
            tenant.room().accept();
        }
    }
}

impl Tenant {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides, and takes a place if the submission is let in.
    fn decide(&self, max: u64, now: Timestamp) -> Verdict {
        let mut room = self.room();
        let verdict = room.verdict(max, now);
        if verdict == Verdict::LetIn {
            room.let_in();
        }
        verdict
    }
}

impl Admission {
    /// Finds room for one more pending job of the tenant, which may have `max`.
    pub(super) async fn place(
        &self,
        tenant: &TenantId,
        max: u64,
        shared: &Shared,
    ) -> Result<Place, NoPlace> {
        let known = self.tenant(tenant);
        let mut verdict = known.decide(max, shared.clock.now());
        if verdict == Verdict::CountFirst {
            let _counting = known.counting.lock().await;
            // Another may have counted while this one waited for its turn.
            verdict = known.decide(max, shared.clock.now());
            if verdict == Verdict::CountFirst {
                known.room().begin_count();
                let counted = shared.store.pending(tenant, max).await.map_err(NoPlace::Store)?;
                known.room().end_count(counted, shared.clock.now());
                verdict = known.decide(max, shared.clock.now());
            }
        }
        match verdict {
            Verdict::LetIn => Ok(Place(Some(known))),
            Verdict::Refuse | Verdict::CountFirst => Err(NoPlace::Full),
        }
    }

    /// A job came in line by another way than a submission.
    pub(super) fn came(&self, tenant: &TenantId) {
        self.tenant(tenant).room().came();
    }

    fn tenant(&self, tenant: &TenantId) -> Arc<Tenant> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tenants.get(tenant) {
            return Arc::clone(known);
        }
        Arc::clone(tenants.entry(tenant.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 10;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn counted(jobs: u64) -> Room {
        let mut room = Room::default();
        room.begin_count();
        room.end_count(jobs, at(0));
        room
    }

    #[test]
    fn tenant_that_nobody_counted_is_counted_first() {
        assert_eq!(Room::default().verdict(MAX, at(0)), Verdict::CountFirst);
        assert_eq!(counted(0).verdict(MAX, at(0)), Verdict::LetIn);
    }

    #[test]
    fn full_tenant_is_counted_again_after_a_second_and_not_before() {
        assert_eq!(counted(MAX).verdict(MAX, at(999)), Verdict::Refuse);
        assert_eq!(counted(MAX).verdict(MAX, at(1_000)), Verdict::CountFirst);
        assert_eq!(counted(0).verdict(0, at(0)), Verdict::Refuse, "none are allowed at all");
    }

    #[test]
    fn old_count_is_good_enough_while_less_than_half_is_used() {
        assert_eq!(counted(MAX / 2).verdict(MAX, at(3_600_000)), Verdict::LetIn);
        assert_eq!(counted(MAX / 2 + 1).verdict(MAX, at(9_999)), Verdict::LetIn);
        assert_eq!(counted(MAX / 2 + 1).verdict(MAX, at(10_000)), Verdict::CountFirst);
    }

    #[test]
    fn places_that_are_taken_and_jobs_under_way_use_the_room_up() {
        let mut room = counted(MAX - 2);
        room.let_in();
        assert_eq!(room.verdict(MAX, at(0)), Verdict::LetIn);
        room.let_in();
        assert_eq!(room.verdict(MAX, at(0)), Verdict::Refuse);
        room.accept();
        assert_eq!(room.verdict(MAX, at(0)), Verdict::Refuse);
        room.give_back();
        assert_eq!(room.verdict(MAX, at(0)), Verdict::LetIn);
        room.came();
        assert_eq!(room.verdict(MAX, at(0)), Verdict::Refuse);
    }

    /// A count that runs beside submissions may or may not have seen them.
    #[test]
    fn count_forgets_nothing_that_it_may_have_missed() {
        let mut room = counted(3);
        for _ in 0..4 {
            room.let_in();
        }
        room.accept();
        room.begin_count();
        room.accept();
        room.give_back();
        // It saw the first one, which was stored before it began, and none of the others.
        room.end_count(4, at(1_000));
        assert_eq!(room.estimate(), 4 + 1 + 1);
    }
}
