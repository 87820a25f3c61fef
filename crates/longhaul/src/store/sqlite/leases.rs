//! Writes of workers: renewals, reports, checkpoints and work directories. Every write finds its job by the
//! epoch of the lease.

use std::time::Duration;

use rusqlite::params;

use crate::store::sqlite::connection::columns::int;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::sql;
use crate::store::{BlobRole, Checkpoint, CheckpointResult, LeaseRef, Renewal, Report, StoreError};

/// Extends leases.
pub(crate) fn renew(
    tx: &Tx<'_>,
    leases: &[LeaseRef],
    duration: Duration,
) -> Result<Vec<Renewal>, SqliteError> {
    let until = tx.now.after(duration).as_millis();
    let renew = |lease: &LeaseRef| {
        let key = params![lease.tenant.as_str(), lease.job.to_string(), int(lease.epoch), until];
        let kept = tx.one(sql::RENEW, key)?;
        Ok(kept.map_or(Renewal::Lost, |cancel_requested| Renewal::Kept { cancel_requested }))
    };
    leases.iter().map(renew).collect()
}

/// Records phases and progress.
pub(crate) fn report(tx: &Tx<'_>, report: &Report) -> Result<(), SqliteError> {
    let mut row = find::leased(tx, &report.lease)?.ok_or(StoreError::LeaseLost)?;
    row.stored.tell(&report.phases, report.progress.as_ref(), tx.now);
    row.save_transition(tx)?;
    tx.caches.leases.borrow_mut().insert(row);
    Ok(())
}

/// Stores a step's output.
pub(crate) fn checkpoint(tx: &Tx<'_>, step: &Checkpoint) -> Result<CheckpointResult, SqliteError> {
    let lease = &step.lease;
    let cached = tx.caches.leases.borrow().get(lease).map(|row| {
        let job = &row.stored.job;
        (row.seq, job.attempt, job.cancel_requested_at.is_some())
    });
    let found = if cached.is_some() { cached } else { find::lease_seq(tx, lease)? };
    let (seq, attempt, cancel_requested) = found.ok_or(StoreError::LeaseLost)?;
    let stored = tx.run(
        sql::INSERT_STEP,
        params![
            seq,
            step.name,
            step.position,
            step.output.as_str(),
            step.alone,
            attempt,
            step.started_at.as_millis(),
            tx.now.as_millis(),
        ],
    )?;
    if stored == 1 {
        tx.caches.leases.borrow_mut().count_step(lease);
        return Ok(CheckpointResult { cancel_requested });
    }
    let stored: Option<(u32, String)> = tx.one(sql::FIND_STEP, params![seq, step.name])?;
    if stored.is_some_and(|(_, output)| output == step.output.as_str()) {
        return Ok(CheckpointResult { cancel_requested });
    }
    Err(StoreError::StepConflict { name: step.name.clone() }.into())
}

/// Records the work directory of a running attempt.
pub(crate) fn record_work_dir(
    tx: &Tx<'_>,
    lease: &LeaseRef,
    path: &str,
    replica: &str,
) -> Result<(), SqliteError> {
    find::lease_seq(tx, lease)?.ok_or(StoreError::LeaseLost)?;
    let (tenant, id, at) = (lease.tenant.as_str(), lease.job.to_string(), tx.now.as_millis());
    let none: Option<Vec<u8>> = None;
    let role = BlobRole::Folder.as_str();
    tx.run(sql::INSERT_BLOB, params![tenant, id, path, role, "", "", 0, none, none, at, replica])?;
    Ok(())
}
