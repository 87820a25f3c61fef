//! Fair selection of jobs for a claim.
//!
//! Lanes are served round-robin, one job per lane and round, so that the 100,000 jobs of one tenant do not
//! delay the single job of another. A lane is a tenant; for deliveries it is a queue, because each endpoint
//! has one. Inside a lane the job with the lowest [`rank`] is first.

#[cfg(feature = "postgres")]
mod in_memory;

use std::collections::HashMap;

#[cfg(feature = "postgres")]
pub(crate) use in_memory::{CandidateSelector, RankedJob};

use crate::job::Timestamp;
use crate::store::Claim;

/// Waiting time that one point of priority is worth, in milliseconds.
pub(crate) const PRIORITY_POINT_MS: i64 = 60_000;

/// Returns the sort key of a job inside its lane. It does not change while the job is pending, so ageing costs
/// nothing: a job overtakes every job that was due one minute later per point of priority.
pub(crate) fn rank(run_at: Timestamp, priority: i32) -> i64 {
    run_at.as_millis().saturating_sub(i64::from(priority) * PRIORITY_POINT_MS)
}

/// The lanes that a claim selects from. Lanes are discovered one by one, so that a claim reads no more of them
/// than it needs.
pub(crate) trait Lanes {
    type Lane;
    type Job;
    type Error;

    /// Returns the next lane of the first round, starting after the lane that was served last.
    fn discover(&mut self) -> Result<Option<Self::Lane>, Self::Error>;

    /// Takes the first job of a lane; `None` if the lane has no more jobs for this claim.
    fn take(&mut self, lane: &mut Self::Lane) -> Result<Option<Self::Job>, Self::Error>;

    /// Returns true if the claim cannot take another job.
    fn is_full(&self) -> bool;
}

/// Selects jobs round-robin, in the order in which the lanes are discovered.
pub(crate) fn round_robin<L: Lanes>(lanes: &mut L) -> Result<Vec<L::Job>, L::Error> {
    let (mut selected, mut round) = (Vec::new(), Vec::new());
    while !lanes.is_full()
        && let Some(mut lane) = lanes.discover()?
    {
        if let Some(job) = lanes.take(&mut lane)? {
            selected.push(job);
            round.push(lane);
        }
    }
    while !lanes.is_full() && !round.is_empty() {
        let mut next_round = Vec::with_capacity(round.len());
        for mut lane in round {
            if lanes.is_full() {
                break;
            }
            if let Some(job) = lanes.take(&mut lane)? {
                selected.push(job);
                next_round.push(lane);
            }
        }
        round = next_round;
    }
    Ok(selected)
}

/// The remaining capacity of a claim, in total and by kind.
#[derive(Debug)]
pub(crate) struct ClaimCapacity<'a> {
    total: usize,
    kinds: HashMap<&'a str, usize>,
}

impl<'a> ClaimCapacity<'a> {
    pub(crate) fn of(want: &'a Claim) -> Self {
        let kinds = want.kinds.iter().map(|kind| (kind.kind.as_str(), kind.capacity)).collect();
        Self { total: want.limit, kinds }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'a str> {
        self.kinds.keys().copied()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.total == 0 || self.kinds.values().all(|capacity| *capacity == 0)
    }

    pub(crate) fn admits(&self, kind: &str) -> bool {
        self.total > 0 && self.kinds.get(kind).is_some_and(|capacity| *capacity > 0)
    }

    /// Uses one unit of capacity.
    pub(crate) fn take(&mut self, kind: &str) {
        self.total = self.total.saturating_sub(1);
        if let Some(capacity) = self.kinds.get_mut(kind) {
            *capacity = capacity.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use super::*;

    /// Lanes in memory, each with a name and a number of jobs.
    struct Counted {
        undiscovered: VecDeque<(&'static str, usize)>,
        discovered: usize,
        left: usize,
    }

    impl Lanes for Counted {
        type Lane = (&'static str, usize);
        type Job = &'static str;
        type Error = Infallible;

        fn discover(&mut self) -> Result<Option<Self::Lane>, Infallible> {
            let lane = self.undiscovered.pop_front();
            self.discovered += usize::from(lane.is_some());
            Ok(lane)
        }

        fn take(
            &mut self,
            (name, jobs): &mut Self::Lane,
        ) -> Result<Option<&'static str>, Infallible> {
            if *jobs == 0 {
                return Ok(None);
            }
            (*jobs, self.left) = (*jobs - 1, self.left - 1);
            Ok(Some(*name))
        }

        fn is_full(&self) -> bool {
            self.left == 0
        }
    }

    fn select(lanes: &[(&'static str, usize)], limit: usize) -> (Vec<&'static str>, usize) {
        let undiscovered = lanes.iter().copied().collect();
        let mut lanes = Counted { undiscovered, discovered: 0, left: limit };
        let Ok(selected) = round_robin(&mut lanes);
        (selected, lanes.discovered)
    }

    #[test]
    fn lanes_take_turns_until_they_are_empty() {
        let (selected, _) = select(&[("a", 3), ("b", 1), ("c", 2)], 9);
        assert_eq!(selected, ["a", "b", "c", "a", "c", "a"]);
    }

    #[test]
    fn empty_lane_costs_no_turn() {
        assert_eq!(select(&[("a", 0), ("b", 2)], 9).0, ["b", "b"]);
    }

    #[test]
    fn full_claim_stops_in_the_middle_of_a_round_and_discovers_no_further_lane() {
        assert_eq!(select(&[("a", 5), ("b", 5), ("c", 5)], 2), (vec!["a", "b"], 2));
        assert_eq!(select(&[("a", 5), ("b", 5)], 3).0, ["a", "b", "a"]);
        assert_eq!(select(&[("a", 5)], 0), (Vec::new(), 0));
    }

    #[test]
    fn point_of_priority_is_worth_a_minute_of_waiting() {
        let minute = |n: i64| Timestamp::from_millis(n * 60_000);
        assert_eq!(rank(minute(5), 0), rank(minute(6), 1));
        assert!(rank(minute(5), 0) < rank(minute(7), 1));
        assert!(rank(minute(5), -1) > rank(minute(5), 0));
        assert_eq!(rank(Timestamp::from_millis(i64::MIN), i32::MAX), i64::MIN);
    }
}
