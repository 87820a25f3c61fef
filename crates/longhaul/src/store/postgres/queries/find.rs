//! Reads of single jobs with their inputs, results and steps.

use crate::job::{JobId, Json, Record, Step, TenantId};
use crate::store::StoreError;
use crate::store::postgres::connection::columns::Columns;
use crate::store::postgres::connection::database::Connection;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::row::Row;
use crate::store::postgres::{Inner, sql};

/// Returns the row of a job, or `NotFound` or `Gone`.
pub(crate) async fn row(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<Row, PgError> {
    let rows =
        connection.query(sql::ENTRIES, &[&vec![tenant.as_str()], &vec![id.to_string()]]).await?;
    match rows.first() {
        Some(row) => Row::from(row),
        None => missing(connection, tenant, id).await,
    }
}

/// Returns the error for a missing job: `Gone` if it was deleted, otherwise `NotFound`.
pub(crate) async fn missing<T>(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<T, PgError> {
    let id = id.to_string();
    let gone = connection.query(sql::FIND_TOMBSTONE, &[&tenant.as_str(), &&*id]).await?;
    Err(if gone.is_empty() { StoreError::NotFound } else { StoreError::Gone }.into())
}

impl Inner {
    pub(crate) async fn try_record(&self, tenant: &TenantId, id: JobId) -> Result<Record, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        record(&mut connection, tenant, id).await
    }

    pub(crate) async fn try_record_by_key(
        &self,
        tenant: &TenantId,
        key: &str,
    ) -> Result<Record, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let found = connection.query(sql::FIND_KEYS, &[&vec![tenant.as_str()], &vec![key]]).await?;
        let Some(found) = found.first() else { return Err(StoreError::NotFound.into()) };
        let mut columns = Columns::of(found);
        let (_, _): (&str, &str) = (columns.get()?, columns.get()?);
        record(&mut connection, tenant, columns.id()?).await
    }

    pub(crate) async fn try_input(&self, tenant: &TenantId, id: JobId) -> Result<Json, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let text = id.to_string();
        let rows = connection.query(sql::INPUT, &[&tenant.as_str(), &&*text]).await?;
        match rows.first() {
            Some(row) => Columns::of(row).json(),
            None => missing(&mut connection, tenant, id).await,
        }
    }

    pub(crate) async fn try_steps(
        &self,
        tenant: &TenantId,
        id: JobId,
    ) -> Result<Vec<Step>, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let steps =
            connection.query(sql::STEPS, &[&vec![tenant.as_str()], &vec![id.to_string()]]).await?;
        if steps.is_empty() {
            row(&mut connection, tenant, id).await?;
        }
        steps.iter().map(|row| step(row).map(|(_, _, step)| step)).collect()
    }
}

async fn record(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<Record, PgError> {
    let rows =
        connection.query(sql::RECORDS, &[&vec![tenant.as_str()], &vec![id.to_string()]]).await?;
    match rows.first() {
        Some(row) => Row::record(row),
        None => missing(connection, tenant, id).await,
    }
}

/// Reads a row of `steps.sql`: a step with its tenant and job.
pub(crate) fn step(row: &tokio_postgres::Row) -> Result<(String, JobId, Step), PgError> {
    let mut columns = Columns::of(row);
    let (tenant, id) = (columns.get()?, columns.id()?);
    let step = Step {
        name: columns.get()?,
        position: columns.small()?,
        output: columns.json()?,
        alone: columns.get()?,
        attempt: columns.small()?,
        started_at: columns.at()?,
        completed_at: columns.at()?,
    };
    Ok((tenant, id, step))
}
