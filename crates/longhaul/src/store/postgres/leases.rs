//! Writes of workers to the leases they hold. Every write is conditional on the lease's epoch, so that a
//! worker that lost its lease changes nothing.

pub(super) mod shared;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::Client;

use self::shared::may_be_shared;
use super::batch::columns;
use super::connection::columns::{int, read_all, to_json, without_nul};
use super::connection::database::{Transaction, query_unprepared};
use super::connection::error::{PgError, to_store_error};
use super::connection::timeouts::within;
use super::lease_cache::{CachedLease, StepCount};
use super::outbox::Outbox;
use super::row::{JobRow, append};
use super::settle::{StoredHistories, TenantJob, lease_columns};
use super::{Inner, sql};
use crate::job::{JobId, TenantId, Timestamp};
use crate::store::columns::from_columns;
use crate::store::{LeaseRef, Renewal, Report, StoreError};

impl Inner {
    /// Extends leases over the reserved connection. Not repeated, because the next renewal is due soon.
    pub(super) async fn renew(
        &self,
        leases: &[LeaseRef],
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        let renewal = async {
            let connection = self.reserved.acquire(&self.database).await?;
            let renewed = self.try_renew(&connection, leases, duration).await;
            connection.finish(renewed)
        };
        within(self.database.timeouts().reserved, renewal).await.map_err(to_store_error)
    }

    async fn try_renew(
        &self,
        client: &Client,
        leases: &[LeaseRef],
        duration: Duration,
    ) -> Result<Vec<Renewal>, PgError> {
        let until = self.clock.now().after(duration);
        let all: Vec<&LeaseRef> = leases.iter().collect();
        let mut renewed = renew_over(client, &all, until).await?;
        let is_missing = |lease: &&LeaseRef| !renewed.contains_key(*lease);
        let missing: Vec<&LeaseRef> =
            leases.iter().filter(|lease| may_be_shared(lease)).filter(is_missing).collect();
        if !missing.is_empty() {
            // Repeated even if none was split here, because another call may have split them just before.
            self.split_leases_over(client, &missing).await?;
            renewed.extend(renew_over(client, &missing, until).await?);
        }
        let renewal = |lease: &LeaseRef| match renewed.get(lease) {
            Some(cancel_requested) => Renewal::Kept { cancel_requested: *cancel_requested },
            None => Renewal::Lost,
        };
        Ok(leases.iter().map(renewal).collect())
    }

    /// Records phases and progress of running jobs.
    pub(super) async fn report(&self, reports: &[Report]) -> Vec<Result<(), StoreError>> {
        let mut results = Vec::with_capacity(reports.len());
        // Two reports of one lease are written one after the other.
        let mut rest = reports;
        while !rest.is_empty() {
            let mut seen = HashSet::new();
            let is_repeated =
                |report: &Report| !seen.insert((report.lease.tenant.clone(), report.lease.job));
            let end = rest.iter().position(is_repeated).unwrap_or(rest.len());
            let (batch, later) = rest.split_at(end);
            let mut attempted = HashMap::new();
            let reported = retrying!(self.try_report(batch, &mut attempted));
            results.extend(reported.unwrap_or_else(|error| vec![Err(error); batch.len()]));
            rest = later;
        }
        self.notify.jobs_changed();
        results
    }

