//! The query of a claim: the order of lanes, the number of jobs read per lane, and the exclusions.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::job::{Job, Name, TenantId, Timestamp};
use crate::store::limits::{LimitCheck, LimitScope};
use crate::store::postgres::batch::columns;
use crate::store::postgres::connection::columns::limit;
use crate::store::postgres::connection::params::Param;
use crate::store::{Claim, Lease, QueueCapacity};

/// Maximum number of lanes per query. The next claim starts after the last served lane.
pub(crate) const LANES_PER_QUERY: usize = 1_000;
/// Minimum number of jobs read per lane.
const HEADS_MIN: usize = 4;
/// Maximum number of lanes whose [`ClaimedLanes`] are kept.
const CLAIMED_LANES_MAX: usize = 50;
/// Time after which lanes are read from their cursors again.
const CLAIMED_LANES_KEPT: Duration = Duration::from_millis(100);
/// Sorts after every queue name: in round-robin over tenants, all queues of the last tenant were served.
const AFTER_ALL_QUEUES: &str = "~";

/// Round-robin state between the claims of this process. Only a hint for fairness.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// The tenant served last and, in round-robin over queues, its queue.
    last_served: Mutex<(String, String)>,
    /// Number of lanes in which the last claim found jobs.
    lanes_seen: AtomicUsize,
    claimed: Mutex<ClaimedLanes>,
}

/// The due times up to which the last claim has claimed the jobs of its lanes.
///
/// Reading a long backlog from its cursor on, each claim would read over all jobs that were claimed since the
/// cursor advanced. So a claim that took as many jobs as it wanted lets the next one continue after it. Jobs
/// that became due earlier, because they were committed late or another claim gave them back, are found
/// when lanes are read from their cursors again: after a moment, and as soon as a claim finds too few jobs.
#[derive(Debug, Default)]
struct ClaimedLanes {
    lanes: Vec<ClaimedLane>,
    /// Time at which lanes were last read from their cursors.
    read_at: Option<Timestamp>,
}

columns! {
    #[derive(Debug)]
    struct ClaimedLane => ClaimedLaneColumns {
        tenant: TenantId,
        queue: Name,
        kind: Name,
        priority: i32,
        run_at: Timestamp,
    }
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            last_served: Mutex::default(),
            lanes_seen: AtomicUsize::new(1),
            claimed: Mutex::default(),
        }
    }
}

impl Rotation {
    pub(crate) fn set_last_served(&self, job: &Job) {
        let mut last = self.lock();
        job.tenant.as_str().clone_into(&mut last.0);
        job.queue.as_str().clone_into(&mut last.1);
    }

    pub(crate) fn set_lanes_seen(&self, lanes: usize) {
        self.lanes_seen.store(lanes, Ordering::Relaxed);
    }

    /// Returns the number of jobs to read per lane: with many lanes, a few of each are enough.
    pub(crate) fn heads_per_lane(&self, wanted: usize) -> usize {
        let lanes = self.lanes_seen.load(Ordering::Relaxed);
        (2 * wanted / lanes.max(1)).clamp(HEADS_MIN.min(wanted), wanted)
    }

    /// Records the leases of a claim that took as many jobs as it wanted.
    pub(crate) fn set_claimed(&self, leases: &[Lease]) {
        let mut lanes: HashMap<_, Timestamp> = HashMap::new();
        for Job { tenant, queue, kind, priority, run_at, .. } in leases.iter().map(|one| &one.job) {
            let claimed = lanes.entry((tenant, queue, kind, *priority)).or_insert(*run_at);
            *claimed = (*claimed).max(*run_at);
        }
        if lanes.len() > CLAIMED_LANES_MAX {
            return;
        }
        let lanes = lanes.into_iter().map(|((tenant, queue, kind, priority), run_at)| {
            let (tenant, queue, kind) = (tenant.clone(), queue.clone(), kind.clone());
            ClaimedLane { tenant, queue, kind, priority, run_at }
        });
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).lanes = lanes.collect();
    }

    /// Returns where the last claim stopped, once: the next claim sets it again. Empty if lanes are to be
    /// read from their cursors.
    fn take_claimed(&self, now: Timestamp) -> ClaimedLaneColumns {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lanes = ClaimedLaneColumns::default();
        let is_fresh = |at: Timestamp| at <= now && now < at.after(CLAIMED_LANES_KEPT);
        if claimed.read_at.is_some_and(is_fresh) {
            claimed.lanes.drain(..).for_each(|lane| lanes.push(lane));
        } else {
            claimed.lanes.clear();
            claimed.read_at = Some(now);
        }
        lanes
    }

    fn lock(&self) -> MutexGuard<'_, (String, String)> {
        self.last_served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scopes whose limits admit no further job.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExhaustedScopes {
    kinds: BTreeSet<String>,
    queues: BTreeSet<String>,
    tenants: BTreeSet<String>,
}

