//! What was stored for jobs elsewhere.

use std::time::Duration;

use rusqlite::params;

use super::aside::or_set_aside;
use super::columns::{Columns, limit, millis};
use super::error::Trouble;
use super::row::Row;
use super::task::Tx;
use super::{find, sql};
use crate::job::{Job, JobId, TenantId};
use crate::store::blobs::{DELETE_RETRY_FIRST, DELETE_RETRY_MAX, host_range};
use crate::store::{Blob, BlobRef, BlobRole, Deletion, LeaseRef, NewBlob, StoreError, WrappedKey};

/// Remembers a blob.
pub(super) fn insert(
    tx: &Tx<'_>,
    tenant: &TenantId,
    id: JobId,
    role: BlobRole,
    blob: &NewBlob,
) -> rusqlite::Result<()> {
    let size = i64::try_from(blob.size).unwrap_or(i64::MAX);
    tx.run(
        sql::INSERT_BLOB,
        params![
            tenant.as_str(),
            id.to_string(),
            blob.path,
            role.as_str(),
            blob.name,
            blob.content_type,
            size,
            blob.digest,
            blob.key.0,
            tx.now.as_millis(),
            blob.replica,
        ],
    )?;
    Ok(())
}

/// Destroys the key of a job's payload and has it deleted.
pub(super) fn doom_payload(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> rusqlite::Result<()> {
    let key = params![tenant.as_str(), id.to_string(), tx.now.as_millis()];
    if tx.run(sql::DOOM_PAYLOAD, key)? > 0 {
        tx.deleted.set(true);
    }
    Ok(())
}

pub(super) fn blobs(tx: &Tx<'_>, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, Trouble> {
    Ok(tx.all(sql::BLOBS, [tenant.as_str(), &id.to_string()], |row| {
        let mut columns = Columns::of(row);
        Ok(Blob {
            role: columns.text(BlobRole::parse)?,
            path: columns.get()?,
            name: columns.get()?,
            content_type: columns.get()?,
            size: columns.count()?,
            digest: columns.get()?,
            key: columns.get::<Option<Vec<u8>>>()?.map(WrappedKey),
            stored_at: columns.at()?,
            stored_by: columns.get()?,
            key_destroyed_at: columns.opt_at()?,
            deleted_at: columns.opt_at()?,
            deleted_by: columns.get()?,
            failures: columns.get()?,
            failure: columns.get()?,
        })
    })?)
}

pub(super) fn bytes(tx: &Tx<'_>, tenant: &TenantId) -> Result<u64, Trouble> {
    let sum = tx.one(sql::BLOB_BYTES, [tenant.as_str()], |row| Columns::of(row).count())?;
    Ok(sum.unwrap_or(0))
}

/// Notes a folder of a running attempt.
pub(super) fn record_work_dir(
    tx: &Tx<'_>,
    lease: &LeaseRef,
    path: &str,
    replica: &str,
) -> Result<(), Trouble> {
    find::held(tx, lease)?.ok_or(StoreError::LeaseLost)?;
    let (tenant, id, at) = (lease.tenant.as_str(), lease.job.to_string(), tx.now.as_millis());
    let none: Option<Vec<u8>> = None;
    let role = BlobRole::Folder.as_str();
    tx.run(sql::INSERT_BLOB, params![tenant, id, path, role, "", "", 0, none, none, at, replica])?;
    Ok(())
}

/// Fails jobs whose payloads nobody has claimed.
pub(super) fn expire_payloads(
    tx: &Tx<'_>,
    kept: Duration,
    count: usize,
) -> Result<Vec<Job>, Trouble> {
    let stored_before = tx.now.as_millis().saturating_sub(millis(kept));
    let found: Vec<i64> =
        tx.all(sql::EXPIRED_PAYLOADS, [stored_before, limit(count)], |row| row.get(0))?;
    let mut failed = Vec::with_capacity(found.len());
    for seq in found {
        let read = Row::load(tx, seq).map_err(Trouble::from);
        let Some(mut row) = or_set_aside(tx, seq, read)? else { continue };
        row.entry.expire_payload(tx.now)?;
        row.save(tx)?;
        failed.push(row.entry.job);
    }
    Ok(failed)
}

pub(super) fn blobs_to_delete(tx: &Tx<'_>, count: usize) -> Result<Vec<BlobRef>, Trouble> {
    Ok(tx.all(sql::DOOMED_BLOBS, [tx.now.as_millis(), limit(count)], blob_ref)?)
}

pub(super) fn work_dirs(tx: &Tx<'_>, host: &str, count: usize) -> Result<Vec<BlobRef>, Trouble> {
    let (from, to) = host_range(host);
    Ok(tx.all(sql::FOLDERS, params![from, to, limit(count)], blob_ref)?)
}

fn blob_ref(row: &rusqlite::Row<'_>) -> rusqlite::Result<BlobRef> {
    let mut columns = Columns::of(row);
    Ok(BlobRef {
        tenant: columns.text(TenantId::stored)?,
        job: columns.text(|text| text.parse().ok())?,
        path: columns.get()?,
    })
}

/// Records what was deleted, and what could not be.
pub(super) fn record_deletions(
    tx: &Tx<'_>,
    deletions: &[Deletion],
    replica: &str,
) -> Result<(), Trouble> {
    let now = tx.now.as_millis();
    for Deletion { blob, failure } in deletions {
        let (tenant, id, path) = (blob.tenant.as_str(), blob.job.to_string(), &blob.path);
        match failure {
            None => tx.run(sql::BURY_BLOB, params![tenant, id, path, now, replica])?,
            Some(why) => {
                let (first, max) = (millis(DELETE_RETRY_FIRST), millis(DELETE_RETRY_MAX));
                tx.run(sql::KEEP_TRYING, params![tenant, id, path, first, max, now, why])?
            }
        };
    }
    Ok(())
}

/// Those that belong to nobody.
pub(super) fn orphan_blobs(tx: &Tx<'_>, blobs: &[BlobRef]) -> Result<Vec<BlobRef>, Trouble> {
    let mut strays = Vec::new();
    for blob in blobs {
        let key = [blob.tenant.as_str(), &blob.job.to_string(), &blob.path];
        if tx.one(sql::FIND_BLOB, key, |_| Ok(()))?.is_none() {
            strays.push(blob.clone());
        }
    }
    Ok(strays)
}