    /// Writes reports once. `attempted` are the events of an earlier attempt whose response was lost.
    async fn try_report(
        &self,
        reports: &[Report],
        attempted: &mut HashMap<TenantJob, String>,
    ) -> Result<Vec<Result<(), StoreError>>, PgError> {
        let leases: Vec<&LeaseRef> = reports.iter().map(|report| &report.lease).collect();
        let mut updates = LeaseUpdates::new(self.outbox().await?);
        let (transaction, mut rows) = self.lock_leased(None, &leases).await?;
        let histories = StoredHistories::read(&transaction, rows.values()).await?;
        let now = self.clock.now();
        let mut cached = Vec::new();
        let mut results = Vec::with_capacity(reports.len());
        for report in reports {
            let key = (report.lease.tenant.clone(), report.lease.job);
            let row = rows.remove(&key).filter(|row| row.is_leased_by(&report.lease));
            let Some(mut row) = row else {
                results.push(Err(StoreError::LeaseLost));
                continue;
            };
            let (history, events) = histories.of(&key);
            let is_written =
                |attempted: &String| events.is_some_and(|events| events.starts_with(attempted));
            if attempted.get(&key).is_some_and(is_written) {
                results.push(Ok(()));
                continue;
            }
            row.entry.tell(&report.phases, report.progress.as_ref(), now);
            let events = append(events, &row.entry.events)?;
            if !row.entry.events.is_empty() {
                attempted.insert(key, events.clone());
            }
            updates.push(&row, events.clone())?;
            row.entry.written();
            row.read_as.0 = row.entry.job.version;
            cached.push(CachedLease {
                row,
                history: history.map(ToOwned::to_owned),
                events: (!events.is_empty()).then_some(events),
                // Unknown here, so assume that a limit counts it.
                counted: true,
                steps: StepCount::default(),
                shared: None,
            });
            results.push(Ok(()));
        }
        updates.write(transaction, self).await?;
        for lease in cached {
            self.lease_cache.replace(lease);
        }
        Ok(results)
    }
}

/// Extends leases. Returns those that exist, and whether their cancellation was requested.
async fn renew_over(
    client: &Client,
    leases: &[&LeaseRef],
    until: Timestamp,
) -> Result<HashMap<LeaseRef, bool>, PgError> {
    let (tenants, ids, epochs) = lease_columns(leases.iter().copied());
    let rows = query_unprepared(client, sql::RENEW, &[&tenants, &ids, &epochs, &until]).await?;
    let renewed: Vec<(LeaseRef, bool)> = read_all(&rows)?;
    Ok(renewed.into_iter().collect())
}

from_columns! {
    LeaseRef { tenant, job, epoch }
}

columns! {
    /// A changed lease, in the order of the parameters of `save_leases.sql`.
    struct LeaseUpdate => LeaseUpdateColumns {
        tenant: TenantId,
        id: JobId,
        epoch: i64,
        read_version: i64,
        version: i64,
        phase: Option<String>,
        progress: Option<String>,
        events: Option<String>,
        cancel_requested_at: Option<Timestamp>,
    }
}

/// Changes of running jobs, with the deliveries for their events.
pub(super) struct LeaseUpdates {
    columns: LeaseUpdateColumns,
    outbox: Outbox,
}

impl LeaseUpdates {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { columns: LeaseUpdateColumns::default(), outbox }
    }

    pub(super) fn push(&mut self, row: &JobRow, events: String) -> Result<(), PgError> {
        let job = &row.entry.job;
        self.columns.push(LeaseUpdate {
            tenant: job.tenant.clone(),
            id: job.id,
            epoch: int(row.entry.epoch),
            read_version: int(row.read_as.0),
            version: int(job.version),
            phase: job.phase.as_deref().map(|phase| without_nul(phase).into_owned()),
            progress: job.progress.as_ref().map(to_json).transpose()?,
            events: (!events.is_empty()).then_some(events),
            cancel_requested_at: job.cancel_requested_at,
        });
        self.outbox.add(&row.entry, None);
        Ok(())
    }

    /// Writes all changes and commits. The transaction must have locked all leases.
    pub(super) async fn write(
        self,
        transaction: Transaction,
        inner: &Inner,
    ) -> Result<(), PgError> {
        if self.columns.len() == 0 {
            return transaction.commit().await;
        }
        let written = transaction.query(sql::SAVE_LEASES, &self.columns.params()).await?;
        if written.len() != self.columns.len() {
            transaction.roll_back().await?;
            return Err(PgError::Conflict);
        }
        inner.commit_with_outbox(transaction, &self.outbox, inner.clock.now()).await
    }
}
