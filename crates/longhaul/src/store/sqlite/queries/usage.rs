//! Usage of finished jobs by hour.

use rusqlite::params;

use crate::job::{TenantId, Timestamp, UsageRow, hour_of};
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
    Ok(tx.all(sql::USAGE, hours)?)
}
