//! Control of jobs and queues: cancel, resume, purge and pause.

use rusqlite::params;

use crate::job::{Job, JobId, Name, TenantId};
use crate::store::fairness::PRIORITY_POINT_MS;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::maintenance::prune::delete_job;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::sql;

/// Cancels a job, or requests cancellation from its worker.
pub(crate) fn cancel(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Job, SqliteError> {
    let mut row = find::row(tx, tenant, id)?;
    if row.stored.cancel(tx.now)? {
        row.save_transition(tx)?;
    }
    Ok(row.stored.job)
}

/// Returns a failed or cancelled job to its queue.
pub(crate) fn resume(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Job, SqliteError> {
    let mut row = find::row(tx, tenant, id)?;
    row.stored.resume(tx.now)?;
    row.save_transition(tx)?;
    Ok(row.stored.job)
}

/// Deletes a finished job.
pub(crate) fn purge(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<(), SqliteError> {
    let row = find::row(tx, tenant, id)?;
    row.stored.check_purge()?;
    delete_job(tx, row.seq, tenant.as_str(), &id.to_string())?;
    Ok(())
}

/// Pauses or resumes a queue. Updates all of its pending jobs in one statement, which blocks the writer for
/// about a second with 100,000 jobs in a debug build.
pub(crate) fn pause_queue(
    tx: &Tx<'_>,
    tenant: &TenantId,
    queue: &Name,
    paused: bool,
) -> Result<(), SqliteError> {
    let queue = [tenant.as_str(), queue.as_str()];
    tx.caches.has_paused_queues.take();
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
