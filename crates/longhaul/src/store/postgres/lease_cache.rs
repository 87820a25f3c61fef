//! Cache of the jobs that this process has leased, so that settling them needs no read first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::leases::shared::{SharedLease, SharedLeaseKeys};
use super::row::JobRow;
use super::settle::TenantJob;
use crate::job::{Name, Timestamp};
use crate::store::{Lease, LeaseRef};

/// Maximum number of cached leases; more than a replica runs at once. A full cache is cleared, and jobs
/// are read from the database again.
const CACHED_LEASES_MAX: usize = 20_000;
/// Time for which jobs of a kind get leases of their own, after one of them needed it.
const OWN_LEASES_KEPT: Duration = Duration::from_mins(1);

/// A job as of its claim, or of the last write of its lease.
#[derive(Clone)]
pub(super) struct CachedLease {
    pub(super) row: JobRow,
    /// The history before the claim.
    pub(super) history: Option<String>,
    /// The events since the claim.
    pub(super) events: Option<String>,
    /// True if a limit may count the lease.
    pub(super) counted: bool,
    pub(super) steps: StepCount,
    /// The lease that the job shares with others, unless it has its own.
    pub(super) shared: Option<Arc<SharedLease>>,
}

/// Number of a job's finished steps, as far as this process knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepCount {
    stored: Option<u64>,
    /// Steps that are being written.
    in_flight: u64,
}

impl StepCount {
    pub(super) fn known(stored: Option<u64>) -> Self {
        Self { stored, in_flight: 0 }
    }

    /// Returns the count, unless it is unknown or a write is in flight.
    pub(super) fn exact(self) -> Option<u64> {
        self.stored.filter(|_| self.in_flight == 0)
    }
}

/// Cached leases by job. Only a hint: writes are still conditional on the version that was read.
///
/// Std mutexes, because they are locked for a map access and never across an await.
#[derive(Default)]
pub(super) struct LeaseCache {
    leases: Mutex<HashMap<TenantJob, CachedLease>>,
    /// Kinds whose jobs get leases of their own, and until when.
    own_leases: Mutex<HashMap<Name, Timestamp>>,
    /// Shared leases whose jobs have all finished, to be deleted with the next statement.
    ended: Mutex<SharedLeaseKeys>,
}

impl LeaseCache {
    pub(super) fn insert(&self, lease: CachedLease) {
        let job = &lease.row.entry.job;
        let key = (job.tenant.clone(), job.id);
        let mut leases = self.lock();
        if leases.len() >= CACHED_LEASES_MAX {
            leases.clear();
        }
        leases.insert(key, lease);
    }

    pub(super) fn take(&self, lease: &LeaseRef) -> Option<CachedLease> {
        let mut leases = self.lock();
        let key = (lease.tenant.clone(), lease.job);
        // The cached lease may be that of a later attempt of the same job.
        let is_same = leases.get(&key).is_some_and(|one| one.row.entry.epoch == lease.epoch);
        if is_same { leases.remove(&key) } else { None }
    }

    /// Replaces a cached lease but for its step count. A lease that is no longer cached stays out.
    pub(super) fn replace(&self, lease: CachedLease) {
        let entry = &lease.row.entry;
        let mut leases = self.lock();
        if let Some(cached) = leases.get_mut(&(entry.job.tenant.clone(), entry.job.id))
            && cached.row.entry.epoch == entry.epoch
        {
            *cached = CachedLease { steps: cached.steps, ..lease };
        }
    }

    /// Records the number of steps with which a job was claimed.
    pub(super) fn set_steps(&self, lease: &Lease) {
        let stored = Some(lease.steps.len() as u64);
        self.update_steps(&lease.to_ref(), |steps| *steps = StepCount::known(stored));
    }

    /// Records that a step is about to be written. Returns false if the lease is not cached.
    pub(super) fn begin_step(&self, lease: &LeaseRef) -> bool {
        self.update_steps(lease, |steps| steps.in_flight += 1)
    }

    /// Records the end of a step's write: whether the step is new, or `None` if that is unknown.
    pub(super) fn end_step(&self, lease: &LeaseRef, is_new: Option<bool>) {
        self.update_steps(lease, |steps| {
            steps.in_flight = steps.in_flight.saturating_sub(1);
            steps.stored = match (steps.stored, is_new) {
                (Some(stored), Some(is_new)) => Some(stored + u64::from(is_new)),
                (None, _) | (_, None) => None,
            };
        });
    }

    fn update_steps(&self, lease: &LeaseRef, update: impl FnOnce(&mut StepCount)) -> bool {
        let mut leases = self.lock();
        let cached = leases.get_mut(&(lease.tenant.clone(), lease.job));
        let cached = cached.filter(|cached| cached.row.entry.epoch == lease.epoch);
        cached.map(|cached| update(&mut cached.steps)).is_some()
    }

    /// Returns whether jobs of a kind may share leases: not if one of them needed its own a moment ago, for
    /// example because it stored a checkpoint, as the others probably will.
    pub(super) fn may_share(&self, kind: &Name, now: Timestamp) -> bool {
        let own_leases = self.own_leases.lock().unwrap_or_else(PoisonError::into_inner);
        own_leases.get(kind).is_none_or(|until| *until <= now)
    }

    /// Records that the shared leases of these attempts were split.
    pub(super) fn set_split<'a>(&self, leases: impl Iterator<Item = &'a LeaseRef>, now: Timestamp) {
        let cached = self.lock();
        let mut own_leases = self.own_leases.lock().unwrap_or_else(PoisonError::into_inner);
        for lease in leases {
            let cached = cached.get(&(lease.tenant.clone(), lease.job));
            if let Some(CachedLease { row, shared: Some(shared), .. }) = cached {
                shared.set_split();
                own_leases.insert(row.entry.job.kind.clone(), now.after(OWN_LEASES_KEPT));
            }
        }
    }

    pub(super) fn add_ended(&self, lease: &SharedLease) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push_key(lease);
    }

    pub(super) fn take_ended(&self) -> SharedLeaseKeys {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantJob, CachedLease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
