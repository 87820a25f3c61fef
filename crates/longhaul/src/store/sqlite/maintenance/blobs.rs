//! Blob metadata and deletion.

use std::time::Duration;

use rusqlite::params;

use crate::job::{Job, JobId, TenantId};
use crate::store::blobs::{DELETE_RETRY_FIRST, DELETE_RETRY_MAX, host_range};
use crate::store::sqlite::claim::quarantine::or_quarantine;
use crate::store::sqlite::connection::columns::{int, limit, millis};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::{Blob, BlobRef, BlobRole, Deletion, NewBlob};

/// Inserts a blob.
pub(crate) fn insert(
    tx: &Tx<'_>,
    tenant: &TenantId,
    id: JobId,
    role: BlobRole,
    blob: &NewBlob,
) -> rusqlite::Result<()> {
    tx.run(
        sql::INSERT_BLOB,
        params![
            tenant.as_str(),
            id.to_string(),
            blob.path,
            role.as_str(),
            blob.name,
            blob.content_type,
            int(blob.size),
            blob.digest,
            blob.key.0,
            tx.now.as_millis(),
            blob.replica,
        ],
    )?;
    Ok(())
}

/// Destroys the key of a job's payload and schedules its deletion.
pub(crate) fn expire_payload_key(
    tx: &Tx<'_>,
    tenant: &TenantId,
    id: JobId,
) -> rusqlite::Result<()> {
    let key = params![tenant.as_str(), id.to_string(), tx.now.as_millis()];
    if tx.run(sql::EXPIRE_PAYLOAD, key)? > 0 {
        tx.deleted.set(true);
    }
    Ok(())
}

pub(crate) fn blobs(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, SqliteError> {
    Ok(tx.all(sql::BLOBS, [tenant.as_str(), &id.to_string()])?)
}

pub(crate) fn bytes(tx: &Tx<'_>, tenant: &TenantId) -> Result<u64, SqliteError> {
    let sum = tx.one(sql::BLOB_BYTES, [tenant.as_str()])?;
    Ok(sum.unwrap_or(0))
}

/// Fails jobs that were not claimed before their payload expired.
pub(crate) fn expire_payloads(
    tx: &Tx<'_>,
    kept: Duration,
    count: usize,
) -> Result<Vec<Job>, SqliteError> {
    let stored_before = tx.now.as_millis().saturating_sub(millis(kept));
    let found: Vec<i64> = tx.all(sql::EXPIRED_PAYLOADS, [stored_before, limit(count)])?;
    let mut failed = Vec::with_capacity(found.len());
    for seq in found {
        let read = JobRow::load(tx, seq).map_err(SqliteError::from);
        let Some(mut row) = or_quarantine(tx, seq, read)? else { continue };
        row.stored.expire_payload(tx.now)?;
        row.save_transition(tx)?;
        failed.push(row.stored.job);
    }
    Ok(failed)
}

pub(crate) fn blobs_to_delete(tx: &Tx<'_>, count: usize) -> Result<Vec<BlobRef>, SqliteError> {
    Ok(tx.all(sql::BLOBS_TO_DELETE, [tx.now.as_millis(), limit(count)])?)
}

pub(crate) fn work_dirs(
    tx: &Tx<'_>,
    host: &str,
    count: usize,
) -> Result<Vec<BlobRef>, SqliteError> {
    let (from, to) = host_range(host);
    Ok(tx.all(sql::WORK_DIRS, params![from, to, limit(count)])?)
}

/// Records deletions and failed attempts.
pub(crate) fn record_deletions(
    tx: &Tx<'_>,
    deletions: &[Deletion],
    replica: &str,
) -> Result<(), SqliteError> {
    let now = tx.now.as_millis();
    for Deletion { blob, failure } in deletions {
        let (tenant, id, path) = (blob.tenant.as_str(), blob.job.to_string(), &blob.path);
        match failure {
            None => tx.run(sql::RECORD_DELETION, params![tenant, id, path, now, replica])?,
            Some(why) => {
                let (first, max) = (millis(DELETE_RETRY_FIRST), millis(DELETE_RETRY_MAX));
                tx.run(sql::RETRY_DELETION, params![tenant, id, path, first, max, now, why])?
            }
        };
    }
    Ok(())
}

/// Returns the blobs that no job references.
pub(crate) fn orphan_blobs(tx: &Tx<'_>, blobs: &[BlobRef]) -> Result<Vec<BlobRef>, SqliteError> {
    let mut strays = Vec::new();
    for blob in blobs {
        let key = [blob.tenant.as_str(), &blob.job.to_string(), &blob.path];
        if !tx.exists(sql::FIND_BLOB, key)? {
            strays.push(blob.clone());
        }
    }
    Ok(strays)
}
