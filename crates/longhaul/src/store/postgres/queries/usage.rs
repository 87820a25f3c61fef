//! Usage of a tenant's finished jobs by hour.

use crate::job::{Name, TenantId, Timestamp, Tokens, Usage, UsageRow, hour_of};
use crate::store::postgres::connection::columns::Columns;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::{Inner, sql};

impl Inner {
    pub(crate) async fn try_usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, PgError> {
        let (from, to) = (hour_of(from).as_millis(), to.as_millis());
        let mut connection = self.database.tenant_connection(tenant).await?;
        let rows = connection.query(sql::USAGE, &[&tenant.as_str(), &from, &to]).await?;
        rows.iter().map(read).collect()
    }
}

/// Reads a row of `usage.sql`.
fn read(row: &tokio_postgres::Row) -> Result<UsageRow, PgError> {
    let mut columns = Columns::of(row);
    Ok(UsageRow {
        hour: columns.at()?,
        kind: columns.text(|text| Name::new(text).ok())?,
        key: Some(columns.get::<String>()?).filter(|key| !key.is_empty()),
        usage: Usage {
            jobs: columns.count()?,
            run_ms: columns.count()?,
            payload_bytes: columns.count()?,
            steps: columns.count()?,
            tokens: Tokens { prompt: columns.count()?, completion: columns.count()? },
        },
    })
}
