//! Deletion of finished jobs past their retention, and of expired tombstones.

use std::time::Duration;

use rusqlite::params;

use crate::store::sqlite::connection::columns::{limit, millis};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// Lifetime of a tombstone.
const TOMBSTONES_KEPT: Duration = Duration::from_hours(30 * 24);
/// Maximum number of rows deleted per transaction, because a job may have thousands of steps.
const EXPIRED_ROWS_MAX: usize = 20_000;

/// Deletes jobs past their retention, and expired tombstones. Returns the number of jobs, and true if the row
/// limit of a transaction was reached.
pub(crate) fn prune(tx: &Tx<'_>, count: usize) -> Result<(usize, bool), SqliteError> {
    let expired: Vec<(i64, String, String)> =
        tx.all(sql::EXPIRED_JOBS, [tx.now.as_millis(), limit(count)])?;
    let (mut deleted, mut rows) = (0, 0);
    for (seq, tenant, id) in expired {
        if rows >= EXPIRED_ROWS_MAX {
            break;
        }
        rows += delete_job(tx, seq, &tenant, &id)?;
        deleted += 1;
    }
    let gone_before = tx.now.as_millis().saturating_sub(millis(TOMBSTONES_KEPT));
    tx.run(sql::FORGET_TOMBSTONES, [gone_before, limit(count)])?;
    tx.run(sql::FORGET_BLOBS, [gone_before, limit(count)])?;
    Ok((deleted, rows >= EXPIRED_ROWS_MAX))
}

/// Deletes a job, leaves a tombstone, and returns the number of deleted rows.
pub(crate) fn delete_job(tx: &Tx<'_>, seq: i64, tenant: &str, id: &str) -> rusqlite::Result<usize> {
    let mut rows = 0;
    for sql in [sql::DELETE_JOB, sql::DELETE_FINISHED, sql::DELETE_INPUT, sql::DELETE_STEPS] {
        rows += tx.run(sql, [seq])?;
    }
    rows += tx.run(sql::EXPIRE_BLOBS, params![tenant, id, tx.now.as_millis()])?;
    tx.deleted.set(true);
    tx.run(sql::INSERT_TOMBSTONE, params![tenant, id, tx.now.as_millis()])?;
    Ok(rows)
}
