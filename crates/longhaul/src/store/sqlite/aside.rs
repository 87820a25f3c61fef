//! Jobs that cannot be read. One of them must not stop the others.

use super::error::Trouble;
use super::sql;
use super::task::Tx;

/// What was read of a job, or none if it holds what this program never wrote: then nobody meets it
/// again until its queue is resumed or the file is opened anew.
pub(super) fn or_set_aside<T>(
    tx: &Tx<'_>,
    seq: i64,
    read: Result<T, Trouble>,
) -> Result<Option<T>, Trouble> {
    match read {
        Err(Trouble::Sql(error)) if is_unreadable(&error) => {
            let text = |row: &rusqlite::Row<'_>, column| row.get(column).unwrap_or_default();
            // Nobody would give it back later.
            tx.run(sql::GIVE_BACK, [seq])?;
            let found = tx.one(sql::SET_ASIDE, [seq], |row| Ok((text(row, 0), text(row, 1))))?;
            let (tenant, id): (String, String) = found.unwrap_or_default();
            tracing::error!(
                job.id = id,
                tenant.id = tenant,
                seq,
                "a job that cannot be read is set aside"
            );
            Ok(None)
        }
        other => other.map(Some),
    }
}

pub(super) fn is_unreadable(error: &rusqlite::Error) -> bool {
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
