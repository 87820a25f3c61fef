//! Quarantine for jobs whose rows cannot be read, for example because a newer version wrote them.
//!
//! Claims and rescues would meet such a job again and again, and a claim for a single job would never
//! see the jobs behind it.

use tokio_postgres::Row;

use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::sql;

/// Removes an unreadable pending job from the queue.
pub(crate) async fn quarantine_ready(
    transaction: &Transaction,
    row: &Row,
    error: &PgError,
) -> Result<(), PgError> {
    let text = |column: &str| row.try_get::<_, String>(column).unwrap_or_default();
    let (tenant, id) = (text("tenant_id"), text("id"));
    log(&tenant, &id, error);
    let (priority, run_at): (i32, i64) = (row.try_get("priority")?, row.try_get("run_at")?);
    let (queue, kind) = (text("queue"), text("kind"));
    let params: &[&dyn Param] = &[&tenant, &queue, &kind, &priority, &run_at, &id];
    transaction.query(sql::DEQUEUE, params).await?;
    Ok(())
}

/// Keeps the lease of an unreadable running job from being rescued.
pub(crate) async fn quarantine_leased(
    transaction: &Transaction,
    row: &Row,
    error: &PgError,
) -> Result<(), PgError> {
    let (tenant, id): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    log(&tenant, &id, error);
    transaction.query(sql::QUARANTINE, &[&tenant, &id]).await?;
    Ok(())
}

fn log(tenant: &str, id: &str, error: &PgError) {
    tracing::error!(?error, job.id = id, tenant.id = tenant, "job cannot be read; quarantined");
}
