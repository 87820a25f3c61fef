//! Reading one job and what belongs to it.

use super::columns::Columns;
use super::database::Connection;
use super::error::Trouble;
use super::row::Row;
use super::{Inner, sql};
use crate::job::{JobId, Json, Record, Step, TenantId};
use crate::store::StoreError;

/// A job's row; refuses one that is not there.
pub(super) async fn row(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<Row, Trouble> {
    let rows =
        connection.query(sql::ENTRIES, &[&vec![tenant.as_str()], &vec![id.to_string()]]).await?;
    match rows.first() {
        Some(row) => Row::from(row),
        None => missing(connection, tenant, id).await,
    }
}

/// Why a job is not there.
pub(super) async fn missing<T>(
    connection: &mut Connection,
    tenant: &TenantId,
    id: JobId,
) -> Result<T, Trouble> {
    let id = id.to_string();
    let gone = connection.query(sql::FIND_TOMBSTONE, &[&tenant.as_str(), &&*id]).await?;
    Err(if gone.is_empty() { StoreError::NotFound } else { StoreError::Gone }.into())
}

impl Inner {
    pub(super) async fn try_record(&self, tenant: &TenantId, id: JobId) -> Result<Record, Trouble> {
        let mut connection = self.database.connection_of(tenant).await?;
        record(&mut connection, tenant, id).await
    }

    pub(super) async fn try_record_by_key(
        &self,
        tenant: &TenantId,
        key: &str,
    ) -> Result<Record, Trouble> {
        let mut connection = self.database.connection_of(tenant).await?;
        let found = connection.query(sql::FIND_KEYS, &[&vec![tenant.as_str()], &vec![key]]).await?;
        let Some(found) = found.first() else { return Err(StoreError::NotFound.into()) };
        let mut columns = Columns::of(found);
        let (_, _): (&str, &str) = (columns.get()?, columns.get()?);
        record(&mut connection, tenant, columns.id()?).await
    }

    pub(super) async fn try_input(&self, tenant: &TenantId, id: JobId) -> Result<Json, Trouble> {
        let mut connection = self.database.connection_of(tenant).await?;
        let text = id.to_string();
        let rows = connection.query(sql::INPUT, &[&tenant.as_str(), &&*text]).await?;
        match rows.first() {
            Some(row) => Columns::of(row).json(),
            None => missing(&mut connection, tenant, id).await,
        }
    }

    pub(super) async fn try_steps(
        &self,
        tenant: &TenantId,
        id: JobId,
    ) -> Result<Vec<Step>, Trouble> {
        let mut connection = self.database.connection_of(tenant).await?;
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
) -> Result<Record, Trouble> {
    let rows =
        connection.query(sql::RECORDS, &[&vec![tenant.as_str()], &vec![id.to_string()]]).await?;
    match rows.first() {
        Some(row) => Row::record(row),
        None => missing(connection, tenant, id).await,
    }
}

/// A step with its tenant and job, in the order of `steps.sql`.
pub(super) fn step(row: &tokio_postgres::Row) -> Result<(String, JobId, Step), Trouble> {
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
