//! Blob metadata: payloads, artifacts and work directories of jobs, and their deletion.

use std::borrow::Cow;
use std::time::Duration;

use crate::job::{Job, JobId, TenantId, Timestamp};
use crate::store::blobs::{DELETE_RETRY_FIRST, DELETE_RETRY_MAX, host_range};
use crate::store::postgres::batch::columns;
use crate::store::postgres::connection::columns::{int, limit, millis, without_nul};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, sql};
use crate::store::stored_job::StoredJob;
use crate::store::{Blob, BlobRef, BlobRole, Deletion, LeaseRef, NewBlob, StoreError};

columns! {
    /// A stored blob, in the order of the parameters of `insert_blobs.sql`.
    pub(crate) struct NewBlobRow => NewBlobs {
        tenant: TenantId,
        id: JobId,
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
                tenant: tenant.clone(),
                id,
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
        let mut params = self.params();
        params.push(&now);
        transaction.query(sql::INSERT_BLOBS, &params).await?;
        Ok(())
    }
}

impl Inner {
    pub(crate) async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, PgError> {
        self.all_of(tenant, sql::BLOBS, &[tenant, &id]).await
    }

    pub(crate) async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, PgError> {
        let bytes = self.first_of(tenant, sql::BLOB_BYTES, &[tenant]).await?;
        Ok(bytes.unwrap_or_default())
    }

    pub(crate) async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), PgError> {
        let (epoch, now) = (int(lease.epoch), self.clock.now());
        let params: &[&dyn Param] = &[&lease.tenant, &lease.job, &epoch, &path, &replica, &now];
        if self.run(sql::RECORD_WORK_DIR, params).await? > 0 {
            return Ok(());
        }
        let may_be_split = self.split_leases(std::iter::once(lease)).await?;
        if may_be_split && self.run(sql::RECORD_WORK_DIR, params).await? > 0 {
            return Ok(());
        }
        Err(StoreError::LeaseLost.into())
    }

    /// Fails jobs that were not claimed before their payload expired.
    ///
    /// Each job on its own: a job that is claimed at the same moment continues.
    pub(crate) async fn expire_payloads(
        &self,
        kept: Duration,
        count: usize,
    ) -> Result<Vec<Job>, PgError> {
        let stored_before = self.clock.now().as_millis().saturating_sub(millis(kept));
        let found: Vec<(TenantId, JobId)> =
            self.all(sql::EXPIRED_PAYLOADS, &[&stored_before, &limit(count)]).await?;
        let mut failed = Vec::with_capacity(found.len());
        for (tenant, id) in found {
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

    pub(crate) async fn blobs_to_delete(&self, count: usize) -> Result<Vec<BlobRef>, PgError> {
        self.all(sql::BLOBS_TO_DELETE, &[&self.clock.now(), &limit(count)]).await
    }

    pub(crate) async fn work_dirs(
        &self,
        host: &str,
        count: usize,
    ) -> Result<Vec<BlobRef>, PgError> {
        let (from, to) = host_range(host);
        self.all(sql::WORK_DIRS, &[&from, &to, &limit(count)]).await
    }

    pub(crate) async fn record_deletions(
        &self,
        deletions: &[Deletion],
        replica: &str,
    ) -> Result<(), PgError> {
        let now = self.clock.now();
        let (gone, left): (Vec<&Deletion>, Vec<&Deletion>) =
            deletions.iter().partition(|deletion| deletion.failure.is_none());
        let mut connection = self.database.connection().await?;
        if !gone.is_empty() {
            let (tenants, ids, paths) = keys(gone.iter().map(|deletion| &deletion.blob));
            let params: &[&dyn Param] = &[&tenants, &ids, &paths, &now, &replica];
            connection.query(sql::RECORD_DELETIONS, params).await?;
        }
        if !left.is_empty() {
            let (tenants, ids, paths) = keys(left.iter().map(|deletion| &deletion.blob));
            let failures = left.iter().filter_map(|deletion| deletion.failure.as_deref());
            let failures: Vec<Cow<'_, str>> = failures.map(without_nul).collect();
            let (first, max) = (millis(DELETE_RETRY_FIRST), millis(DELETE_RETRY_MAX));
            let params: &[&dyn Param] = &[&tenants, &ids, &paths, &failures, &first, &max, &now];
            connection.query(sql::RETRY_DELETIONS, params).await?;
        }
        Ok(())
    }

    pub(crate) async fn orphan_blobs(&self, blobs: &[BlobRef]) -> Result<Vec<BlobRef>, PgError> {
        let (tenants, ids, paths) = keys(blobs.iter());
        self.all(sql::ORPHAN_BLOBS, &[&tenants, &ids, &paths]).await
    }
}

fn keys<'a>(
    blobs: impl Iterator<Item = &'a BlobRef>,
) -> (Vec<&'a TenantId>, Vec<JobId>, Vec<&'a str>) {
    blobs.map(|blob| (&blob.tenant, blob.job, blob.path.as_str())).collect()
}
