//! Control of jobs and queues: cancel, resume, purge and pause.

use super::connection::columns::{int, small, to_json};
use super::connection::database::Transaction;
use super::connection::error::PgError;
use super::connection::params::Param;
use super::leases::LeaseUpdates;
use super::row::JobRow;
use super::settle::{StoredHistories, job_key};
use super::{Inner, queries::find, sql};
use crate::job::{Event, Job, JobId, Name, Status, TenantId, Timestamp};
use crate::store::stored_job::StoredJob;
use crate::store::{LeaseRef, StoreError};

impl Inner {
    /// Cancels a job, or requests cancellation from its worker.
    pub(super) async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let seen = find::row(&mut connection, tenant, id).await?;
        drop(connection);
        let job = if seen.entry.lease_until.is_some() {
            let job = self.request_cancel(&seen).await?;
            self.notify.cancel_requested();
            job
        } else {
            self.cancel_unleased(tenant, id).await?
        };
        self.notify.jobs_changed();
        Ok(job)
    }

    async fn request_cancel(&self, seen: &JobRow) -> Result<Job, PgError> {
        let job = &seen.entry.job;
        let lease = LeaseRef { tenant: job.tenant.clone(), job: job.id, epoch: seen.entry.epoch };
        let mut updates = LeaseUpdates::new(self.outbox().await?);
        let (transaction, mut rows) = self.lock_leased(Some(&job.tenant), &[&lease]).await?;
        let Some(mut row) = rows.remove(&job_key(job)).filter(|row| row.is_leased_by(&lease))
        else {
            // The attempt has ended meanwhile.
            transaction.roll_back().await?;
            return Err(PgError::Conflict);
        };
        let changed = row.entry.cancel(self.clock.now());
        if !changed? {
            transaction.roll_back().await?;
            return Ok(row.entry.job);
        }
        let histories = StoredHistories::read(&transaction, std::iter::once(&row)).await?;
        let (_, events) = histories.of(&job_key(job));
        updates.push(&row, super::row::append(events, &row.entry.events)?)?;
        updates.write(transaction, self).await?;
        Ok(row.entry.job)
    }

    async fn cancel_unleased(&self, tenant: &TenantId, id: JobId) -> Result<Job, PgError> {
        self.end_unleased(tenant, id, StoredJob::cancel).await
    }

    /// Ends a job without a lease by `end`, which returns whether it changed the job.
    pub(super) async fn end_unleased(
        &self,
        tenant: &TenantId,
        id: JobId,
        end: impl FnOnce(&mut StoredJob, Timestamp) -> Result<bool, StoreError>,
    ) -> Result<Job, PgError> {
        let mut outbox = self.outbox().await?;
        let (transaction, mut row) = self.lock_job(tenant, id).await?;
        let was = row.entry.job.clone();
        let now = self.clock.now();
        let ended = end(&mut row.entry, now);
        if ended != Ok(true) {
            transaction.roll_back().await?;
            ended?;
            return Ok(row.entry.job);
        }
        if was.status == Status::Pending {
            let left = transaction.query(sql::DEQUEUE, &queue_position(&was)).await?;
            if left.is_empty() {
                // A claim has leased the job meanwhile.
                transaction.roll_back().await?;
                return Err(PgError::Conflict);
            }
        }
        let transaction = finish(transaction, &mut row).await?;
        if row.entry.dooms_payload() {
            let key: &[&dyn Param] = &[&vec![&was.tenant], &vec![was.id], &now];
            transaction.query(sql::EXPIRE_PAYLOADS, key).await?;
        }
        outbox.add(&row.entry, None);
        self.commit_with_outbox(transaction, &outbox, now).await?;
        Ok(row.entry.job)
    }

    /// Returns a failed or cancelled job to its queue.
    pub(super) async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, PgError> {
        let mut attempted = None;
        Ok(retrying!(self.try_resume(tenant, id, &mut attempted))?)
    }

    /// Resumes a job once. `attempted` is the event of an earlier attempt of this call whose response was
    /// lost.
    async fn try_resume(
        &self,
        tenant: &TenantId,
        id: JobId,
        attempted: &mut Option<Event>,
    ) -> Result<Job, PgError> {
        if let Some(attempted) = attempted {
            let mut connection = self.database.tenant_connection(tenant).await?;
            let now = find::record(&mut connection, tenant, id).await?;
            if now.history.contains(attempted) {
                self.notify.jobs_ready();
                return Ok(now.job);
            }
        }
        let mut outbox = self.outbox().await?;
        let (transaction, mut row) = self.lock_job(tenant, id).await?;
        let finished_as = row.entry.job.status;
        if let Err(error) = row.entry.resume(self.clock.now()) {
            transaction.roll_back().await?;
            return Err(error.into());
        }
        *attempted = row.entry.events.last().cloned();
        let transaction = reopen(transaction, &row, finished_as).await?;
        let job = &row.entry.job;
        transaction.query(sql::ENQUEUE, &queue_position(job)).await?;
        outbox.add(&row.entry, None);
        self.commit_with_outbox(transaction, &outbox, job.run_at).await?;
        self.notify.jobs_ready();
        self.notify.jobs_changed();
        Ok(row.entry.job)
    }

    /// Deletes a finished job.
    pub(super) async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), PgError> {
        let purged = retrying!(is_retry => async {
            match self.try_purge(tenant, id).await {
                // Deleted by an earlier attempt of this call whose response was lost, or by a concurrent
                // caller.
                Err(PgError::Store(StoreError::Gone)) if is_retry => Ok(()),
                purged => purged,
            }
        });
        Ok(purged?)
    }

    async fn try_purge(&self, tenant: &TenantId, id: JobId) -> Result<(), PgError> {
        let (transaction, row) = self.lock_job(tenant, id).await?;
        if let Err(error) = row.entry.check_purge() {
            transaction.roll_back().await?;
            return Err(error.into());
        }
        let (now, status) = (self.clock.now(), row.entry.job.status.as_str());
        transaction.commit_with(sql::DELETE_JOB, &[tenant, &id, &now, &status]).await?;
        Ok(())
    }

    /// Begins a transaction that locks the job, and reads it.
    async fn lock_job(
        &self,
        tenant: &TenantId,
        id: JobId,
    ) -> Result<(Transaction, JobRow), PgError> {
        let connection = self.database.tenant_connection(tenant).await?;
        let (lock, read): (&[&dyn Param], &[&dyn Param]) =
            (&[tenant, &id], &[&vec![tenant], &vec![id]]);
        let (transaction, rows) =
            connection.begin((sql::LOCK_JOB, lock), Some((sql::ENTRIES, read))).await?;
        if let Some(row) = rows.first() {
            return Ok((transaction, JobRow::from(row)?));
        }
        transaction.roll_back().await?;
        let mut connection = self.database.tenant_connection(tenant).await?;
        find::missing(&mut connection, tenant, id).await
    }

    /// Pauses or resumes a queue.
    pub(super) async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), PgError> {
        let sql = if paused { sql::PAUSE_QUEUE } else { sql::RESUME_QUEUE };
        let mut connection = self.database.tenant_connection(tenant).await?;
        connection.query(sql, &[tenant, queue]).await?;
        if !paused {
            self.notify.jobs_ready();
        }
        Ok(())
    }
}

