//! Fencing of workers from before a restore of the file.

use std::path::Path;

use crate::clock::Clock;
use crate::job::Timestamp;
use crate::store::sqlite::OpenError;
use crate::store::sqlite::connection::columns::int;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::statements::Statements;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::connection::{log_mark, open};
use crate::store::sqlite::maintenance::{rescue, usage};
use crate::store::sqlite::sql;
use crate::store::stored_job::{EPOCHS_PER_RESTORE, StoredJob};

/// Prepares a file for use after it was restored from a backup, while no process has it open: raises all epochs, so that
/// workers from before the restore can write nothing, and releases their jobs without a charged attempt. Returns the
/// number of these jobs.
///
/// It may be repeated. A store does not open a restored file before, because an interrupted restore must not be used.
pub fn fence(path: impl AsRef<Path>, clock: &Clock) -> Result<u64, OpenError> {
    let path = path.as_ref();
    let now = clock.now();
    let (conn, _lock) = open::open_restored(path, now)?;
    let fenced = || -> Result<u64, SqliteError> {
        let statements = Statements::new(&conn);
        let tx = Tx::new(&conn, &statements, now);
        conn.execute_batch("BEGIN IMMEDIATE")?;
        let released = raise_epochs(&tx)?;
        log_mark::clear(&conn)?;
        conn.execute_batch("COMMIT")?;
        Ok(released)
    };
    let released = fenced().map_err(|error| match error {
        SqliteError::Database(error) => OpenError::Sqlite(error),
        SqliteError::Rejected(error) => {
            OpenError::Io { path: path.to_owned(), source: std::io::Error::other(error) }
        }
    })?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(released)
}

fn raise_epochs(tx: &Tx<'_>) -> Result<u64, SqliteError> {
    let raised = int(EPOCHS_PER_RESTORE);
    for raise in [sql::RAISE_JOB_EPOCHS, sql::RAISE_LEASE_EPOCHS, sql::RAISE_FINISHED_EPOCHS] {
        tx.run(raise, [raised])?;
    }
    let released = rescue::end_leases(tx, usize::MAX, Timestamp::MAX, StoredJob::release_restored)?;
    usage::write(tx)?;
    Ok(released.len() as u64)
}
