//! Replica heartbeats. The file belongs to one process, which may run several engines.

use rusqlite::params;

use crate::store::rows::with_liveness;
use crate::store::sqlite::connection::columns::{millis, to_json};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;
use crate::store::{Heartbeat, REPLICA_FORGOTTEN_AFTER, ReplicaState, StoreError};

/// Records a replica's heartbeat.
pub(crate) fn heartbeat(tx: &Tx<'_>, beat: &Heartbeat) -> Result<(), SqliteError> {
    let forgotten = tx.now.as_millis().saturating_sub(millis(REPLICA_FORGOTTEN_AFTER));
    tx.run(sql::FORGET_REPLICAS, [forgotten])?;
    let written = tx.run(
        sql::HEARTBEAT,
        params![
            beat.replica,
            beat.run.cast_signed(),
            beat.role,
            beat.version,
            beat.host,
            beat.pid,
            to_json(&beat.kinds)?,
            beat.running,
            beat.concurrency,
            millis(beat.silent_after),
            tx.now.as_millis(),
            beat.process,
        ],
    )?;
    if written == 1 {
        return Ok(());
    }
    Err(StoreError::NameTaken { replica: beat.replica.clone() }.into())
}

/// Returns the replicas with a recent heartbeat.
pub(crate) fn replicas(tx: &Tx<'_>) -> Result<Vec<ReplicaState>, SqliteError> {
    Ok(with_liveness(tx.all(sql::REPLICAS, [])?, tx.now))
}

/// Removes a replica whose process has ended, and expires its leases.
pub(crate) fn take_over(tx: &Tx<'_>, replica: &str, run: u64) -> Result<(), SqliteError> {
    if tx.run(sql::TAKE_OVER, params![replica, run.cast_signed()])? > 0 {
        tx.run(sql::TAKE_OVER_LEASES, params![replica, tx.now.as_millis()])?;
    }
    Ok(())
}

/// Removes a replica.
pub(crate) fn deregister(tx: &Tx<'_>, replica: &str) -> Result<(), SqliteError> {
    tx.run(sql::DEREGISTER, [replica])?;
    Ok(())
}
