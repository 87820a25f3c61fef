//! Reads of single jobs with their inputs, results, steps and versions.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;

use crate::job::{JobId, Json, Record, Step, TenantId};
use crate::store::columns::ReadColumns;
use crate::store::postgres::connection::columns::Columns;
use crate::store::postgres::connection::database::Connection;
use crate::store::postgres::connection::error::{PgError, to_store_error};
use crate::store::postgres::row::JobRow;
use crate::store::postgres::settle::TenantJob;
use crate::store::postgres::{Inner, sql};
use crate::store::{JobVersion, StoreError};

/// Returns the row of a job, or `NotFound` or `Gone`.
pub(crate) async fn row(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<JobRow, PgError> {
    let rows = connection.query(sql::ENTRIES, &[&vec![tenant], &vec![id]]).await?;
    match rows.first() {
        Some(row) => JobRow::from(row),
        None => missing(connection, tenant, id).await,
    }
}

/// Returns the error for a missing job: `Gone` if it was deleted, otherwise `NotFound`.
pub(crate) async fn missing<T>(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<T, PgError> {
    let gone = connection.query(sql::FIND_TOMBSTONE, &[tenant, &id]).await?;
    Err(if gone.is_empty() { StoreError::NotFound } else { StoreError::Gone }.into())
}

/// Returns the assumed size of a job's record, which limits the number of reads that share a statement.
pub(crate) fn bytes_of(_: &TenantJob) -> usize {
    128 * 1024
}

impl Inner {
    /// Reads a batch of jobs, those of each tenant with one statement, because a transaction sees one tenant only.
    pub(crate) async fn read_batch(&self, jobs: Vec<TenantJob>) -> Vec<Result<Record, StoreError>> {
        let mut by_tenant: HashMap<&TenantId, HashSet<JobId>> = HashMap::new();
        for (tenant, id) in &jobs {
            by_tenant.entry(tenant).or_default().insert(*id);
        }
        let reads = by_tenant.into_iter().map(async |(tenant, ids)| {
            let ids: Vec<JobId> = ids.into_iter().collect();
            (tenant, retrying!(self.records(tenant, &ids)))
        });
        let read: HashMap<_, _> = join_all(reads).await.into_iter().collect();
        let result = |(tenant, id): &TenantJob| match read.get(tenant) {
            Some(Ok(records)) => records.get(id).cloned().unwrap_or(Err(StoreError::NotFound)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(StoreError::NotFound),
        };
        jobs.iter().map(result).collect()
    }

    /// Reads jobs of one tenant. An unreadable or missing job fails on its own.
    async fn records(
        &self,
        tenant: &TenantId,
        ids: &Vec<JobId>,
    ) -> Result<HashMap<JobId, Result<Record, StoreError>>, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let tenants = vec![tenant; ids.len()];
        let rows = connection.query(sql::RECORDS, &[&tenants, ids]).await?;
        let mut records = HashMap::with_capacity(ids.len());
        for row in &rows {
            let id = Columns::of(row).seek("id")?.get()?;
            records.insert(id, JobRow::record(row).map_err(to_store_error));
        }
        for id in ids {
            if records.contains_key(id) {
                continue;
            }
            match missing(&mut connection, tenant, *id).await {
                Err(PgError::Store(error)) => records.insert(*id, Err(error)),
                read => records.insert(*id, Ok(read?)),
            };
        }
        Ok(records)
    }

    pub(crate) async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let found = connection.first(sql::FIND_KEYS, &[&vec![tenant], &vec![key]]).await?;
        let (_, _, id): (String, String, JobId) = found.ok_or(StoreError::NotFound)?;
        record(&mut connection, tenant, id).await
    }

    pub(crate) async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        match connection.first(sql::INPUT, &[tenant, &id]).await? {
            Some(input) => Ok(input),
            None => missing(&mut connection, tenant, id).await,
        }
    }

    pub(crate) async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let steps: Vec<(String, JobId, Step)> =
            connection.all(sql::STEPS, &[&vec![tenant], &vec![id]]).await?;
        if steps.is_empty() {
            row(&mut connection, tenant, id).await?;
        }
        Ok(steps.into_iter().map(|(_, _, step)| step).collect())
    }

    /// Returns the versions of watched jobs.
    pub(crate) async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, PgError> {
        let (tenants, ids): (Vec<&TenantId>, Vec<JobId>) =
            jobs.iter().map(|(tenant, id)| (tenant, *id)).unzip();
        self.all(sql::VERSIONS, &[&tenants, &ids]).await
    }
}

/// Returns a job with its result and history.
pub(crate) async fn record(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<Record, PgError> {
    let rows = connection.query(sql::RECORDS, &[&vec![tenant], &vec![id]]).await?;
    match rows.first() {
        Some(row) => JobRow::record(row),
        None => missing(connection, tenant, id).await,
    }
}
