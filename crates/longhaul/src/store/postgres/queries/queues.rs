//! Queues and pending jobs, of a tenant or of all.

use crate::job::{Name, TenantId};
use crate::store::postgres::connection::columns::{int, limit};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, sql};
use crate::store::{QueueState, QueueTotal};

impl Inner {
    /// Returns the tenant's queues that have unfinished jobs or are paused.
    pub(crate) async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, PgError> {
        self.all_of(tenant, sql::QUEUES, &[tenant, &self.clock.now()]).await
    }

    /// Returns the totals of up to `count` queues over all tenants.
    pub(crate) async fn queue_totals(&self, count: usize) -> Result<Vec<QueueTotal>, PgError> {
        self.all(sql::QUEUE_TOTALS, &[&limit(count), &self.clock.now()]).await
    }

    /// Counts pending jobs, but no further than `up_to`.
    pub(crate) async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, PgError> {
        let up_to = int(up_to);
        let count = match queue {
            None => self.first_of(tenant, sql::COUNT_PENDING, &[tenant, &up_to]).await?,
            Some(queue) => {
                let params = &[tenant as &dyn Param, queue, &up_to];
                self.first_of(tenant, sql::COUNT_PENDING_IN_QUEUE, params).await?
            }
        };
        Ok(count.unwrap_or_default())
    }
}
