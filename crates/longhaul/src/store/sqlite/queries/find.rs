//! Reads of single jobs.

use rusqlite::params;

use crate::job::{JobId, Json, Record, Step, TenantId};
use crate::store::sqlite::connection::columns::{int, to_json};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::{JobVersion, LeaseRef, StoreError};

/// Returns the row of a job, or `NotFound` or `Gone`.
pub(crate) fn row(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<JobRow, SqliteError> {
    let seq = seq(tx, tenant, id)?;
    Ok(JobRow::load(tx, seq)?)
}

/// Returns the row id of a job, or `NotFound` or `Gone`.
pub(crate) fn seq(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<i64, SqliteError> {
    let id = id.to_string();
    let key = [tenant.as_str(), id.as_str()];
    match tx.one(sql::FIND_JOB, key)? {
        Some(seq) => Ok(seq),
        None => Err(missing(tx, key)),
    }
}

/// Returns `Gone` for a deleted job and `NotFound` for one that never existed.
fn missing(tx: &Tx<'_>, key: [&str; 2]) -> SqliteError {
    match tx.exists(sql::FIND_TOMBSTONE, key) {
        Ok(true) => StoreError::Gone.into(),
        Ok(false) => StoreError::NotFound.into(),
        Err(error) => error.into(),
    }
}

/// Returns the row of a job if the lease is current.
pub(crate) fn leased(tx: &Tx<'_>, lease: &LeaseRef) -> rusqlite::Result<Option<Box<JobRow>>> {
    if let Some(row) = tx.caches.leases.borrow_mut().take(lease) {
        return Ok(Some(row));
    }
    let found = lease_seq(tx, lease)?;
    found.map(|(seq, ..)| JobRow::load(tx, seq).map(Box::new)).transpose()
}

/// Returns row id and attempt of a job if the lease is current, and whether its cancellation was requested.
pub(crate) fn lease_seq(
    tx: &Tx<'_>,
    lease: &LeaseRef,
) -> rusqlite::Result<Option<(i64, u32, bool)>> {
    tx.one(
        sql::FIND_LEASED,
        params![lease.tenant.as_str(), lease.job.to_string(), int(lease.epoch)],
    )
}

/// Returns the row with an idempotency key.
pub(crate) fn by_key(
    tx: &Tx<'_>,
    tenant: &TenantId,
    key: &str,
) -> rusqlite::Result<Option<JobRow>> {
    let seq = tx.one(sql::FIND_KEY, [tenant.as_str(), key])?;
    seq.map(|seq| JobRow::load(tx, seq)).transpose()
}

pub(crate) fn record(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Record, SqliteError> {
    let id = id.to_string();
    let key = [tenant.as_str(), id.as_str()];
    tx.one(sql::RECORD, key)?.ok_or_else(|| missing(tx, key))
}

pub(crate) fn record_by_key(
    tx: &Tx<'_>,
    tenant: &TenantId,
    key: &str,
) -> Result<Record, SqliteError> {
    let row = by_key(tx, tenant, key)?.ok_or(StoreError::NotFound)?;
    record(tx, tenant, row.stored.job.id)
}

/// Returns versions in the order of the arguments.
pub(crate) fn versions(
    tx: &Tx<'_>,
    jobs: &[(TenantId, JobId)],
) -> Result<Vec<Option<JobVersion>>, SqliteError> {
    let asked: Vec<_> = jobs.iter().map(|(tenant, id)| (tenant, id.to_string())).collect();
    Ok(tx.all(sql::VERSIONS, [to_json(&asked)?])?)
}

pub(crate) fn input(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Json, SqliteError> {
    Ok(input_of(tx, seq(tx, tenant, id)?)?)
}

pub(crate) fn steps(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, SqliteError> {
    Ok(steps_of(tx, seq(tx, tenant, id)?)?)
}

/// Returns the input. Every job has one.
pub(crate) fn input_of(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<Json> {
    tx.one(sql::INPUT, [seq])?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

pub(crate) fn steps_of(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<Vec<Step>> {
    tx.all(sql::STEPS, [seq])
}
