//! What was stored for jobs elsewhere.

use std::time::Duration;

use super::columns::{Columns, int, limit, millis, unreadable, without_nul};
use super::database::Transaction;
use super::error::Trouble;
use super::params::Param;
use super::{Inner, sql};
use crate::job::{Job, JobId, TenantId, Timestamp};
use crate::store::blobs::{DELETE_RETRY_FIRST, DELETE_RETRY_MAX, host_range};
use crate::store::stored_job::StoredJob;
use crate::store::{Blob, BlobRef, BlobRole, Deletion, LeaseRef, NewBlob, StoreError, WrappedKey};

/// Blobs to remember, by column.
#[derive(Default)]
pub(super) struct NewBlobs {
    tenants: Vec<String>,
    ids: Vec<String>,
    paths: Vec<String>,
    roles: Vec<&'static str>,
    names: Vec<String>,
    content_types: Vec<String>,
    sizes: Vec<i64>,
    digests: Vec<Vec<u8>>,
    keys: Vec<Vec<u8>>,
    replicas: Vec<String>,
}

impl NewBlobs {
    pub(super) fn push_all<'a>(
        &mut self,
        tenant: &TenantId,
        id: JobId,
        blobs: impl Iterator<Item = (BlobRole, &'a NewBlob)>,
    ) {
        for (role, blob) in blobs {
            self.tenants.push(tenant.as_str().to_owned());
            self.ids.push(id.to_string());
            self.paths.push(blob.path.clone());
            self.roles.push(role.as_str());
            self.names.push(without_nul(&blob.name).into_owned());
            self.content_types.push(without_nul(&blob.content_type).into_owned());
            self.sizes.push(int(blob.size));
            self.digests.push(blob.digest.to_vec());
            self.keys.push(blob.key.0.clone());
            self.replicas.push(without_nul(&blob.replica).into_owned());
        }
    }

    /// Writes all of them.
    pub(super) async fn write(
        &self,
        transaction: &Transaction,
        now: Timestamp,
    ) -> Result<(), Trouble> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let params: [&dyn Param; 11] = [
            &self.tenants,
            &self.ids,
            &self.paths,
            &self.roles,
            &self.names,
            &self.content_types,
            &self.sizes,
            &self.digests,
            &self.keys,
            &self.replicas,
            &now.as_millis(),
        ];
        transaction.query(sql::INSERT_BLOBS, &params).await?;
        Ok(())
    }
}

impl Inner {
    pub(super) async fn try_blobs(
        &self,
        tenant: &TenantId,
        id: JobId,
    ) -> Result<Vec<Blob>, Trouble> {
        let id = id.to_string();
        let mut connection = self.database.connection_of(tenant).await?;
        let rows = connection.query(sql::BLOBS, &[&tenant.as_str(), &&*id]).await?;
        rows.iter().map(read).collect()
    }

    pub(super) async fn try_blob_bytes(&self, tenant: &TenantId) -> Result<u64, Trouble> {
        let mut connection = self.database.connection_of(tenant).await?;
        let rows = connection.query(sql::BLOB_BYTES, &[&tenant.as_str()]).await?;
        rows.first().map_or(Ok(0), |row| Columns::of(row).count())
    }

    pub(super) async fn try_record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), Trouble> {
        let (id, epoch) = (lease.job.to_string(), int(lease.epoch));
        let at = self.clock.now().as_millis();
        let mut connection = self.database.connection().await?;
        let params: &[&dyn Param] = &[&lease.tenant.as_str(), &&*id, &epoch, &path, &replica, &at];
        if connection.query(sql::KEEP_FOLDER, params).await?.is_empty() {
            return Err(StoreError::LeaseLost.into());
        }
        Ok(())
    }

    /// Fails jobs whose payloads nobody has claimed, each on its own: one that is claimed in this very
    /// moment goes on.
    pub(super) async fn try_expire_payloads(
        &self,
        kept: Duration,
        count: usize,
    ) -> Result<Vec<Job>, Trouble> {
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
            match self.end_unheld(&tenant, id, expire).await {
                Ok(job) => failed.push(job),
                Err(Trouble::Overtaken | Trouble::Refused(_)) => {}
                Err(trouble) if failed.is_empty() => return Err(trouble),
                Err(_) => break,
            }
        }
        if !failed.is_empty() {
            self.notify.jobs();
        }
        Ok(failed)
    }

    pub(super) async fn try_blobs_to_delete(&self, count: usize) -> Result<Vec<BlobRef>, Trouble> {
        let now = self.clock.now().as_millis();
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::DOOMED_BLOBS, &[&now, &limit(count)]).await?;
        rows.iter().map(blob_ref).collect()
    }

    pub(super) async fn try_work_dirs(
        &self,
        host: &str,
        count: usize,
    ) -> Result<Vec<BlobRef>, Trouble> {
        let (from, to) = host_range(host);
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::FOLDERS, &[&from, &to, &limit(count)]).await?;
        rows.iter().map(blob_ref).collect()
    }

    pub(super) async fn try_record_deletions(
        &self,
        deletions: &[Deletion],
        replica: &str,
    ) -> Result<(), Trouble> {
        let now = self.clock.now().as_millis();
        let (gone, left): (Vec<&Deletion>, Vec<&Deletion>) =
            deletions.iter().partition(|deletion| deletion.failure.is_none());
        let mut connection = self.database.connection().await?;
        if !gone.is_empty() {
            let (tenants, ids, paths) = keys(gone.iter().map(|deletion| &deletion.blob));
            connection.query(sql::BURY_BLOBS, &[&tenants, &ids, &paths, &now, &replica]).await?;
        }
        if !left.is_empty() {
            let (tenants, ids, paths) = keys(left.iter().map(|deletion| &deletion.blob));
            let failures: Vec<String> = left
                .iter()
                .map(|deletion| without_nul(deletion.failure.as_deref().unwrap_or("")).into_owned())
                .collect();
            let (first, max) = (millis(DELETE_RETRY_FIRST), millis(DELETE_RETRY_MAX));
            connection
                .query(sql::KEEP_TRYING, &[&tenants, &ids, &paths, &failures, &first, &max, &now])
                .await?;
        }
        Ok(())
    }

    pub(super) async fn try_orphan_blobs(
        &self,
        blobs: &[BlobRef],
    ) -> Result<Vec<BlobRef>, Trouble> {
        let (tenants, ids, paths) = keys(blobs.iter());
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::STRAY_BLOBS, &[&tenants, &ids, &paths]).await?;
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

fn blob_ref(row: &tokio_postgres::Row) -> Result<BlobRef, Trouble> {
    let mut columns = Columns::of(row);
    Ok(BlobRef {
        tenant: columns.text(TenantId::stored)?,
        job: columns.id()?,
        path: columns.get()?,
    })
}

/// In the order of `blobs.sql`.
fn read(row: &tokio_postgres::Row) -> Result<Blob, Trouble> {
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
