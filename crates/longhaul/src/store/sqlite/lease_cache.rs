//! Cache of the running jobs, so that settling them needs no read first.

use std::collections::HashMap;

use crate::job::{Job, JobId};
use crate::store::LeaseRef;
use crate::store::sqlite::row::JobRow;

/// Maximum number of cached jobs; more than a replica runs at once. A full cache is cleared, and jobs are read
/// from the database again.
const CACHED_LEASES_MAX: usize = 20_000;

/// Running jobs as they are stored. It belongs to the only writer, which forgets a job before it writes it and empties
/// the cache after a rollback: so a cached lease is the current one.
#[derive(Default)]
pub(crate) struct LeaseCache {
    leases: HashMap<JobId, Box<JobRow>>,
}

impl LeaseCache {
    /// Adds a job as it was just written.
    pub(crate) fn insert(&mut self, row: Box<JobRow>) {
        if self.leases.len() >= CACHED_LEASES_MAX {
            self.leases.clear();
        }
        self.leases.insert(row.stored.job.id, row);
    }

    /// Returns the job of a current lease.
    pub(crate) fn get(&self, lease: &LeaseRef) -> Option<&JobRow> {
        self.leases.get(&lease.job).map(AsRef::as_ref).filter(|row| is_leased_by(row, lease))
    }

    /// Removes and returns the job of a current lease.
    pub(crate) fn take(&mut self, lease: &LeaseRef) -> Option<Box<JobRow>> {
        self.get(lease)?;
        self.leases.remove(&lease.job)
    }

    /// Counts a step that was stored.
    pub(crate) fn count_step(&mut self, lease: &LeaseRef) {
        let cached = self.leases.get_mut(&lease.job).filter(|row| is_leased_by(row, lease));
        if let Some(row) = cached {
            row.steps = row.steps.map(|steps| steps + 1);
        }
    }

    /// Removes a job that is about to be written.
    pub(crate) fn forget(&mut self, job: &Job) {
        self.leases.remove(&job.id);
    }
}

fn is_leased_by(row: &JobRow, lease: &LeaseRef) -> bool {
    row.stored.epoch == lease.epoch && row.stored.job.tenant == lease.tenant
}
