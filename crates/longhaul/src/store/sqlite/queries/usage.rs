//! Usage of finished jobs by hour.

use rusqlite::params;

use crate::job::{Name, TenantId, Timestamp, Tokens, Usage, UsageRow, hour_of};
use crate::store::sqlite::connection::columns::Columns;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

pub(crate) fn rows(
    tx: &Tx<'_>,
    tenant: &TenantId,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<UsageRow>, SqliteError> {
    let hours = params![tenant.as_str(), hour_of(from).as_millis(), to.as_millis()];
    Ok(tx.all(sql::USAGE, hours, |row| read(&mut Columns::of(row)))?)
}

/// Reads the columns of `usage.sql`.
pub(crate) fn read(columns: &mut Columns<'_>) -> rusqlite::Result<UsageRow> {
    Ok(UsageRow {
        hour: columns.at()?,
        kind: columns.text(|text| Name::new(text).ok())?,
        key: Some(columns.get::<String>()?).filter(|key| !key.is_empty()),
        usage: Usage {
            jobs: columns.count()?,
            run_ms: columns.count()?,
            payload_bytes: columns.count()?,
            steps: columns.count()?,
            tokens: Tokens { prompt: columns.count()?, completion: columns.count()? },
        },
    })
}
