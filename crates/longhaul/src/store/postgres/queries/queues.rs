//! Queues and pending jobs of a tenant.

use crate::job::{Name, TenantId};
use crate::store::QueueState;
use crate::store::postgres::connection::columns::{Columns, int};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, sql};

impl Inner {
    /// Returns the tenant's queues that have unfinished jobs or are paused.
    pub(crate) async fn try_queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, PgError> {
        let now = self.clock.now().as_millis();
        let mut connection = self.database.tenant_connection(tenant).await?;
        let rows = connection.query(sql::QUEUES, &[&tenant.as_str(), &now]).await?;
        let queue = |row: &tokio_postgres::Row| {
            let mut columns = Columns::of(row);
            Ok(QueueState {
                name: columns.text(|text| Name::new(text).ok())?,
                paused: columns.get()?,
                pending: columns.count()?,
                running: columns.count()?,
                oldest_due_at: columns.opt_at()?,
            })
        };
        rows.iter().map(queue).collect()
    }

    /// Counts pending jobs, but no further than `up_to`.
    pub(crate) async fn try_count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let up_to = int(up_to);
        let rows = match queue {
            None => connection.query(sql::COUNT_PENDING, &[&tenant.as_str(), &up_to]).await?,
            Some(queue) => {
                let params = [&tenant.as_str() as &dyn Param, &queue.as_str(), &up_to];
                connection.query(sql::COUNT_PENDING_IN_QUEUE, &params).await?
            }
        };
        rows.first().map_or(Ok(0), |row| Columns::of(row).count())
    }
}