/// Returns the parameters of `enqueue.sql` and `dequeue.sql`.
pub(super) fn queue_position(job: &Job) -> [&dyn Param; 6] {
    [&job.tenant, &job.queue, &job.kind, &job.priority, &job.run_at, &job.id]
}

/// Writes the final state of a job that was pending.
async fn finish(transaction: Transaction, row: &mut JobRow) -> Result<Transaction, PgError> {
    let histories = StoredHistories::read(&transaction, std::iter::once(&*row)).await?;
    let steps = histories.steps(&job_key(&row.entry.job));
    let used = row.entry.meter(steps).unwrap_or_default();
    let job = &row.entry.job;
    let error = job.error.as_ref().map(to_json).transpose()?;
    let params: &[&dyn Param] = &[
        &job.tenant,
        &job.id,
        &int(row.read_as.0),
        &int(job.version),
        &job.status.as_str(),
        &job.completed_at,
        &job.expires_at,
        &job.cancel_requested_at,
        &(used.jobs > 0),
        &int(used.run_ms),
        &int(used.steps),
        &error,
    ];
    write_unchanged(transaction, sql::FINISH_JOB, params).await
}

/// Writes a job that had finished with a status and returns to its queue.
async fn reopen(
    transaction: Transaction,
    row: &JobRow,
    finished_as: Status,
) -> Result<Transaction, PgError> {
    let histories = StoredHistories::read(&transaction, std::iter::once(row)).await?;
    let (history, events) = histories.of(&job_key(&row.entry.job));
    let history = row.full_history(history, events)?;
    let job = &row.entry.job;
    let error = job.error.as_ref().map(to_json).transpose()?;
    let params: &[&dyn Param] = &[
        &job.tenant,
        &job.id,
        &int(row.read_as.0),
        &int(job.version),
        &small(job.max_attempts),
        &small(row.entry.attempt_base),
        &row.entry.charge,
        &job.run_at,
        &job.cancel_requested_at,
        &error,
        &history,
        &finished_as.as_str(),
    ];
    write_unchanged(transaction, sql::REOPEN_JOB, params).await
}

/// Runs a statement that writes a job only if it has not changed since it was read.
async fn write_unchanged(
    transaction: Transaction,
    sql: &'static str,
    params: &[&dyn Param],
) -> Result<Transaction, PgError> {
    if transaction.query(sql, params).await?.is_empty() {
        transaction.roll_back().await?;
        let changed = "the job changed while it was locked".to_owned();
        return Err(StoreError::Unavailable(changed).into());
    }
    Ok(transaction)
}
