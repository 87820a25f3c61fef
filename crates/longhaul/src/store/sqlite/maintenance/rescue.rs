//! Rescue of jobs whose lease expired.

use crate::job::Job;
use crate::store::sqlite::claim::quarantine::or_quarantine;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;

/// Ends the attempts of up to `count` jobs whose lease expired.
pub(crate) fn rescue(tx: &Tx<'_>, count: usize) -> Result<Vec<Job>, SqliteError> {
    let lost: Vec<i64> = tx.all(sql::EXPIRED_LEASES, [tx.now.as_millis(), limit(count)])?;
    let mut ended = Vec::with_capacity(lost.len());
    for seq in lost {
        let read = JobRow::load(tx, seq).map_err(SqliteError::from);
        let Some(mut row) = or_quarantine(tx, seq, read)? else { continue };
        row.stored.lose(tx.now)?;
        row.release_limits(tx)?;
        row.save_transition(tx)?;
        ended.push(row.stored.job);
    }
    Ok(ended)
}
