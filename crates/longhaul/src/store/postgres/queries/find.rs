//! Reading one job and what belongs to it.

use crate::job::{JobId, Json, Record, Step, TenantId};
use crate::store::StoreError;
use crate::store::postgres::connection::columns::Columns;
use crate::store::postgres::connection::database::Connection;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::row::Row;
use crate::store::postgres::{Inner, sql};

/// A job's row; refuses one that is not there.
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

/// Why a job is not there.
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

/// A step with its tenant and job, in the order of `steps.sql`.
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
