//! What this process knows of the jobs that it holds, so that ending an attempt needs no look first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::row::Row;
use crate::job::{JobId, TenantId};
use crate::store::{Lease, LeaseRef};

/// More than a replica runs at once; beyond it, knowledge is dropped and looked up again.
const HELD_MAX: usize = 20_000;

/// A job as it was when it was claimed here, or last written.
#[derive(Clone)]
pub(super) struct HeldRow {
    pub(super) row: Row,
    /// The history until the claim.
    pub(super) history: Option<String>,
    /// The events since.
    pub(super) events: Option<String>,
    /// Whether a limit may count it.
    pub(super) counted: bool,
    pub(super) steps: Steps,
}

/// What this process knows of a job's finished steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    /// How many there are; none once nobody knows.
    stored: Option<u64>,
    /// How many are being stored.
    under_way: u64,
}

impl Steps {
    /// Those that a job is claimed with, if that is known.
    pub(super) fn at_claim(stored: Option<u64>) -> Self {
        Self { stored, under_way: 0 }
    }

    /// How many there are, if that is sure.
    pub(super) fn sure(self) -> Option<u64> {
        self.stored.filter(|_| self.under_way == 0)
    }
}

/// Rows by job. Only a hint: what is written still carries the version that it was read with.
#[derive(Default)]
pub(super) struct HeldRows(
    /// A std mutex: held for a map access, never across an await.
    Mutex<HashMap<(TenantId, JobId), HeldRow>>,
);

impl HeldRows {
    pub(super) fn keep(&self, held: HeldRow) {
        let job = &held.row.entry.job;
        let key = (job.tenant.clone(), job.id);
        let mut rows = self.lock();
        if rows.len() >= HELD_MAX {
            rows.clear();
        }
        rows.insert(key, held);
    }

    /// Takes what is known of a lease.
    pub(super) fn take(&self, lease: &LeaseRef) -> Option<HeldRow> {
        let mut rows = self.lock();
        let key = (lease.tenant.clone(), lease.job);
        // A later attempt of the same job may run here.
        let same = rows.get(&key).is_some_and(|held| held.row.entry.epoch == lease.epoch);
        if same { rows.remove(&key) } else { None }
    }

    /// Replaces what is known of a lease, if it is known here: what is no longer held must not come back.
    /// Steps are counted on.
    pub(super) fn replace(&self, held: HeldRow) {
        let entry = &held.row.entry;
        let mut rows = self.lock();
        if let Some(known) = rows.get_mut(&(entry.job.tenant.clone(), entry.job.id))
            && known.row.entry.epoch == entry.epoch
        {
            *known = HeldRow { steps: known.steps, ..held };
        }
    }

    /// Notes with how many steps a job was claimed.
    pub(super) fn begin_with(&self, lease: &Lease) {
        let stored = Some(lease.steps.len() as u64);
        self.on_steps(&lease.to_ref(), |steps| *steps = Steps::at_claim(stored));
    }

    /// Notes that a step is about to be stored. False if its lease is not known here.
    pub(super) fn storing(&self, lease: &LeaseRef) -> bool {
        self.on_steps(lease, |steps| steps.under_way += 1)
    }

    /// Notes what became of a step: whether it is new, if anybody knows.
    pub(super) fn stored(&self, lease: &LeaseRef, new: Option<bool>) {
        self.on_steps(lease, |steps| {
            steps.under_way = steps.under_way.saturating_sub(1);
            steps.stored = match (steps.stored, new) {
                (Some(stored), Some(new)) => Some(stored + u64::from(new)),
                (None, _) | (_, None) => None,
            };
        });
    }

    fn on_steps(&self, lease: &LeaseRef, change: impl FnOnce(&mut Steps)) -> bool {
        let mut rows = self.lock();
        let known = rows.get_mut(&(lease.tenant.clone(), lease.job));
        let known = known.filter(|known| known.row.entry.epoch == lease.epoch);
        known.map(|known| change(&mut known.steps)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(TenantId, JobId), HeldRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
