//! Reads of single jobs.

use rusqlite::params;
use rusqlite::types::ValueRef;

use crate::job::{JobId, Json, Record, Status, Step, TenantId};
use crate::store::sqlite::connection::columns::{Columns, int, to_json};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::Row;
use crate::store::sqlite::sql;
use crate::store::{JobVersion, LeaseRef, StoreError};

/// Returns the row of a job, or `NotFound` or `Gone`.
pub(crate) fn row(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Row, SqliteError> {
    let seq = seq(tx, tenant, id)?;
    Ok(Row::load(tx, seq)?)
}

/// Returns the row id of a job, or `NotFound` or `Gone`.
fn seq(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<i64, SqliteError> {
    let id = id.to_string();
    let key = [tenant.as_str(), id.as_str()];
    if let Some(seq) = tx.one(sql::FIND_JOB, key, |row| row.get(0))? {
        return Ok(seq);
    }
    let tombstone = tx.one(sql::FIND_TOMBSTONE, key, |_| Ok(()))?;
    Err(tombstone.map_or(StoreError::NotFound, |()| StoreError::Gone).into())
}

/// Returns the row of a job if the lease is current.
pub(crate) fn leased(tx: &Tx<'_>, lease: &LeaseRef) -> rusqlite::Result<Option<Row>> {
    let key = params![lease.tenant.as_str(), lease.job.to_string(), int(lease.epoch)];
    let seq = tx.one(sql::FIND_LEASED, key, |row| row.get(0))?;
    seq.map(|seq| Row::load(tx, seq)).transpose()
}

/// Returns the row with an idempotency key.
pub(crate) fn by_key(tx: &Tx<'_>, tenant: &TenantId, key: &str) -> rusqlite::Result<Option<Row>> {
    let seq = tx.one(sql::FIND_KEY, [tenant.as_str(), key], |row| row.get(0))?;
    seq.map(|seq| Row::load(tx, seq)).transpose()
}

pub(crate) fn record(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Record, SqliteError> {
    Ok(row(tx, tenant, id)?.into_record(tx)?)
}

pub(crate) fn record_by_key(
    tx: &Tx<'_>,
    tenant: &TenantId,
    key: &str,
) -> Result<Record, SqliteError> {
    let row = by_key(tx, tenant, key)?.ok_or(StoreError::NotFound)?;
    Ok(row.into_record(tx)?)
}

/// Returns versions in the order of the arguments.
pub(crate) fn versions(
    tx: &Tx<'_>,
    jobs: &[(TenantId, JobId)],
) -> Result<Vec<Option<JobVersion>>, SqliteError> {
    let asked: Vec<_> = jobs.iter().map(|(tenant, id)| (tenant, id.to_string())).collect();
    Ok(tx.all(sql::VERSIONS, [to_json(&asked)?], |row| {
        if row.get_ref(0)? == ValueRef::Null {
            return Ok(None);
        }
        let mut columns = Columns::of(row);
        Ok(Some(JobVersion { version: columns.count()?, status: columns.text(Status::parse)? }))
    })?)
}

pub(crate) fn input(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Json, SqliteError> {
    Ok(input_of(tx, seq(tx, tenant, id)?)?)
}

pub(crate) fn steps(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, SqliteError> {
    Ok(steps_of(tx, seq(tx, tenant, id)?)?)
}

/// Returns the input. Every job has one.
pub(crate) fn input_of(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<Json> {
    tx.one(sql::INPUT, [seq], |row| Columns::of(row).json())?
        .ok_or(rusqlite::Error::QueryReturnedNoRows)
}

pub(crate) fn steps_of(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<Vec<Step>> {
    tx.all(sql::STEPS, [seq], |row| {
        let mut columns = Columns::of(row);
        Ok(Step {
            name: columns.get()?,
            position: columns.get()?,
            output: columns.json()?,
            alone: columns.get()?,
            attempt: columns.get()?,
            started_at: columns.at()?,
            completed_at: columns.at()?,
        })
    })
}
