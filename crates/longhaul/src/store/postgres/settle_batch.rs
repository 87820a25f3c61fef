//! The writes of a batch of ended attempts.

use super::batch::columns;
use super::connection::columns::{int, small, to_json, without_nul};
use super::connection::database::Transaction;
use super::connection::error::PgError;
use super::connection::params::Param;
use super::maintenance::blobs::NewBlobs;
use super::maintenance::usage;
use super::outbox::Outbox;
use super::row::JobRow;
use super::{Inner, sql};
use crate::job::{JobId, Json, TenantId, Timestamp, Tokens};

columns! {
    /// An ended attempt, in the order of the parameters of `end_attempts.sql`.
    struct EndedAttempt => EndedAttempts {
        tenant: TenantId,
        id: JobId,
        leased_epoch: i64,
        leased_version: i64,
        epoch: i64,
        version: i64,
        status: &'static str,
        attempt: i32,
        run_at: Timestamp,
        started_at: Option<Timestamp>,
        completed_at: Option<Timestamp>,
        expires_at: Option<Timestamp>,
        cancel_requested_at: Option<Timestamp>,
        charge: bool,
        progress: Option<String>,
        error: Option<String>,
        code_version: Option<String>,
        result: Option<String>,
        history: String,
        /// True if the job is metered for the first time.
        is_first_metered: bool,
        metered_run_ms: i64,
        metered_steps: i64,
        run_ms: i64,
        artifacts: Option<String>,
    }
}

/// `end_jobs.sql` takes the columns before `run_ms`.
const END_JOBS_COLUMNS: usize = 22;

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
        let history = row.full_history(history, events)?;
        let used = row.entry.meter(steps).unwrap_or_default();
        let (entry, job) = (&row.entry, &row.entry.job);
        let code_version = job.code_version.as_deref();
        let attempt = EndedAttempt {
            tenant: job.tenant.clone(),
            id: job.id,
            leased_epoch: int(row.read_as.1),
            leased_version: int(row.read_as.0),
            epoch: int(entry.epoch),
            version: int(job.version),
            status: job.status.as_str(),
            attempt: small(job.attempt),
            run_at: job.run_at,
            started_at: job.started_at,
            completed_at: job.completed_at,
            expires_at: job.expires_at,
            cancel_requested_at: job.cancel_requested_at,
            charge: entry.charge,
            progress: job.progress.as_ref().map(to_json).transpose()?,
            error: job.error.as_ref().map(to_json).transpose()?,
            code_version: code_version.map(|version| without_nul(version).into_owned()),
            result: result.map(|result| result.as_str().to_owned()),
            history,
            // The payload's size is in the job's row, and tokens are added separately.
            is_first_metered: used.jobs > 0,
            metered_run_ms: int(used.run_ms),
            metered_steps: int(used.steps),
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

    /// Returns the parameters of `end_jobs.sql` (short) or `end_attempts.sql`.
    pub(super) fn params(&self, is_short: bool) -> Vec<&dyn Param> {
        let mut params = self.attempts.params();
        if is_short {
            params.truncate(END_JOBS_COLUMNS);
        } else {
            params.push(&self.steps_are_counted);
        }
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
        let written = transaction.query(sql::END_ATTEMPTS, &self.params(false)).await?;
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
