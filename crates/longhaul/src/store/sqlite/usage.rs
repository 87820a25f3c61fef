//! What finished jobs used.

use rusqlite::params;

use super::columns::{Columns, int, limit, millis};
use super::error::Trouble;
use super::sql;
use super::task::Tx;
use crate::job::{Job, Name, TenantId, Timestamp, USAGE_KEPT, Usage, UsageRow, hour_of};

/// Adds what a job used that ends in this transaction.
pub(super) fn add(tx: &Tx<'_>, job: &Job, key: Option<&str>, usage: Usage) -> rusqlite::Result<()> {
    tx.run(
        sql::ADD_USAGE,
        params![
            job.tenant.as_str(),
            hour_of(tx.now).as_millis(),
            job.kind.as_str(),
            key.unwrap_or_default(),
            int(usage.jobs),
            int(usage.run_ms),
            int(usage.payload_bytes),
            int(usage.steps),
        ],
    )?;
    Ok(())
}

/// How many finished steps a job has, before a position if one is named.
pub(super) fn count_steps(tx: &Tx<'_>, seq: i64, before: Option<u32>) -> rusqlite::Result<u64> {
    let count = tx.one(sql::COUNT_STEPS, params![seq, before], |row| Columns::of(row).count())?;
    Ok(count.unwrap_or_default())
}

pub(super) fn rows(
    tx: &Tx<'_>,
    tenant: &TenantId,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<UsageRow>, Trouble> {
    let hours = params![tenant.as_str(), hour_of(from).as_millis(), to.as_millis()];
    Ok(tx.all(sql::USAGE, hours, |row| read(&mut Columns::of(row)))?)
}

/// In the order of `usage.sql`.
pub(super) fn read(columns: &mut Columns<'_>) -> rusqlite::Result<UsageRow> {
    Ok(UsageRow {
        hour: columns.at()?,
        kind: columns.text(|text| Name::new(text).ok())?,
        key: Some(columns.get::<String>()?).filter(|key| !key.is_empty()),
        usage: Usage {
            jobs: columns.count()?,
            run_ms: columns.count()?,
            payload_bytes: columns.count()?,
            steps: columns.count()?,
        },
    })
}

/// Forgets what is kept no longer. There is nothing to fold: one writer adds to the sums themselves.
pub(super) fn forget(tx: &Tx<'_>, count: usize) -> Result<usize, Trouble> {
    let before = tx.now.as_millis().saturating_sub(millis(USAGE_KEPT));
    tx.run(sql::FORGET_USAGE, [before, limit(count)])?;
    Ok(0)
}
