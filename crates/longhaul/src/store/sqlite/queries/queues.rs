//! Queue states and pending counts.

use rusqlite::params;

use crate::job::{Name, TenantId};
use crate::store::sqlite::connection::columns::{int, limit};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;
use crate::store::{QueueState, QueueTotal};

/// Returns the tenant's queues that are paused or have unfinished jobs.
pub(crate) fn queues(tx: &Tx<'_>, tenant: &TenantId) -> Result<Vec<QueueState>, SqliteError> {
    let params = params![tenant.as_str(), tx.now.as_millis()];
    Ok(tx.all(sql::QUEUES, params)?)
}

/// Returns the totals of up to `count` queues over all tenants.
pub(crate) fn queue_totals(tx: &Tx<'_>, count: usize) -> Result<Vec<QueueTotal>, SqliteError> {
    Ok(tx.all(sql::QUEUE_TOTALS, [limit(count), tx.now.as_millis()])?)
}

/// Counts the tenant's pending jobs, up to `up_to`.
pub(crate) fn count_pending(
    tx: &Tx<'_>,
    tenant: &TenantId,
    queue: Option<&Name>,
    up_to: u64,
) -> Result<u64, SqliteError> {
    let counted = match queue {
        None => tx.one(sql::COUNT_PENDING, params![tenant.as_str(), int(up_to)])?,
        Some(queue) => {
            let params = params![tenant.as_str(), queue.as_str(), int(up_to)];
            tx.one(sql::COUNT_PENDING_IN_QUEUE, params)?
        }
    };
    Ok(counted.unwrap_or(0))
}
