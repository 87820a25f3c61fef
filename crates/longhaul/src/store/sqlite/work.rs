//! What workers write. Every write finds its job by the lease's epoch, or not at all.

use std::time::Duration;

use rusqlite::params;

use super::columns::int;
use super::error::Trouble;
use super::task::Tx;
use super::{find, sql};
use crate::store::{Checkpoint, LeaseRef, Renewal, Report, StoreError};

/// Extends leases.
pub(super) fn renew(
    tx: &Tx<'_>,
    leases: &[LeaseRef],
    duration: Duration,
) -> Result<Vec<Renewal>, Trouble> {
    let until = tx.now.after(duration).as_millis();
    let renew = |lease: &LeaseRef| {
        let key = params![lease.tenant.as_str(), lease.job.to_string(), int(lease.epoch), until];
        let kept = tx.one(sql::RENEW, key, |row| row.get(0))?;
        Ok(kept.map_or(Renewal::Lost, |cancel_requested| Renewal::Kept { cancel_requested }))
    };
    leases.iter().map(renew).collect()
}

/// Records what a running job tells of itself.
pub(super) fn report(tx: &Tx<'_>, report: &Report) -> Result<(), Trouble> {
    let mut row = find::held(tx, &report.lease)?.ok_or(StoreError::LeaseLost)?;
    row.entry.tell(&report.phases, report.progress.as_ref(), tx.now);
    Ok(row.save(tx)?)
}

/// Stores a step's output.
pub(super) fn checkpoint(tx: &Tx<'_>, step: &Checkpoint) -> Result<(), Trouble> {
    let stored = tx.run(
        sql::INSERT_STEP,
        params![
            step.lease.tenant.as_str(),
            step.lease.job.to_string(),
            int(step.lease.epoch),
            step.name,
            step.position,
            step.output.as_str(),
            step.alone,
            step.started_at.as_millis(),
            tx.now.as_millis(),
        ],
    )?;
    if stored == 1 {
        return Ok(());
    }
    let row = find::held(tx, &step.lease)?.ok_or(StoreError::LeaseLost)?;
    let output: Option<String> =
        tx.one(sql::FIND_STEP, params![row.seq, step.name], |row| row.get(1))?;
    if output.as_deref() == Some(step.output.as_str()) {
        return Ok(());
    }
    Err(StoreError::StepConflict { name: step.name.clone() }.into())
}
