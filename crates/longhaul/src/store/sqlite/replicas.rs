//! Replica heartbeats. The file belongs to one process, which may run several engines.

use rusqlite::params;

use crate::job::Timestamp;
use crate::store::sqlite::connection::columns::{Columns, from_json, millis, to_json};
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
        ],
    )?;
    if written == 1 {
        return Ok(());
    }
    Err(StoreError::NameTaken { replica: beat.replica.clone() }.into())
}

/// Returns the replicas with a recent heartbeat.
pub(crate) fn replicas(tx: &Tx<'_>) -> Result<Vec<ReplicaState>, SqliteError> {
    Ok(tx.all(sql::REPLICAS, [], |row| read(&mut Columns::of(row), tx.now))?)
}

/// Removes a replica.
pub(crate) fn deregister(tx: &Tx<'_>, replica: &str) -> Result<(), SqliteError> {
    tx.run(sql::DEREGISTER, [replica])?;
    Ok(())
}

/// Reads the columns of `replicas.sql`.
fn read(columns: &mut Columns<'_>, now: Timestamp) -> rusqlite::Result<ReplicaState> {
    let beat = Heartbeat {
        replica: columns.get()?,
        run: columns.get::<i64>()?.cast_unsigned(),
        role: columns.get()?,
        version: columns.get()?,
        host: columns.get()?,
        pid: columns.get()?,
        kinds: from_json(&columns.get::<String>()?)?,
        running: columns.get()?,
        concurrency: columns.get()?,
        silent_after: columns.duration()?,
    };
    let (started_at, seen_at) = (columns.at()?, columns.at()?);
    Ok(ReplicaState { alive: beat.is_alive(seen_at, now), heartbeat: beat, started_at, seen_at })
}
