//! What finished jobs used.

use std::collections::BTreeMap;

use rusqlite::params;

use crate::job::{Job, Name, TenantId, USAGE_RETENTION, Usage, hour_of};
use crate::store::sqlite::connection::columns::{Columns, int, limit, millis};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// By tenant, kind and key. The hour is that of the transaction.
pub(crate) type Used = BTreeMap<(TenantId, Name, Option<String>), Usage>;

/// Adds what a job used that ends in this transaction. Jobs that end together are mostly of one tenant and
/// kind, and a row for each of them would cost as much as the end itself.
pub(crate) fn add(tx: &Tx<'_>, job: &Job, key: Option<&str>, usage: Usage) {
    let key = (job.tenant.clone(), job.kind.clone(), key.map(ToOwned::to_owned));
    *tx.used.borrow_mut().entry(key).or_default() += usage;
}

/// Writes what was added. The last thing in a transaction.
pub(crate) fn write(tx: &Tx<'_>) -> rusqlite::Result<()> {
    for ((tenant, kind, key), usage) in tx.used.take() {
        tx.run(
            sql::ADD_USAGE,
            params![
                tenant.as_str(),
                hour_of(tx.now).as_millis(),
                kind.as_str(),
                key.unwrap_or_default(),
                int(usage.jobs),
                int(usage.run_ms),
                int(usage.payload_bytes),
                int(usage.steps),
                int(usage.tokens.prompt),
                int(usage.tokens.completion),
            ],
        )?;
    }
    Ok(())
}

/// How many finished steps a job has, before a position if one is named.
pub(crate) fn count_steps(tx: &Tx<'_>, seq: i64, before: Option<u32>) -> rusqlite::Result<u64> {
    let count = tx.one(sql::COUNT_STEPS, params![seq, before], |row| Columns::of(row).count())?;
    Ok(count.unwrap_or_default())
}

/// Forgets what is kept no longer. There is nothing to fold: one writer adds to the sums themselves.
pub(crate) fn forget(tx: &Tx<'_>, count: usize) -> Result<usize, SqliteError> {
    let before = tx.now.as_millis().saturating_sub(millis(USAGE_RETENTION));
    tx.run(sql::FORGET_USAGE, [before, limit(count)])?;
    Ok(0)
}
