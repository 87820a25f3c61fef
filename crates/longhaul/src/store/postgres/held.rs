//! What this process knows of the jobs that it holds, so that ending an attempt needs no look first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::row::Row;
use crate::job::{JobId, TenantId};
use crate::store::LeaseRef;

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

    /// Whether the same lease is known here: what is no longer held must not come back.
    pub(super) fn knows(&self, held: &HeldRow) -> bool {
        let entry = &held.row.entry;
        let rows = self.lock();
        let known = rows.get(&(entry.job.tenant.clone(), entry.job.id));
        known.is_some_and(|known| known.row.entry.epoch == entry.epoch)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(TenantId, JobId), HeldRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