impl ExhaustedScopes {
    pub(crate) fn of(limits: &LimitCheck<'_>) -> Self {
        let mut exhausted = Self::default();
        for scope in limits.closed() {
            let names = match scope {
                LimitScope::Kind(_) => &mut exhausted.kinds,
                LimitScope::Queue(_) => &mut exhausted.queues,
                LimitScope::Tenant(_) => &mut exhausted.tenants,
            };
            names.insert(scope.as_strs().1.to_owned());
        }
        exhausted
    }
}

/// The parameters of `claim_heads.sql`.
pub(crate) struct ClaimQuery {
    kinds: Vec<String>,
    last_tenant: String,
    last_queue: String,
    now: Timestamp,
    lanes_max: i64,
    heads_per_lane: i64,
    excluded_queues: Vec<String>,
    excluded_tenants: Vec<String>,
    only_queues: Option<Vec<String>>,
    claimed: ClaimedLaneColumns,
}

impl ClaimQuery {
    pub(crate) fn new(
        want: &Claim,
        rotation: &Rotation,
        now: Timestamp,
        heads_per_lane: usize,
    ) -> Self {
        let (last_tenant, last_queue) = rotation.lock().clone();
        let capacity = want.queue_capacity.as_ref();
        let full = |capacity| queues(capacity, |free| free == 0);
        let free = |capacity| queues(capacity, |free| free > 0);
        Self {
            kinds: want.kinds.iter().map(|capacity| capacity.kind.to_string()).collect(),
            last_tenant,
            last_queue: if capacity.is_some() { last_queue } else { AFTER_ALL_QUEUES.to_owned() },
            now,
            lanes_max: limit(LANES_PER_QUERY),
            heads_per_lane: limit(heads_per_lane),
            excluded_queues: capacity.map(full).unwrap_or_default(),
            excluded_tenants: Vec::new(),
            only_queues: capacity.filter(|capacity| capacity.each == 0).map(free),
            claimed: ClaimedLaneColumns::default(),
        }
    }

    /// Lets the query continue where the last claim stopped. Returns whether it does.
    pub(crate) fn continue_after(&mut self, rotation: &Rotation) -> bool {
        self.claimed = rotation.take_claimed(self.now);
        self.claimed.len() > 0
    }

    /// Lets the query read all lanes from their cursors.
    pub(crate) fn start_at_cursors(&mut self) {
        self.claimed = ClaimedLaneColumns::default();
    }

    pub(crate) fn exclude(&mut self, exhausted: &ExhaustedScopes) {
        self.kinds.retain(|kind| !exhausted.kinds.contains(kind));
        self.excluded_queues = exhausted.queues.iter().cloned().collect();
        self.excluded_tenants = exhausted.tenants.iter().cloned().collect();
    }

    pub(crate) fn set_heads_per_lane(&mut self, heads_per_lane: usize) {
        self.heads_per_lane = limit(heads_per_lane);
    }

    pub(crate) fn params(&self) -> Vec<&dyn Param> {
        let mut params: Vec<&dyn Param> = vec![
            &self.kinds,
            &self.last_tenant,
            &self.now,
            &self.lanes_max,
            &self.heads_per_lane,
            &self.excluded_queues,
            &self.excluded_tenants,
            &self.last_queue,
            &self.only_queues,
        ];
        params.extend(self.claimed.params());
        params
    }
}

fn queues(capacity: &QueueCapacity, is_wanted: impl Fn(usize) -> bool) -> Vec<String> {
    let known = capacity.known.iter().filter(|(_, free)| is_wanted(**free));
    known.map(|(queue, _)| queue.to_string()).collect()
}
