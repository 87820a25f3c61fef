//! Rescue of jobs whose lease expired, because their worker died or lost its connection.

use crate::job::{Job, Timestamp};
use crate::store::StoreError;
use crate::store::postgres::claim::quarantine::quarantine_leased;
use crate::store::postgres::connection::columns::{limit, read_all};
use crate::store::postgres::connection::error::{PgError, to_store_error};
use crate::store::postgres::row::JobRow;
use crate::store::postgres::settle::{StoredHistories, job_key};
use crate::store::postgres::settle_batch::SettleBatch;
use crate::store::postgres::{Inner, sql};
use crate::store::stored_job::StoredJob;

impl Inner {
    /// Ends the attempts of up to `count` jobs whose leases have expired. Also enqueues jobs that were
    /// submitted by SQL, and maintains the clock and the lane cursors.
    pub(crate) async fn rescue(&self, count: usize) -> Result<Vec<Job>, PgError> {
        // Leases that expire while this call waits for the database are left to the next one, because their workers
        // could not renew them meanwhile.
        let expired_by = self.clock.now();
        if let Err(error) = self.maintain_clock().await {
            tracing::warn!(error = %to_store_error(error), "cannot read the database's clock");
        }
        if self.try_enqueue_incoming().await > 0 {
            self.notify.wake_claims();
        }
        if let Err(error) = self.maintain_lane_cursors().await {
            tracing::warn!(error = %to_store_error(error), "cannot look after lanes");
        }
        retrying!(self.maintain_shared_leases(self.clock.now()))?;
        Ok(retrying!(self.end_leases(count, expired_by, StoredJob::lose))?)
    }

    /// Ends up to `count` attempts whose leases had expired by `expired_by`, each by `end`.
    pub(super) async fn end_leases(
        &self,
        count: usize,
        expired_by: Timestamp,
        end: fn(&mut StoredJob, Timestamp) -> Result<(), StoreError>,
    ) -> Result<Vec<Job>, PgError> {
        let mut batch = SettleBatch::new(self.outbox().await?);
        let connection = self.database.connection().await?;
        let (transaction, expired) = connection
            .begin((sql::LOCK_EXPIRED_LEASES, &[&expired_by, &limit(count)]), None)
            .await?;
        if expired.is_empty() {
            transaction.roll_back().await?;
            return Ok(Vec::new());
        }
        let keys: Vec<(String, String)> = read_all(&expired)?;
        let (tenants, ids): (Vec<String>, Vec<String>) = keys.into_iter().unzip();
        let mut rows = Vec::with_capacity(expired.len());
        for row in transaction.query(sql::ENTRIES, &[&tenants, &ids]).await? {
            match JobRow::from(&row) {
                Ok(row) => rows.push(row),
                Err(error) => quarantine_leased(&transaction, &row, &error).await?,
            }
        }
        let histories = StoredHistories::read(&transaction, rows.iter()).await?;
        let now = self.clock.now();
        let mut rescued = Vec::with_capacity(rows.len());
        for mut row in rows {
            end(&mut row.entry, now)?;
            rescued.push(row.entry.job.clone());
            let key = job_key(&row.entry.job);
            batch.push(row, histories.of(&key), histories.steps(&key), None)?;
        }
        batch.write(transaction, now, self).await?;
        self.notify.jobs_ready();
        self.notify.jobs_changed();
        Ok(rescued)
    }
}
