//! Claims: selects due jobs round-robin over tenants and leases them.
//!
//! Inside a tenant the job with the lowest rank is first, over all of its kinds. The cost is a few seeks per
//! visited tenant. It does not grow with the number of pending, scheduled, paused or finished jobs, nor with
//! the number of queues, nor with tenants that only have jobs of other kinds.

mod candidates;
pub(crate) mod hand_off;
mod limits;
mod outbox;
pub(crate) mod quarantine;
mod tenants;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::job::Timestamp;
use crate::store::fairness::{ClaimCapacity, Lanes, PRIORITY_POINT_MS, round_robin};
use crate::store::limits::{LimitCheck, LimitKey};
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::{Claim, ClaimResult, Lease};
use candidates::TenantCandidates;
use limits::ClaimLimits;
use quarantine::or_quarantine;
use tenants::Tenants;

/// Scheduled jobs that one claim makes ready when they are due. The next claim continues with the rest.
const PROMOTED_MAX: usize = 1_000;

/// The lanes that were served last, which the next claim starts after. Kept in memory only, because losing
/// them affects nothing but fairness.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    // Std mutexes, because only the writer thread takes them.
    last_tenant: Mutex<String>,
    last_outbox_queue: Mutex<outbox::OutboxQueue>,
    /// True after the first claim since the file was opened.
    begun: AtomicBool,
}

/// Claims jobs within the capacity and limits of `want`.
pub(crate) fn claim(
    tx: &Tx<'_>,
    want: &Claim,
    rotation: &Rotation,
) -> Result<ClaimResult, SqliteError> {
    promote_due(tx, want)?;
    let mut limits = ClaimLimits::new(tx, want)?;
    if !rotation.begun.swap(true, Ordering::Relaxed) && !limits.by_queue {
        tx.run(sql::DROP_QUEUE_INDEX, [])?;
    }
    let selected = if let Some(capacity) = &want.queue_capacity {
        let mut last = rotation.last_outbox_queue.lock().unwrap_or_else(PoisonError::into_inner);
        outbox::select(tx, want, capacity, &mut last)?
    } else {
        let mut last = rotation.last_tenant.lock().unwrap_or_else(PoisonError::into_inner);
        let capacity = ClaimCapacity::of(want);
        let tenants = Tenants::after(tx, &last, capacity.kinds())?;
        round_robin(&mut TenantLanes {
            tx,
            capacity,
            limits: &mut limits,
            tenants,
            last: &mut last,
        })?
    };
    let mut leases = Vec::with_capacity(selected.len());
    for seq in selected {
        let result = lease(tx, seq, want, &mut limits.check);
        leases.extend(or_quarantine(tx, seq, result)?);
    }
    limits.save(tx)?;
    Ok(ClaimResult { leases, limited_until: limits.check.next_at() })
}

/// Makes scheduled jobs ready whose time has come.
fn promote_due(tx: &Tx<'_>, want: &Claim) -> Result<(), SqliteError> {
    let promoted_max = limit(PROMOTED_MAX.max(want.limit));
    tx.run(sql::PROMOTE_DUE, [tx.now.as_millis(), promoted_max, PRIORITY_POINT_MS])?;
    Ok(())
}

/// Returns the due time of the first job that no claim has made ready yet.
pub(crate) fn next_due_at(tx: &Tx<'_>) -> Result<Option<Timestamp>, SqliteError> {
    Ok(tx.one(sql::NEXT_DUE, [])?.flatten())
}

/// One lane per tenant.
struct TenantLanes<'a, 'm> {
    tx: &'a Tx<'a>,
    capacity: ClaimCapacity<'a>,
    limits: &'m mut ClaimLimits<'a>,
    tenants: Tenants<'a>,
    /// The tenant that was served last.
    last: &'m mut String,
}

impl<'a> Lanes for TenantLanes<'a, '_> {
    type Lane = TenantCandidates<'a>;
    type Job = i64;
    type Error = rusqlite::Error;

    fn discover(&mut self) -> rusqlite::Result<Option<Self::Lane>> {
        let Some((tenant, kinds)) = self.tenants.next(&self.capacity)? else { return Ok(None) };
        TenantCandidates::new(self.tx, tenant, kinds, self.limits).map(Some)
    }

    fn take(&mut self, lane: &mut Self::Lane) -> rusqlite::Result<Option<i64>> {
        let Some((kind, seq)) = lane.pop(self.tx, &self.capacity, self.limits)? else {
            return Ok(None);
        };
        self.capacity.take(kind);
        self.last.clone_from(&lane.tenant);
        Ok(Some(seq))
    }

    fn is_full(&self) -> bool {
        self.capacity.is_full()
    }
}

/// Leases one job. Reads all of it before writing, so that an unreadable job is quarantined unchanged.
fn lease(
    tx: &Tx<'_>,
    seq: i64,
    want: &Claim,
    check: &mut LimitCheck<'_>,
) -> Result<Lease, SqliteError> {
    let (mut row, input) = JobRow::load_pending(tx, seq)?;
    let may_have_steps = row.stored.may_have_steps();
    let steps = if may_have_steps { find::steps_of(tx, seq)? } else { Vec::new() };
    let expires_at = row.stored.claim(want, tx.now)?;
    row.counted = check.pass(LimitKey::of(&row.stored.job));
    row.steps = Some(steps.len() as u64);
    row.save_transition(tx)?;
    let (epoch, job) = (row.stored.epoch, row.stored.job.clone());
    tx.caches.leases.borrow_mut().insert(Box::new(row));
    Ok(Lease { job, epoch, expires_at, input, steps })
}
