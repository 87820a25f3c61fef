//! How claims look for jobs: where they begin, and what they leave out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::columns::limit;
use super::params::Param;
use crate::job::{Job, Timestamp};
use crate::store::limits::{LimitCheck, Scope};
use crate::store::{Claim, QueueCapacity};

/// The most lanes that one claim looks at; the next one begins after the last that was served.
pub(super) const LANES_MAX: usize = 1_000;
/// The fewest jobs that are read of each lane.
const HEADS_MIN: usize = 4;
/// Behind every queue: where tenants take turns, the queues of the last one have all been served.
const ALL_QUEUES: &str = "~";

/// What is remembered from claim to claim. Only a hint for fairness: nothing is lost with it.
#[derive(Debug)]
pub(super) struct Rotation {
    /// The tenant that was served last and, where queues take turns, its queue.
    last_served: Mutex<(String, String)>,
    /// How many lanes the last claim found something in.
    lanes_seen: AtomicUsize,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { last_served: Mutex::default(), lanes_seen: AtomicUsize::new(1) }
    }
}

impl Rotation {
    pub(super) fn served(&self, job: &Job) {
        let mut last = self.lock();
        job.tenant.as_str().clone_into(&mut last.0);
        job.queue.as_str().clone_into(&mut last.1);
    }

    pub(super) fn set_lanes_seen(&self, lanes: usize) {
        self.lanes_seen.store(lanes, Ordering::Relaxed);
    }

    /// How many jobs of each lane to read: with many lanes, one or two of each are enough.
    pub(super) fn heads_of_each_lane(&self, wanted: usize) -> usize {
        let lanes = self.lanes_seen.load(Ordering::Relaxed);
        (2 * wanted / lanes.max(1)).clamp(HEADS_MIN.min(wanted), wanted)
    }

    fn lock(&self) -> MutexGuard<'_, (String, String)> {
        self.last_served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a look leaves out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Closed {
    kinds: BTreeSet<String>,
    queues: BTreeSet<String>,
    tenants: BTreeSet<String>,
}

impl Closed {
    pub(super) fn by(gate: &LimitCheck<'_>) -> Self {
        let mut closed = Self::default();
        for scope in gate.closed() {
            let names = match scope {
                Scope::Kind(_) => &mut closed.kinds,
                Scope::Queue(_) => &mut closed.queues,
                Scope::Tenant(_) => &mut closed.tenants,
            };
            names.insert(scope.as_strs().1.to_owned());
        }
        closed
    }
}

/// The parameters of `claim_heads`.
pub(super) struct Look {
    kinds: Vec<String>,
    last_tenant: String,
    last_queue: String,
    at: i64,
    lanes: i64,
    each: i64,
    queues: Vec<String>,
    tenants: Vec<String>,
    only: Option<Vec<String>>,
}

impl Look {
    pub(super) fn new(want: &Claim, rotation: &Rotation, now: Timestamp, each: usize) -> Self {
        let (last_tenant, last_queue) = rotation.lock().clone();
        let rooms = want.queue_capacity.as_ref();
        Self {
            kinds: want.kinds.iter().map(|room| room.kind.to_string()).collect(),
            last_tenant,
            last_queue: if rooms.is_some() { last_queue } else { ALL_QUEUES.to_owned() },
            at: now.as_millis(),
            lanes: limit(LANES_MAX),
            each: limit(each),
            queues: rooms.map(|rooms| queues(rooms, |room| room == 0)).unwrap_or_default(),
            tenants: Vec::new(),
            only: rooms.filter(|one| one.each == 0).map(|rooms| queues(rooms, |room| room > 0)),
        }
    }

    /// Leaves out what is closed.
    pub(super) fn without(&mut self, closed: &Closed) {
        self.kinds.retain(|kind| !closed.kinds.contains(kind));
        self.queues = closed.queues.iter().cloned().collect();
        self.tenants = closed.tenants.iter().cloned().collect();
    }

    /// Reads so many jobs of each lane from now on.
    pub(super) fn set_each(&mut self, each: usize) {
        self.each = limit(each);
    }

    pub(super) fn params(&self) -> [&dyn Param; 9] {
        [
            &self.kinds,
            &self.last_tenant,
            &self.at,
            &self.lanes,
            &self.each,
            &self.queues,
            &self.tenants,
            &self.last_queue,
            &self.only,
        ]
    }
}

fn queues(rooms: &QueueCapacity, which: impl Fn(usize) -> bool) -> Vec<String> {
    let known = rooms.known.iter().filter(|(_, room)| which(**room));
    known.map(|(queue, _)| queue.to_string()).collect()
}
