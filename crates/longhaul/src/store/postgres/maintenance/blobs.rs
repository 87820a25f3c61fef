//! Blob metadata: payloads, artifacts and work directories of jobs, and their deletion.

use std::time::Duration;

use crate::job::{Job, JobId, TenantId, Timestamp};
use crate::store::blobs::{DELETE_RETRY_FIRST, DELETE_RETRY_MAX, host_range};
use crate::store::postgres::batch::columns;
use crate::store::postgres::connection::columns::{
    Columns, int, limit, millis, unreadable, without_nul,
};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, sql};
use crate::store::stored_job::StoredJob;
use crate::store::{Blob, BlobRef, BlobRole, Deletion, LeaseRef, NewBlob, StoreError, WrappedKey};

columns! {
    /// A stored blob, in the order of the parameters of `insert_blobs.sql`.
    pub(crate) struct NewBlobRow => NewBlobs {
        tenant: String,
        id: String,
        path: String,
        role: &'static str,
        name: String,
        content_type: String,
        size: i64,
        digest: Vec<u8>,
        key: Vec<u8>,
        replica: String,
    }
}

impl NewBlobs {
    pub(crate) fn push_all<'a>(
        &mut self,
        tenant: &TenantId,
        id: JobId,
        blobs: impl Iterator<Item = (BlobRole, &'a NewBlob)>,
    ) {
        for (role, blob) in blobs {
            self.push(NewBlobRow {
                tenant: tenant.as_str().to_owned(),
                id: id.to_string(),
                path: blob.path.clone(),
                role: role.as_str(),
                name: without_nul(&blob.name).into_owned(),
                content_type: without_nul(&blob.content_type).into_owned(),
                size: int(blob.size),
                digest: blob.digest.to_vec(),
                key: blob.key.0.clone(),
                replica: without_nul(&blob.replica).into_owned(),
            });
        }
    }

    pub(crate) async fn write(
        &self,
        transaction: &Transaction,
        now: Timestamp,
    ) -> Result<(), PgError> {
        if self.len() == 0 {
            return Ok(());
        }
        let now = now.as_millis();
        let mut params = self.params();
        params.push(&now);
        transaction.query(sql::INSERT_BLOBS, &params).await?;
        Ok(())
    }
}

impl Inner {
    pub(crate) async fn try_blobs(
        &self,
        tenant: &TenantId,
        id: JobId,
    ) -> Result<Vec<Blob>, PgError> {
        let id = id.to_string();
        let mut connection = self.database.tenant_connection(tenant).await?;
        let rows = connection.query(sql::BLOBS, &[&tenant.as_str(), &&*id]).await?;
        rows.iter().map(read).collect()
    }

