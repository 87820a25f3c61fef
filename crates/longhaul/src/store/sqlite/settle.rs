//! The ends of attempts: told by their workers, or by their silence.

use rusqlite::params;

use super::aside::or_set_aside;
use super::columns::limit;
use super::error::Trouble;
use super::row::Row;
use super::task::Tx;
use super::{blobs, find, sql};
use crate::job::Job;
use crate::store::{BlobRole, SettleResult, Settlement, StoreError};

/// Ends an attempt, or finds that this very settlement ended it before.
pub(super) fn settle(tx: &Tx<'_>, settlement: &Settlement) -> Result<SettleResult, Trouble> {
    let lease = &settlement.lease;
    let Some(mut row) = find::held(tx, lease)? else {
        return match find::row(tx, &lease.tenant, lease.job) {
            Err(Trouble::Refused(_)) => Err(StoreError::LeaseLost.into()),
            found => Ok(found?.entry.settled_before(settlement)?),
        };
    };
    if let Some(result) = row.entry.settle(settlement, tx.now)? {
        tx.run(sql::INSERT_RESULT, params![row.seq, result.as_str()])?;
        for artifact in &settlement.artifacts {
            blobs::insert(tx, &lease.tenant, lease.job, BlobRole::Artifact, artifact)?;
        }
        row.result = Some(result);
    }
    row.give_back(tx)?;
    row.save(tx)?;
    Ok(row.entry.settled())
}

/// Ends the attempts of jobs whose leases ran out.
pub(super) fn rescue(tx: &Tx<'_>, count: usize) -> Result<Vec<Job>, Trouble> {
    let lost: Vec<i64> =
        tx.all(sql::LOST_LEASES, [tx.now.as_millis(), limit(count)], |row| row.get(0))?;
    let mut ended = Vec::with_capacity(lost.len());
    for seq in lost {
        let read = Row::load(tx, seq).map_err(Trouble::from);
        let Some(mut row) = or_set_aside(tx, seq, read)? else { continue };
        row.entry.lose(tx.now)?;
        row.give_back(tx)?;
        row.save(tx)?;
        ended.push(row.entry.job);
    }
    Ok(ended)
}
