//! Deletion of finished jobs past their retention, and of expired tombstones.

use std::time::Duration;

use rusqlite::params;

use crate::store::sqlite::connection::columns::{limit, millis};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// How long a deleted job is remembered as gone.
const TOMBSTONES_KEPT: Duration = Duration::from_hours(30 * 24);
/// Rows that one transaction deletes before it leaves the rest to the next: a job may have thousands
/// of steps.
const EXPIRED_ROWS_MAX: usize = 20_000;

/// Deletes jobs whose retention has ended, and forgets ids that have been gone for long.
/// How many jobs, and whether the rows of these were enough for one transaction.
pub(crate) fn prune(tx: &Tx<'_>, count: usize) -> Result<(usize, bool), SqliteError> {
    let expired = tx.all(sql::EXPIRED_JOBS, [tx.now.as_millis(), limit(count)], |row| {
        Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
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

/// Deletes all of a job; how many rows that were.
pub(crate) fn delete_job(tx: &Tx<'_>, seq: i64, tenant: &str, id: &str) -> rusqlite::Result<usize> {
    let mut rows = 0;
    for sql in [sql::DELETE_JOB, sql::DELETE_INPUT, sql::DELETE_RESULT, sql::DELETE_STEPS] {
        rows += tx.run(sql, [seq])?;
    }
    rows += tx.run(sql::EXPIRE_BLOBS, params![tenant, id, tx.now.as_millis()])?;
    tx.deleted.set(true);
    tx.run(sql::INSERT_TOMBSTONE, params![tenant, id, tx.now.as_millis()])?;
    Ok(rows)
}
