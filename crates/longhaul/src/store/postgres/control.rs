//! Control of jobs and queues: cancel, resume, purge and pause.

use super::connection::columns::{int, small, to_json};
use super::connection::database::Transaction;
use super::connection::error::{PgError, RetryState};
use super::connection::params::Param;
use super::leases::LeaseUpdates;
use super::row::Row;
use super::settle::{StoredHistories, job_key};
use super::{Inner, queries::find, sql};
use crate::job::{Event, Job, JobId, Name, TenantId, Timestamp};
use crate::store::stored_job::StoredJob;
use crate::store::{LeaseRef, StoreError};

impl Inner {
    /// Cancels a job, or requests cancellation from its worker.
    pub(super) async fn try_cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let seen = find::row(&mut connection, tenant, id).await?;
        drop(connection);
        let job = if seen.entry.lease_until.is_some() {
            self.request_cancel(&seen).await?
        } else {
            self.cancel_unleased(tenant, id).await?
        };
        self.notify.jobs_changed();
        Ok(job)
    }

    async fn request_cancel(&self, seen: &Row) -> Result<Job, PgError> {
        let job = &seen.entry.job;
        let lease = LeaseRef { tenant: job.tenant.clone(), job: job.id, epoch: seen.entry.epoch };
        let mut updates = LeaseUpdates::new(self.outbox().await?);
        let connection = self.database.tenant_connection(&job.tenant).await?;
        let (transaction, mut rows) = Self::lock_leased(connection, &[&lease]).await?;
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
        match end(&mut row.entry, now) {
            Ok(true) => {}
            Ok(false) => {
                transaction.roll_back().await?;
                return Ok(row.entry.job);
            }
            Err(error) => {
                transaction.roll_back().await?;
                return Err(error.into());
            }
        }
        if was.status == crate::job::Status::Pending {
            let id = was.id.to_string();
            let left = transaction
                .query(
                    sql::DEQUEUE,
                    &[
                        &was.tenant.as_str(),
                        &was.queue.as_str(),
                        &was.kind.as_str(),
                        &was.priority,
                        &was.run_at.as_millis(),
                        &&*id,
                    ],
                )
                .await?;
            if left.is_empty() {
                // A claim has leased the job meanwhile.
                transaction.roll_back().await?;
                return Err(PgError::Conflict);
            }
        }
        let transaction = save(transaction, &mut row).await?;
        if row.entry.dooms_payload() {
            let id = was.id.to_string();
            let key = [&vec![was.tenant.as_str()] as &dyn Param, &vec![&*id], &now.as_millis()];
            transaction.query(sql::EXPIRE_PAYLOADS, &key).await?;
        }
        outbox.add(&row.entry, None);
        outbox.write(&transaction, now).await?;
        transaction.commit().await?;
        self.notify_outbox(&outbox);
        Ok(row.entry.job)
    }

    /// Returns a failed or cancelled job to its queue.
    pub(super) async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        let mut retries = RetryState::default();
        let mut attempted = None;
        loop {
            match self.try_resume(tenant, id, &mut attempted).await {
                Ok(job) => return Ok(job),
                Err(error) => retries.again(error).await?,
            }
        }
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
            let now = self.try_record(tenant, id).await?;
            if now.history.contains(attempted) {
                self.notify.jobs_ready();
                return Ok(now.job);
            }
        }
        let mut outbox = self.outbox().await?;
        let (transaction, mut row) = self.lock_job(tenant, id).await?;
        if let Err(error) = row.entry.resume(self.clock.now()) {
            transaction.roll_back().await?;
            return Err(error.into());
        }
        *attempted = row.entry.events.last().cloned();
        let transaction = save(transaction, &mut row).await?;
        let job = &row.entry.job;
        let id = job.id.to_string();
        transaction
            .query(
                sql::ENQUEUE,
                &[
                    &job.tenant.as_str(),
                    &job.queue.as_str(),
                    &job.kind.as_str(),
                    &job.priority,
                    &job.run_at.as_millis(),
                    &&*id,
                ],
            )
            .await?;
        outbox.add(&row.entry, None);
        outbox.write(&transaction, job.run_at).await?;
        transaction.commit().await?;
        self.notify_outbox(&outbox);
        self.notify.jobs_ready();
        self.notify.jobs_changed();
        Ok(row.entry.job)
    }

    /// Deletes a finished job.
    pub(super) async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        let mut retries = RetryState::default();
        let mut again = false;
        loop {
            match self.try_purge(tenant, id).await {
                // Deleted by an earlier attempt of this call whose response was lost, or by a concurrent
                // caller.
                Err(PgError::Store(StoreError::Gone)) if again => return Ok(()),
                Ok(()) => return Ok(()),
                Err(error) => retries.again(error).await?,
            }
            again = true;
        }
    }

    async fn try_purge(&self, tenant: &TenantId, id: JobId) -> Result<(), PgError> {
        let (transaction, row) = self.lock_job(tenant, id).await?;
        if let Err(error) = row.entry.check_purge() {
            transaction.roll_back().await?;
            return Err(error.into());
        }
        let (text, now) = (id.to_string(), self.clock.now().as_millis());
        transaction.commit_with(sql::DELETE_JOB, &[&tenant.as_str(), &&*text, &now]).await?;
        Ok(())
    }

    /// Begins a transaction that locks the job, and reads it.
    async fn lock_job(&self, tenant: &TenantId, id: JobId) -> Result<(Transaction, Row), PgError> {
        let text = id.to_string();
        let connection = self.database.tenant_connection(tenant).await?;
        let (transaction, rows) = connection
            .begin(
                (sql::LOCK_JOB, &[&tenant.as_str(), &&*text]),
                Some((sql::ENTRIES, &[&vec![tenant.as_str()], &vec![&*text]])),
            )
            .await?;
        if let Some(row) = rows.first() {
            return Ok((transaction, Row::from(row)?));
        }
        transaction.roll_back().await?;
        let mut connection = self.database.tenant_connection(tenant).await?;
        find::missing(&mut connection, tenant, id).await
    }

    /// Pauses or resumes a queue.
    pub(super) async fn try_pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), PgError> {
        let sql = if paused { sql::PAUSE_QUEUE } else { sql::RESUME_QUEUE };
        let mut connection = self.database.tenant_connection(tenant).await?;
        connection.query(sql, &[&tenant.as_str(), &queue.as_str()]).await?;
        if !paused {
            self.notify.jobs_ready();
        }
        Ok(())
    }
}

