//! The writes of a batch of ended attempts.

use super::batch::columns;
use super::connection::columns::{Columns, int, small, to_json, without_nul};
use super::connection::database::Transaction;
use super::connection::error::PgError;
use super::connection::params::Param;
use super::maintenance::blobs::NewBlobs;
use super::maintenance::usage;
use super::outbox::Outbox;
use super::row::Row;
use super::settle::JobKey;
use super::{Inner, sql};
use crate::job::{Json, Timestamp, Tokens};

columns! {
    /// An ended attempt, in the order of the parameters of `end_attempts.sql`.
    struct EndedAttempt => EndedAttempts {
        tenant: String,
        id: String,
        leased_epoch: i64,
        leased_version: i64,
        epoch: i64,
        version: i64,
        status: &'static str,
        attempt: i32,
        run_at: i64,
        started_at: Option<i64>,
        completed_at: Option<i64>,
        expires_at: Option<i64>,
        cancel_requested_at: Option<i64>,
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
    expired_payloads: (Vec<String>, Vec<String>),
}

impl SettleBatch {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { outbox, ..Self::default() }
    }

    /// Adds an attempt that has ended in memory, with its stored history (before the lease and since the
    /// claim) and the number of finished steps.
    pub(super) fn push(
        &mut self,
        mut row: Row,
        (history, events): (Option<&str>, Option<&str>),
        steps: u64,
        result: Option<&Json>,
    ) -> Result<(), PgError> {
        let at = |instant: Option<Timestamp>| instant.map(Timestamp::as_millis);
        let history = row.full_history(history, events)?;
        let used = row.entry.meter(steps).unwrap_or_default();
        let (entry, job) = (&row.entry, &row.entry.job);
        let code_version = job.code_version.as_deref();
        let attempt = EndedAttempt {
            tenant: job.tenant.as_str().to_owned(),
            id: job.id.to_string(),
            leased_epoch: int(row.read_as.1),
            leased_version: int(row.read_as.0),
            epoch: int(entry.epoch),
            version: int(job.version),
            status: job.status.as_str(),
            attempt: small(job.attempt),
            run_at: job.run_at.as_millis(),
            started_at: at(job.started_at),
            completed_at: at(job.completed_at),
            expires_at: at(job.expires_at),
            cancel_requested_at: at(job.cancel_requested_at),
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
            self.expired_payloads.0.push(attempt.tenant.clone());
            self.expired_payloads.1.push(attempt.id.clone());
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
            let params: [&dyn Param; 3] = [tenants, ids, &now.as_millis()];
            transaction.query(sql::EXPIRE_PAYLOADS, &params).await?;
        }
        if !self.tokens.is_empty() {
            transaction.query(sql::ADD_USAGE, &[&to_json(&self.tokens)?]).await?;
        }
        self.outbox.write(&transaction, now).await?;
        transaction.commit().await?;
        inner.notify_outbox(&self.outbox);
        Ok(released_limit(&written))
    }
}

/// Reads the job of a row that `end_attempts.sql` or `end_jobs.sql` returned.
pub(super) fn settled_key(row: &tokio_postgres::Row) -> Result<JobKey, PgError> {
    let mut columns = Columns::of(row);
    Ok((columns.get()?, columns.id()?))
}

/// Returns whether a limit counted any of the attempts that `end_attempts.sql` ended.
pub(super) fn released_limit(written: &[tokio_postgres::Row]) -> bool {
    written.iter().any(|row| row.try_get(2).unwrap_or(false))
}
