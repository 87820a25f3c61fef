//! Usage of a tenant's finished jobs by hour.

use crate::job::{TenantId, Timestamp, UsageRow, hour_of};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::{Inner, sql};

impl Inner {
    pub(crate) async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, PgError> {
        self.all_of(tenant, sql::USAGE, &[tenant, &hour_of(from), &to]).await
    }
}
