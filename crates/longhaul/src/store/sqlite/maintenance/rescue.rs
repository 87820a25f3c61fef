//! Rescue of jobs whose lease expired.

use crate::job::{Job, Timestamp};
use crate::store::StoreError;
use crate::store::sqlite::claim::quarantine::or_quarantine;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::stored_job::StoredJob;

/// Ends the attempts of up to `count` jobs whose lease had expired by `expired_by`, the time of the call. Leases that expire
/// while the call waits for the disk are left to the next one, because their workers could not renew them meanwhile.
pub(crate) fn rescue(
    tx: &Tx<'_>,
    count: usize,
    expired_by: Timestamp,
) -> Result<Vec<Job>, SqliteError> {
    end_leases(tx, count, expired_by, StoredJob::lose)
}

/// Ends up to `count` attempts whose leases had expired by `expired_by`, each by `end`.
pub(super) fn end_leases(
    tx: &Tx<'_>,
    count: usize,
    expired_by: Timestamp,
    end: fn(&mut StoredJob, Timestamp) -> Result<(), StoreError>,
) -> Result<Vec<Job>, SqliteError> {
    let lost: Vec<i64> = tx.all(sql::EXPIRED_LEASES, [expired_by.as_millis(), limit(count)])?;
    let mut ended = Vec::with_capacity(lost.len());
    for seq in lost {
        let read = JobRow::load(tx, seq).map_err(SqliteError::from);
        let Some(mut row) = or_quarantine(tx, seq, read)? else { continue };
        end(&mut row.stored, tx.now)?;
        row.release_limits(tx)?;
        row.save_transition(tx)?;
        ended.push(row.stored.job);
    }
    Ok(ended)
}
