//! Submissions and forks.

use rusqlite::params;

use crate::job::{Job, JobId, TenantId};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::maintenance::blobs;
use crate::store::sqlite::maintenance::usage;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::stored_job::StoredJob;
use crate::store::{BlobRole, NewJob, StoreError, SubmitResult};

/// Inserts a job, or returns the existing job of an equal submission.
pub(crate) fn submit(tx: &Tx<'_>, new: &NewJob) -> Result<SubmitResult, SqliteError> {
    let mut row = JobRow::new(StoredJob::accepted(new, tx.now), new.fingerprint);
    if row.insert(tx, &new.input)? {
        if let Some(payload) = &new.payload {
            blobs::insert(tx, &new.tenant, new.id, BlobRole::Payload, payload)?;
        }
        return Ok(SubmitResult { record: row.into_new_record(), created: true });
    }
    let existing = match &new.idempotency_key {
        Some(key) => find::by_key(tx, &new.tenant, key)?,
        None => None,
    };
    // Not the key, so the id exists: a repeated submission whose response was lost.
    let existing = match existing {
        Some(existing) => existing,
        None => find::row(tx, &new.tenant, new.id)?,
    };
    if existing.fingerprint != new.fingerprint {
        return Err(StoreError::KeyReused { existing: existing.stored.job.id }.into());
    }
    let record = find::record(tx, &new.tenant, existing.stored.job.id)?;
    Ok(SubmitResult { record, created: false })
}

/// Creates a job from an existing one and its first steps.
pub(crate) fn fork(
    tx: &Tx<'_>,
    tenant: &TenantId,
    id: JobId,
    new_id: JobId,
    from_step: Option<&str>,
) -> Result<Job, SqliteError> {
    let old = find::row(tx, tenant, id)?;
    let from = match from_step {
        Some(name) => Some(position(tx, old.seq, name)?),
        None => None,
    };
    let steps = usage::count_steps(tx, old.seq, from)?;
    let mut row = JobRow::new(old.stored.fork(new_id, steps, tx.now)?, old.fingerprint);
    if row.insert(tx, &find::input_of(tx, old.seq)?)? {
        tx.run(sql::FORK_STEPS, params![old.seq, row.seq, from])?;
        return Ok(row.stored.job);
    }
    // The id exists: a repeated fork whose response was lost, or a conflict.
    let existing = find::row(tx, tenant, new_id)?.stored.job;
    if existing.forked_from == Some(id) {
        return Ok(existing);
    }
    Err(StoreError::KeyReused { existing: new_id }.into())
}

fn position(tx: &Tx<'_>, seq: i64, name: &str) -> Result<u32, SqliteError> {
    let found: Option<u32> = tx.one(sql::FIND_STEP, params![seq, name])?;
    found.ok_or_else(|| StoreError::UnknownStep { name: name.to_owned() }.into())
}