    pub(crate) async fn try_blob_bytes(&self, tenant: &TenantId) -> Result<u64, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let rows = connection.query(sql::BLOB_BYTES, &[&tenant.as_str()]).await?;
        rows.first().map_or(Ok(0), |row| Columns::of(row).count())
    }

    pub(crate) async fn try_record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), PgError> {
        let (id, epoch) = (lease.job.to_string(), int(lease.epoch));
        let at = self.clock.now().as_millis();
        let mut connection = self.database.connection().await?;
        let params: &[&dyn Param] = &[&lease.tenant.as_str(), &&*id, &epoch, &path, &replica, &at];
        if connection.query(sql::RECORD_WORK_DIR, params).await?.is_empty() {
            return Err(StoreError::LeaseLost.into());
        }
        Ok(())
    }

    /// Fails jobs that were not claimed before their payload expired.
    ///
    /// Each job on its own: a job that is claimed at the same moment continues.
    pub(crate) async fn try_expire_payloads(
        &self,
        kept: Duration,
        count: usize,
    ) -> Result<Vec<Job>, PgError> {
        let stored_before = self.clock.now().as_millis().saturating_sub(millis(kept));
        let mut connection = self.database.connection().await?;
        let found =
            connection.query(sql::EXPIRED_PAYLOADS, &[&stored_before, &limit(count)]).await?;
        drop(connection);
        let mut failed = Vec::with_capacity(found.len());
        for row in &found {
            let mut columns = Columns::of(row);
            let tenant = columns.text(TenantId::stored)?;
            let id = columns.id()?;
            let expire = |entry: &mut StoredJob, now| entry.expire_payload(now).map(|()| true);
            match self.end_unleased(&tenant, id, expire).await {
                Ok(job) => failed.push(job),
                Err(PgError::Conflict | PgError::Store(_)) => {}
                Err(error) if failed.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        if !failed.is_empty() {
            self.notify.jobs_changed();
        }
        Ok(failed)
    }

    pub(crate) async fn try_blobs_to_delete(&self, count: usize) -> Result<Vec<BlobRef>, PgError> {
        let now = self.clock.now().as_millis();
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::BLOBS_TO_DELETE, &[&now, &limit(count)]).await?;
        rows.iter().map(blob_ref).collect()
    }

    pub(crate) async fn try_work_dirs(
        &self,
        host: &str,
        count: usize,
    ) -> Result<Vec<BlobRef>, PgError> {
        let (from, to) = host_range(host);
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::WORK_DIRS, &[&from, &to, &limit(count)]).await?;
        rows.iter().map(blob_ref).collect()
    }

    pub(crate) async fn try_record_deletions(
        &self,
        deletions: &[Deletion],
        replica: &str,
    ) -> Result<(), PgError> {
        let now = self.clock.now().as_millis();
        let (gone, left): (Vec<&Deletion>, Vec<&Deletion>) =
            deletions.iter().partition(|deletion| deletion.failure.is_none());
        let mut connection = self.database.connection().await?;
        if !gone.is_empty() {
            let (tenants, ids, paths) = keys(gone.iter().map(|deletion| &deletion.blob));
            connection
                .query(sql::RECORD_DELETIONS, &[&tenants, &ids, &paths, &now, &replica])
                .await?;
        }
        if !left.is_empty() {
            let (tenants, ids, paths) = keys(left.iter().map(|deletion| &deletion.blob));
            let failures: Vec<String> = left
                .iter()
                .map(|deletion| without_nul(deletion.failure.as_deref().unwrap_or("")).into_owned())
                .collect();
            let (first, max) = (millis(DELETE_RETRY_FIRST), millis(DELETE_RETRY_MAX));
            connection
                .query(
                    sql::RETRY_DELETIONS,
                    &[&tenants, &ids, &paths, &failures, &first, &max, &now],
                )
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn try_orphan_blobs(
        &self,
        blobs: &[BlobRef],
    ) -> Result<Vec<BlobRef>, PgError> {
        let (tenants, ids, paths) = keys(blobs.iter());
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::ORPHAN_BLOBS, &[&tenants, &ids, &paths]).await?;
        rows.iter().map(blob_ref).collect()
    }
}

fn keys<'a>(blobs: impl Iterator<Item = &'a BlobRef>) -> (Vec<String>, Vec<String>, Vec<String>) {
    let (mut tenants, mut ids, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for blob in blobs {
        tenants.push(blob.tenant.as_str().to_owned());
        ids.push(blob.job.to_string());
        paths.push(blob.path.clone());
    }
    (tenants, ids, paths)
}

fn blob_ref(row: &tokio_postgres::Row) -> Result<BlobRef, PgError> {
    let mut columns = Columns::of(row);
    Ok(BlobRef {
        tenant: columns.text(TenantId::stored)?,
        job: columns.id()?,
        path: columns.get()?,
    })
}

/// Reads a row of `blobs.sql`.
fn read(row: &tokio_postgres::Row) -> Result<Blob, PgError> {
    let mut columns = Columns::of(row);
    Ok(Blob {
        role: columns.text(BlobRole::parse)?,
        path: columns.get()?,
        name: columns.get()?,
        content_type: columns.get()?,
        size: columns.count()?,
        digest: match columns.get::<Option<&[u8]>>()? {
            Some(bytes) => Some(bytes.try_into().map_err(unreadable)?),
            None => None,
        },
        key: columns.get::<Option<Vec<u8>>>()?.map(WrappedKey),
        stored_at: columns.at()?,
        stored_by: columns.get()?,
        key_destroyed_at: columns.opt_at()?,
        deleted_at: columns.opt_at()?,
        deleted_by: columns.get()?,
        failures: columns.small()?,
        failure: columns.get()?,
    })
}
