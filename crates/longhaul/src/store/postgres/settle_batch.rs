//! The writes of a batch of ended attempts.

use super::batch::columns;
use super::connection::columns::{int, to_json};
use super::connection::database::Transaction;
use super::connection::error::PgError;
use super::connection::params::Param;
use super::maintenance::blobs::NewBlobs;
use super::maintenance::usage;
use super::outbox::Outbox;
use super::row::JobRow;
use super::{Inner, sql};
use crate::job::{JobId, Json, Name, TenantId, Timestamp, Tokens};

columns! {
    /// An ended attempt, in the order of the parameters of `end_attempts.sql`.
    struct EndedAttempt => EndedAttempts {
        tenant: TenantId,
        id: JobId,
        leased_epoch: i64,
        leased_version: i64,
        version: i64,
        status: &'static str,
        expires_at: Option<Timestamp>,
        cancel_requested_at: Option<Timestamp>,
        progress: Option<String>,
        error: Option<String>,
        result: Option<String>,
        /// Events since the claim, if the job has finished.
        events: Option<String>,
        kind: Name,
        key_id: String,
        payload_bytes: i64,
        /// True if the job is metered for the first time.
        is_first_metered: bool,
        metered_run_ms: i64,
        metered_steps: i64,
        epoch: i64,
        run_at: Timestamp,
        charge: bool,
        /// All events, if the job returns to the queue.
        history: Option<String>,
        run_ms: i64,
        artifacts: Option<String>,
    }
}

/// `end_jobs.sql` takes the columns before `epoch`.
const END_JOBS_COLUMNS: usize = 18;

/// Ended attempts, with everything else that their transaction writes.
#[derive(Default)]
pub(super) struct SettleBatch {
    attempts: EndedAttempts,
    /// True if the lease cache has counted the steps of all jobs, so that the statement need not.
    pub(super) steps_are_counted: bool,
    pub(super) outbox: Outbox,
    pub(super) blobs: NewBlobs,
    /// Usage rows with tokens of language models.
    tokens: Vec<serde_json::Value>,
    /// Tenants and ids of the jobs whose payloads expire.
    expired_payloads: (Vec<TenantId>, Vec<JobId>),
}

impl SettleBatch {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { outbox, ..Self::default() }
    }

    /// Adds an attempt that has ended in memory, with its stored history (before the lease and since the
    /// claim) and the number of finished steps.
    pub(super) fn push(
        &mut self,
        mut row: JobRow,
        (history, events): (Option<&str>, Option<&str>),
        steps: u64,
        result: Option<&Json>,
    ) -> Result<(), PgError> {
        let (events, history) = if row.entry.job.status.is_terminal() {
            (row.final_events(events)?, None)
        } else {
            (None, Some(row.full_history(history, events)?))
        };
        let used = row.entry.meter(steps).unwrap_or_default();
        let (entry, job) = (&row.entry, &row.entry.job);
        let attempt = EndedAttempt {
            tenant: job.tenant.clone(),
            id: job.id,
            leased_epoch: int(row.read_as.1),
            leased_version: int(row.read_as.0),
            version: int(job.version),
            status: job.status.as_str(),
            expires_at: job.expires_at,
            cancel_requested_at: job.cancel_requested_at,
            progress: job.progress.as_ref().map(to_json).transpose()?,
            error: job.error.as_ref().map(to_json).transpose()?,
            result: result.map(|result| result.as_str().to_owned()),
            events,
            kind: job.kind.clone(),
            key_id: entry.tally.key.clone().unwrap_or_default(),
            payload_bytes: int(entry.tally.payload_bytes),
            // Tokens are added separately.
            is_first_metered: used.jobs > 0,
            metered_run_ms: int(used.run_ms),
            metered_steps: int(used.steps),
            epoch: int(entry.epoch),
            run_at: job.run_at,
            charge: entry.charge,
            history,
            run_ms: int(entry.tally.run_ms),
            artifacts: (!job.artifacts.is_empty()).then(|| to_json(&job.artifacts)).transpose()?,
        };
        self.outbox.add(entry, result);
        if entry.dooms_payload() {
            self.expired_payloads.0.push(job.tenant.clone());
            self.expired_payloads.1.push(job.id);
        }
        if used.tokens != Tokens::default() {
            self.tokens.push(usage::tokens(job, entry.tally.key.as_deref(), used.tokens));
        }
        self.attempts.push(attempt);
        Ok(())
    }

    /// Returns the parameters of `end_attempts.sql`.
    pub(super) fn params<'a>(&'a self, now: &'a Timestamp) -> Vec<&'a dyn Param> {
        let mut params = self.attempts.params();
        params.insert(0, now);
        params.push(&self.steps_are_counted);
        params
    }

    /// Returns the parameters of `end_jobs.sql`.
    pub(super) fn short_params<'a>(&'a self, now: &'a Timestamp) -> Vec<&'a dyn Param> {
        let mut params = self.params(now);
        params.truncate(1 + END_JOBS_COLUMNS);
        params
    }

    /// Writes the batch and commits. The transaction must have locked all leases. Returns whether a
    /// limit has released capacity.
    pub(super) async fn write(
        self,
        transaction: Transaction,
        now: Timestamp,
        inner: &Inner,
    ) -> Result<bool, PgError> {
        if self.attempts.len() == 0 {
            return transaction.commit().await.map(|()| false);
        }
        let written = transaction.query(sql::END_ATTEMPTS, &self.params(&now)).await?;
        if written.len() != self.attempts.len() {
            transaction.roll_back().await?;
            return Err(PgError::Conflict);
        }
        self.blobs.write(&transaction, now).await?;
        let (tenants, ids) = &self.expired_payloads;
        if !ids.is_empty() {
            transaction.query(sql::EXPIRE_PAYLOADS, &[tenants, ids, &now]).await?;
        }
        if !self.tokens.is_empty() {
            transaction.query(sql::ADD_USAGE, &[&to_json(&self.tokens)?]).await?;
        }
        inner.commit_with_outbox(transaction, &self.outbox, now).await?;
        Ok(released_limit(&written))
    }
}

/// Returns whether a limit counted any of the attempts that `end_attempts.sql` ended.
pub(super) fn released_limit(written: &[tokio_postgres::Row]) -> bool {
    written.iter().any(|row| row.try_get(2).unwrap_or(false))
}
