//! Quarantine of unreadable jobs, so that one of them does not stop claims and maintenance.

use rusqlite::OptionalExtension;

use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// Quarantines a job that cannot be read and returns `None`. The job is skipped until its queue is resumed
/// or the file is opened again.
pub(crate) fn or_quarantine<T>(
    tx: &Tx<'_>,
    seq: i64,
    read: Result<T, SqliteError>,
) -> Result<Option<T>, SqliteError> {
    match read {
        Err(SqliteError::Database(error)) if is_unreadable(&error) => {
            // The end of its attempt would do this, but an unreadable job has none.
            tx.run(sql::RELEASE_LIMITS, [seq])?;
            let mut found = quarantine(tx, sql::QUARANTINE, seq)?;
            if found.is_none() {
                found = quarantine(tx, sql::QUARANTINE_LEASE, seq)?;
            }
            let (tenant, id) = found.unwrap_or_default();
            tracing::error!(
                job.id = id,
                tenant.id = tenant,
                seq,
                "quarantined a job that cannot be read"
            );
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Returns tenant and id of the job, if the statement found it.
fn quarantine(
    tx: &Tx<'_>,
    sql: &'static str,
    seq: i64,
) -> rusqlite::Result<Option<(String, String)>> {
    let names = |row: &rusqlite::Row<'_>| {
        let text = |column| row.get(column).unwrap_or_default();
        Ok((text(0), text(1)))
    };
    tx.conn.prepare_cached(sql)?.query_row([seq], names).optional()
}

pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, QueryReturnedNoRows,
        Utf8Error,
    };
    matches!(
        error,
        FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | QueryReturnedNoRows
            | Utf8Error(..)
    )
}
