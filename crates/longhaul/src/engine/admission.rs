//! How many of a tenant's jobs may wait, in all and in a queue, without counting them for each submission.
//!
//! Each process remembers the last count of a line's pending jobs and what it has accepted since.
//! That is never too low for what this process accepts, so it alone never goes over the maximum; it
//! gets too high as jobs are claimed, and only then is there another count. What other replicas
//! accept is seen at the next count: with several of them the limit is approximate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Shared;
use crate::job::{Name, TenantId, Timestamp};
use crate::store::StoreError;

/// A line that seems to be full is counted at most this often.
const COUNT_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// How old the count of a line may get that is more than half full.
const COUNT_AGE_MAX: Duration = Duration::from_secs(10);

/// What the last count and what happened since say of one line.
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

/// All of a tenant's pending jobs, or those in one of its queues.
type LineId = (TenantId, Option<Name>);

/// The lines that this process let jobs into.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// How many of one tenant's jobs may wait in these queues.
    queues: HashMap<Name, u64>,
    /// A std mutex: held for a map access, never across an await.
    lines: Mutex<HashMap<LineId, Arc<Line>>>,
}

#[derive(Debug, Default)]
struct Line {
    /// A std mutex: held for a few field writes, never across an await.
    room: Mutex<Room>,
    /// Whoever counts; the others wait for what comes out.
    counting: tokio::sync::Mutex<()>,
}

/// Why a submission was not let in.
#[derive(Debug)]
pub(super) enum NoPlace {
    /// So many jobs wait already, in this queue or in all of them.
    Full { queue: Option<Name>, max: u64 },
    /// The count failed.
    Store(StoreError),
}

/// A place for one pending job. Dropped, it counts as taken: the job may have been stored.
#[derive(Debug)]
pub(super) struct Place(Vec<Arc<Line>>);

impl Place {
    /// The submission made no job.
    pub(super) fn give_back(mut self) {
        for line in std::mem::take(&mut self.0) {
            line.room().give_back();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for line in &self.0 {
            line.room().accept();
        }
    }
}

impl Line {
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
    /// With limits of their own for some queues.
    pub(super) fn new(queues: HashMap<Name, u64>) -> Self {
        Self { queues, lines: Mutex::default() }
    }

    /// Finds room for one more pending job of the tenant, which may have `max`.
    pub(super) async fn place(
        &self,
        tenant: &TenantId,
        queue: &Name,
        max: u64,
        shared: &Shared,
    ) -> Result<Place, NoPlace> {
        let mut place = Place(Vec::with_capacity(2));
        for (queue, max) in self.lines_of(queue, max) {
            match self.enter((tenant.clone(), queue), max, shared).await {
                Ok(line) => place.0.push(line),
                Err(full) => {
                    place.give_back();
                    return Err(full);
                }
            }
        }
        Ok(place)
    }

    async fn enter(&self, id: LineId, max: u64, shared: &Shared) -> Result<Arc<Line>, NoPlace> {
        let line = self.line(&id);
        let mut verdict = line.decide(max, shared.clock.now());
        if verdict == Verdict::CountFirst {
            let _counting = line.counting.lock().await;
            // Another may have counted while this one waited for its turn.
            verdict = line.decide(max, shared.clock.now());
            if verdict == Verdict::CountFirst {
                line.room().begin_count();
                let counted = shared.store.count_pending(&id.0, id.1.as_ref(), max).await;
                line.room().end_count(counted.map_err(NoPlace::Store)?, shared.clock.now());
                verdict = line.decide(max, shared.clock.now());
            }
        }
        match verdict {
            Verdict::LetIn => Ok(line),
            Verdict::Refuse | Verdict::CountFirst => Err(NoPlace::Full { queue: id.1, max }),
        }
    }

    /// A job came in line by another way than a submission.
    pub(super) fn came(&self, tenant: &TenantId, queue: &Name) {
        for (queue, _) in self.lines_of(queue, 0) {
            self.line(&(tenant.clone(), queue)).room().came();
        }
    }

    /// The lines that a job in this queue stands in, and how long they may be.
    fn lines_of(&self, queue: &Name, max: u64) -> impl Iterator<Item = (Option<Name>, u64)> {
        let own = self.queues.get(queue).map(|max| (Some(queue.clone()), *max));
        [(None, max)].into_iter().chain(own)
    }

    fn line(&self, id: &LineId) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(id) {
            return Arc::clone(line);
        }
        Arc::clone(lines.entry(id.clone()).or_default())
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
    fn line_that_nobody_counted_is_counted_first() {
        assert_eq!(Room::default().verdict(MAX, at(0)), Verdict::CountFirst);
        assert_eq!(counted(0).verdict(MAX, at(0)), Verdict::LetIn);
    }

    #[test]
    fn full_line_is_counted_again_after_a_second_and_not_before() {
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
