//! Fair selection among jobs that a store has read into memory.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;

use super::{ClaimCapacity, Lanes, rank, round_robin};
use crate::job::{Job, JobId, Name};
use crate::store::limits::{LimitCheck, LimitKey};
use crate::store::{Claim, QueueCapacity};

/// A job that may be claimed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankedJob<'a> {
    key: LimitKey<'a>,
    /// [`rank`] and id.
    rank: (i64, JobId),
}

impl<'a> RankedJob<'a> {
    pub(crate) fn of(job: &'a Job) -> Self {
        Self { key: LimitKey::of(job), rank: (rank(job.run_at, job.priority), job.id) }
    }
}

/// Selects jobs within the capacity of one claim, which may select several times.
pub(crate) struct CandidateSelector<'a> {
    capacity: ClaimCapacity<'a>,
    /// For deliveries: the capacity of queues, and what is left of those that jobs were taken from.
    queues: Option<(&'a QueueCapacity, HashMap<Name, usize>)>,
}

impl<'a> CandidateSelector<'a> {
    pub(crate) fn new(want: &'a Claim) -> Self {
        let queues = want.queue_capacity.as_ref().map(|queues| (queues, HashMap::new()));
        Self { capacity: ClaimCapacity::of(want), queues }
    }

    /// Returns the indexes of the selected jobs, in the order in which they are claimed. Lanes are served in
    /// the order of their first jobs.
    pub(crate) fn select(
        &mut self,
        jobs: &[RankedJob<'_>],
        limits: &mut LimitCheck<'_>,
    ) -> Vec<usize> {
        let mut lanes: Vec<Vec<usize>> = Vec::new();
        let mut lane_of = HashMap::new();
        for (index, RankedJob { key, .. }) in jobs.iter().enumerate() {
            let queue = key.queue.filter(|_| self.queues.is_some());
            let lane = *lane_of.entry((key.tenant, queue)).or_insert_with(|| {
                lanes.push(Vec::new());
                lanes.len() - 1
            });
            if let Some(lane) = lanes.get_mut(lane) {
                lane.push(index);
            }
        }
        for lane in &mut lanes {
            // In reverse, because jobs are popped from the end.
            lane.sort_unstable_by_key(|index| Reverse(jobs.get(*index).map(|job| job.rank)));
        }
        let undiscovered = lanes.into_iter();
        let mut lanes = CandidateLanes { jobs, undiscovered, selector: self, limits };
        let Ok(selected) = round_robin(&mut lanes);
        selected
    }

    fn take(&mut self, key: LimitKey<'_>, limits: &mut LimitCheck<'_>) -> bool {
        let kind = key.kind.as_str();
        if !self.capacity.admits(kind) || !limits.admits(key) || !self.take_queue(key.queue) {
            return false;
        }
        limits.reserve(key);
        self.capacity.take(kind);
        true
    }

    fn take_queue(&mut self, queue: Option<&Name>) -> bool {
        let (Some((capacity, left)), Some(queue)) = (&mut self.queues, queue) else { return true };
        let left = left.entry(queue.clone()).or_insert_with(|| capacity.of(queue));
        let is_free = *left > 0;
        *left = left.saturating_sub(1);
        is_free
    }
}

/// Lanes of indexes, each with its first job at the end.
struct CandidateLanes<'m, 'a, 'l> {
    jobs: &'m [RankedJob<'m>],
    undiscovered: std::vec::IntoIter<Vec<usize>>,
    selector: &'m mut CandidateSelector<'a>,
    limits: &'m mut LimitCheck<'l>,
}

