//! Metering of finished jobs.

use std::collections::BTreeMap;

use rusqlite::params;

use crate::job::{Job, Name, TenantId, USAGE_RETENTION, Usage, hour_of};
use crate::store::sqlite::connection::columns::{int, limit, millis};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// Usage by tenant, kind and API key. The hour is that of the transaction.
pub(crate) type UsageTotals = BTreeMap<(TenantId, Name, Option<String>), Usage>;

/// Adds the usage of a job that finishes in this transaction. Summed in memory, because jobs that finish
/// together mostly have the same tenant and kind, and one write per job would cost as much as settling it.
pub(crate) fn add(tx: &Tx<'_>, job: &Job, key: Option<&str>, usage: Usage) {
    let key = (job.tenant.clone(), job.kind.clone(), key.map(ToOwned::to_owned));
    *tx.used.borrow_mut().entry(key).or_default() += usage;
}

/// Writes the sums. Runs once, before the commit.
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

/// Counts the finished steps of a job, optionally before a position.
pub(crate) fn count_steps(tx: &Tx<'_>, seq: i64, before: Option<u32>) -> rusqlite::Result<u64> {
    let count = tx.one(sql::COUNT_STEPS, params![seq, before])?;
    Ok(count.unwrap_or_default())
}

/// Deletes expired usage rows. There are no deltas to roll up, because the writer updates the totals
/// directly.
pub(crate) fn forget(tx: &Tx<'_>, count: usize) -> Result<usize, SqliteError> {
    let before = tx.now.as_millis().saturating_sub(millis(USAGE_RETENTION));
    tx.run(sql::FORGET_USAGE, [before, limit(count)])?;
    Ok(0)
}
