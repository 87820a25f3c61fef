//! What callers and the house do to jobs: cancel, resume, delete; and to queues.

use std::time::Duration;

use rusqlite::params;

use super::columns::{limit, millis};
use super::error::Trouble;
use super::row::PRIORITY_POINT_MS;
use super::task::Tx;
use super::{find, sql};
use crate::job::{Job, JobId, Name, TenantId};

/// How long a deleted job is remembered as gone.
const TOMBSTONES_KEPT: Duration = Duration::from_hours(30 * 24);
/// Rows that one transaction deletes before it leaves the rest to the next: a job may have thousands
/// of steps.
const EXPIRED_ROWS_MAX: usize = 20_000;

/// Cancels a job, or asks its worker to stop.
pub(super) fn cancel(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Job, Trouble> {
    let mut row = find::row(tx, tenant, id)?;
    if row.entry.cancel(tx.now)? {
        row.save(tx)?;
    }
    Ok(row.entry.job)
}

/// Puts a job that ended badly back in line.
pub(super) fn resume(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Job, Trouble> {
    let mut row = find::row(tx, tenant, id)?;
    row.entry.resume(tx.now)?;
    row.save(tx)?;
    Ok(row.entry.job)
}

/// Deletes a finished job.
pub(super) fn purge(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<(), Trouble> {
    let row = find::row(tx, tenant, id)?;
    row.entry.check_purge()?;
    delete(tx, row.seq, tenant.as_str(), &id.to_string())?;
    Ok(())
}

/// Deletes jobs whose retention has ended, and forgets ids that have been gone for long.
/// How many jobs, and whether the rows of these were enough for one transaction.
pub(super) fn prune(tx: &Tx<'_>, count: usize) -> Result<(usize, bool), Trouble> {
    let expired = tx.all(sql::EXPIRED_JOBS, [tx.now.as_millis(), limit(count)], |row| {
        Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    let (mut deleted, mut rows) = (0, 0);
    for (seq, tenant, id) in expired {
        if rows >= EXPIRED_ROWS_MAX {
            break;
        }
        rows += delete(tx, seq, &tenant, &id)?;
        deleted += 1;
    }
    let gone_before = tx.now.as_millis().saturating_sub(millis(TOMBSTONES_KEPT));
    tx.run(sql::FORGET_TOMBSTONES, [gone_before, limit(count)])?;
    tx.run(sql::FORGET_BLOBS, [gone_before, limit(count)])?;
    Ok((deleted, rows >= EXPIRED_ROWS_MAX))
}

/// Deletes all of a job; how many rows that were.
fn delete(tx: &Tx<'_>, seq: i64, tenant: &str, id: &str) -> rusqlite::Result<usize> {
    let mut rows = 0;
    for sql in [sql::DELETE_JOB, sql::DELETE_INPUT, sql::DELETE_RESULT, sql::DELETE_STEPS] {
        rows += tx.run(sql, [seq])?;
    }
    rows += tx.run(sql::DOOM_BLOBS, params![tenant, id, tx.now.as_millis()])?;
    tx.deleted.set(true);
    tx.run(sql::INSERT_TOMBSTONE, params![tenant, id, tx.now.as_millis()])?;
    Ok(rows)
}

/// Stops or restarts claims from a queue. One statement over all that is pending in it, which keeps
/// the writer for a second with 100,000 jobs where nothing is optimised.
pub(super) fn pause_queue(
    tx: &Tx<'_>,
    tenant: &TenantId,
    queue: &Name,
    paused: bool,
) -> Result<(), Trouble> {
    let queue = [tenant.as_str(), queue.as_str()];
    if paused {
        if tx.run(sql::PAUSE_QUEUE, queue)? > 0 {
            tx.run(sql::PAUSE_JOBS, queue)?;
        }
    } else if tx.run(sql::RESUME_QUEUE, queue)? > 0 {
        let [tenant, queue] = queue;
        let params = params![tenant, queue, tx.now.as_millis(), PRIORITY_POINT_MS];
        tx.run(sql::RESUME_JOBS, params)?;
    }
    Ok(())
}