impl Lanes for CandidateLanes<'_, '_, '_> {
    type Lane = Vec<usize>;
    type Job = usize;
    type Error = Infallible;

    fn discover(&mut self) -> Result<Option<Vec<usize>>, Infallible> {
        Ok(self.undiscovered.next())
    }

    fn take(&mut self, lane: &mut Vec<usize>) -> Result<Option<usize>, Infallible> {
        // A job without capacity now, or beyond a limit, stays so for the rest of this claim.
        while let Some(index) = lane.pop() {
            let job = self.jobs.get(index);
            if job.is_some_and(|job| self.selector.take(job.key, self.limits)) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn is_full(&self) -> bool {
        self.selector.capacity.is_full()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::job::{TenantId, Timestamp};
    use crate::store::limits::{LimitCounter, LimitScope};
    use crate::store::{FlowLimit, FlowLimits, KindCapacity};

    struct TestJob {
        tenant: TenantId,
        queue: Name,
        kind: Name,
        rank: (i64, JobId),
    }

    fn job(tenant: &str, kind: &str, priority: i32, run_at: i64, id: u128) -> TestJob {
        let id = JobId::from_parts(Timestamp::from_millis(0), id);
        TestJob {
            tenant: TenantId::new(tenant).unwrap(),
            queue: Name::default_queue(),
            kind: Name::new(kind).unwrap(),
            rank: (rank(Timestamp::from_millis(run_at), priority), id),
        }
    }

    fn want(limit: usize, capacities: &[(&str, usize)]) -> Claim {
        let kind = |(kind, capacity): &(&str, usize)| KindCapacity {
            kind: Name::new(kind).unwrap(),
            capacity: *capacity,
            code_version: None,
        };
        Claim {
            replica: "r".into(),
            limit,
            lease: Duration::from_secs(15),
            kinds: capacities.iter().map(kind).collect(),
            limits: Arc::default(),
            queue_capacity: None,
        }
    }

    fn select_within(jobs: &[TestJob], want: &Claim, limits: &mut LimitCheck<'_>) -> Vec<usize> {
        let jobs = jobs.iter().map(|TestJob { tenant, queue, kind, rank }| {
            let key = LimitKey { tenant, kind, queue: Some(queue) };
            RankedJob { key, rank: *rank }
        });
        let jobs: Vec<RankedJob<'_>> = jobs.collect();
        CandidateSelector::new(want).select(&jobs, limits)
    }

    fn select(jobs: &[TestJob], want: &Claim) -> Vec<usize> {
        select_within(jobs, want, &mut LimitCheck::new(&want.limits, Timestamp::from_millis(0)))
    }

    #[test]
    fn tenants_take_turns_and_each_tenants_jobs_are_in_order_of_rank() {
        let jobs = [
            job("a", "x", 0, 30, 1),
            job("a", "x", 0, 10, 2),
            job("a", "x", 1, 40, 3),
            job("b", "x", 0, 99, 4),
        ];
        assert_eq!(select(&jobs, &want(9, &[("x", 9)])), [2, 3, 1, 0]);
        assert_eq!(select(&jobs, &want(2, &[("x", 9)])), [2, 3]);
    }

    #[test]
    fn kinds_without_capacity_are_skipped() {
        let jobs = [job("a", "x", 0, 1, 1), job("a", "y", 0, 2, 2), job("a", "x", 0, 3, 3)];
        assert_eq!(select(&jobs, &want(9, &[("x", 1), ("y", 5)])), [0, 1]);
        assert_eq!(select(&jobs, &want(9, &[("y", 5)])), [1]);
    }

    #[test]
    fn deliveries_take_turns_by_queue_within_the_capacity_of_each() {
        let to = |queue: &str, id| TestJob {
            queue: Name::new(queue).unwrap(),
            ..job("a", "x", 0, i64::try_from(id).unwrap(), id)
        };
        let jobs = [to("slow", 1), to("slow", 2), to("slow", 3), to("fast", 4), to("full", 5)];
        let known = HashMap::from([(Name::new("full").unwrap(), 0)]);
        let mut want = want(9, &[("x", 9)]);
        want.queue_capacity = Some(QueueCapacity { each: 2, known });
        assert_eq!(select(&jobs, &want), [0, 3, 1]);
    }

    #[test]
    fn tenant_at_its_limit_is_skipped() {
        let jobs = [job("a", "x", 0, 1, 1), job("a", "x", 0, 2, 2), job("b", "x", 0, 3, 3)];
        let limits = FlowLimits { tenants: FlowLimit::running(1), ..FlowLimits::default() };
        let want = want(9, &[("x", 9)]);
        let mut check = LimitCheck::new(&limits, Timestamp::from_millis(0));
        let mut select = |counters: [(&str, u64); 2]| {
            for (tenant, running) in counters {
                let scope = LimitScope::Tenant(TenantId::new(tenant).unwrap());
                check.learn(scope, LimitCounter { running, bucket: None });
            }
            select_within(&jobs, &want, &mut check)
        };
        assert_eq!(select([("a", 0), ("b", 0)]), [0, 2]);
        assert_eq!(select([("a", 1), ("b", 0)]), [2]);
    }

    #[test]
    fn job_whose_limit_counter_was_not_loaded_is_skipped() {
        let limits = FlowLimits { tenants: FlowLimit::running(1), ..FlowLimits::default() };
        let mut check = LimitCheck::new(&limits, Timestamp::from_millis(0));
        let selected = select_within(&[job("a", "x", 0, 1, 1)], &want(9, &[("x", 9)]), &mut check);
        assert_eq!(selected, [0_usize; 0]);
    }
}
