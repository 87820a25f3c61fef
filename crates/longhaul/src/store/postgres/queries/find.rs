//! Reads of single jobs with their inputs, results, steps and versions.

use crate::job::{JobId, Json, Record, Step, TenantId};
use crate::store::postgres::connection::database::Connection;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::row::JobRow;
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

impl Inner {
    pub(crate) async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        record(&mut connection, tenant, id).await
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

async fn record(
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