/// Writes a job that has no lease.
async fn save(transaction: Transaction, row: &mut Row) -> Result<Transaction, PgError> {
    let histories = StoredHistories::read(&transaction, std::iter::once(&*row)).await?;
    let known = job_key(&row.entry.job);
    let (history, events) = histories.of(&known);
    let used = row.entry.meter(histories.steps(&known)).unwrap_or_default();
    let job = &row.entry.job;
    let history = row.full_history(history, events)?;
    let (id, error) = (job.id.to_string(), job.error.as_ref().map(to_json).transpose()?);
    let at = |instant: Option<Timestamp>| instant.map(Timestamp::as_millis);
    let saved = transaction
        .query(
            sql::SAVE_JOB,
            &[
                &job.tenant.as_str(),
                &&*id,
                &int(row.read_as.0),
                &int(job.version),
                &job.status.as_str(),
                &small(job.max_attempts),
                &small(row.entry.attempt_base),
                &row.entry.charge,
                &job.run_at.as_millis(),
                &at(job.completed_at),
                &at(job.expires_at),
                &at(job.cancel_requested_at),
                &error,
                &&*history,
                &(used.jobs > 0),
                &int(used.run_ms),
                &int(used.steps),
            ],
        )
        .await?;
    if saved.is_empty() {
        transaction.roll_back().await?;
        return Err(
            StoreError::Unavailable("the job changed while it was locked".to_owned()).into()
        );
    }
    Ok(transaction)
}
