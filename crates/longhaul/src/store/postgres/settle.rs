//! Settlement: records how attempts ended.
//!
//! Most attempts were claimed by this process and not changed since. Their jobs are in the lease cache,
//! so a batch of them is settled with one statement ([`Inner::settle_cached`]). All others are locked and
//! read first ([`Inner::settle_locked`]).

use std::collections::{HashMap, HashSet};

use super::connection::columns::{int, read_all};
use super::connection::database::Transaction;
use super::connection::error::PgError;
use super::connection::params::Param;
use super::lease_cache::CachedLease;
use super::leases::shared::SharedSettlements;
use super::row::JobRow;
use super::settle_batch::{SettleBatch, released_limit};
use super::{Inner, sql};
use crate::job::{Job, JobId, TenantId, Tokens};
use crate::store::columns::from_columns;
use crate::store::{BlobRole, LeaseRef, SettleResult, Settlement, StoreError};

/// Returns the approximate size of a settlement.
pub(super) fn bytes_of(settlement: &Settlement) -> usize {
    match &settlement.outcome {
        crate::job::Outcome::Completed(result) => result.as_str().len() + 512,
        crate::job::Outcome::Failed { .. }
        | crate::job::Outcome::Cancelled
        | crate::job::Outcome::Released
        | crate::job::Outcome::Sleep { .. } => 1024,
    }
}

/// Tenant and id of a job.
pub(super) type TenantJob = (TenantId, JobId);

pub(super) fn job_key(job: &Job) -> TenantJob {
    (job.tenant.clone(), job.id)
}

/// The result of one settlement; `None` until it is known.
type SettleSlot = Option<Result<SettleResult, StoreError>>;

impl Inner {
    /// Settles attempts. Each succeeds or fails on its own.
    pub(super) async fn settle_batch(
        &self,
        settlements: Vec<Settlement>,
    ) -> Vec<Result<SettleResult, StoreError>> {
        let mut results: Vec<SettleSlot> = Vec::new();
        results.resize_with(settlements.len(), || None);
        self.settle_cached(&settlements, &mut results).await;
        // Two settlements of one lease are processed one after the other.
        while let Some(round) = next_round(&settlements, &results) {
            let batch: Vec<&Settlement> =
                round.iter().filter_map(|index| settlements.get(*index)).collect();
            let settled = retrying!(self.settle_locked(&batch));
            let settled = settled.unwrap_or_else(|error| vec![Err(error); batch.len()]);
            for (index, result) in round.into_iter().zip(settled) {
                if let Some(slot) = results.get_mut(index) {
                    *slot = Some(result);
                }
            }
        }
        let is_requeued =
            |slot: &SettleSlot| matches!(slot, Some(Ok(settled)) if !settled.status.is_terminal());
        if results.iter().any(is_requeued) {
            self.notify.jobs_ready();
        }
        self.notify.jobs_changed();
        results.into_iter().map(|slot| slot.unwrap_or(Err(StoreError::LeaseLost))).collect()
    }

    /// Settles the attempts whose jobs are cached, with one statement. Leaves the slots of all others
    /// empty, and those of attempts whose lease was changed by another replica.
    async fn settle_cached(&self, settlements: &[Settlement], results: &mut [SettleSlot]) {
        let now = self.clock.now();
        let Ok(outbox) = self.outbox().await else { return };
        let mut batch = SettleBatch::new(outbox);
        batch.steps_are_counted = true;
        let mut expected: HashMap<TenantJob, (usize, SettleResult)> = HashMap::new();
        // A shorter statement does if all jobs are finished, no limit counts them and nothing is announced.
        let mut is_short = true;
        let mut shared = SharedSettlements::default();
        for (index, settlement) in settlements.iter().enumerate() {
            let Some(cached) = self.lease_cache.take(&settlement.lease) else { continue };
            let CachedLease { mut row, history, events, counted, steps, shared: lease } = cached;
            let has_blobs = row.entry.job.has_payload || !settlement.artifacts.is_empty();
            if has_blobs || settlement.tokens != Tokens::default() {
                // Needs further writes in the same transaction.
                continue;
            }
            if let Some(lease) = lease.filter(|lease| !lease.is_split()) {
                // A job that needs more than its final state written is left to `settle_locked`.
                drop(shared.push(lease, row, (index, settlement), now));
                continue;
            }
            let Ok(result) = row.entry.settle(settlement, now) else { continue };
            if row.entry.ended && steps.exact().is_none() {
                // The steps have to be counted in the database.
                continue;
            }
            let key = job_key(&row.entry.job);
            let settled = row.entry.settled();
            let steps = steps.exact().unwrap_or_default();
            let history = (history.as_deref(), events.as_deref());
            if batch.push(row, history, steps, result.as_ref()).is_ok() {
                expected.insert(key, (index, settled));
                is_short &= settled.status.is_terminal() && !counted;
            }
        }
        let mut settle = |(index, settled): (usize, SettleResult)| {
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(Ok(settled));
            }
        };
        // After an error, `settle_locked` finds out what was committed.
        let settled = self.settle_shared(shared, now).await;
        settled.unwrap_or_default().into_iter().for_each(&mut settle);
        if expected.is_empty() {
            return;
        }
        let mut outbox = std::mem::take(&mut batch.outbox);
        if is_short && outbox.is_empty() {
            let ended = self.first::<u64>(sql::END_JOBS, &batch.short_params(&now)).await;
            // If some were not ended, `settle_locked` finds out which.
            if ended.is_ok_and(|ended| ended == Some(expected.len() as u64)) {
                expected.into_values().for_each(settle);
            }
            return;
        }
        let written = async {
            let mut connection = self.database.connection().await?;
            if outbox.is_empty() {
                return connection.query(sql::END_ATTEMPTS, &batch.params(&now)).await;
            }
            let (transaction, rows) =
                connection.begin((sql::END_ATTEMPTS, &batch.params(&now)), None).await?;
            outbox.retain_jobs(&read_all(&rows)?.into_iter().collect());
            self.commit_with_outbox(transaction, &outbox, now).await?;
            Ok(rows)
        };
        let written = written.await.unwrap_or_default();
        if released_limit(&written) {
            self.notify.jobs_ready();
        }
        for key in read_all::<TenantJob>(&written).unwrap_or_default() {
            expected.remove(&key).map(&mut settle);
        }
    }

    /// Settles attempts after locking their leases and reading their jobs. No lease occurs twice.
    async fn settle_locked(
        &self,
        settlements: &[&Settlement],
    ) -> Result<Vec<Result<SettleResult, StoreError>>, PgError> {
        let leases: Vec<&LeaseRef> = settlements.iter().map(|one| &one.lease).collect();
        let mut batch = SettleBatch::new(self.outbox().await?);
        let (transaction, mut rows) = self.lock_leased(None, &leases).await?;
        let histories = StoredHistories::read(&transaction, rows.values()).await?;
        let now = self.clock.now();
        let mut results = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            let lease = &settlement.lease;
            let key = (lease.tenant.clone(), lease.job);
            results.push(match rows.remove(&key) {
                None => Err(StoreError::LeaseLost),
                Some(mut row) if row.is_leased_by(lease) => {
                    let result = row.entry.settle(settlement, now)?;
                    let settled = row.entry.settled();
                    if result.is_some() {
                        let role = BlobRole::Artifact;
                        let each = settlement.artifacts.iter().map(|artifact| (role, artifact));
                        batch.blobs.push_all(&lease.tenant, lease.job, each);
                    }
                    batch.push(row, histories.of(&key), histories.steps(&key), result.as_ref())?;
                    Ok(settled)
                }
                Some(row) => row.entry.settled_before(settlement),
            });
        }
        if batch.write(transaction, now, self).await? {
            self.notify.jobs_ready();
        }
        Ok(results)
    }

    /// Begins a transaction, as `tenant` if given, locks these leases in it and reads their jobs. Splits shared
    /// leases before.
    pub(super) async fn lock_leased(
        &self,
        tenant: Option<&TenantId>,
        leases: &[&LeaseRef],
    ) -> Result<(Transaction, HashMap<TenantJob, JobRow>), PgError> {
        let (tenants, ids, epochs) = lease_columns(leases.iter().copied());
        let lock: &[&dyn Param] = &[&tenants, &ids, &epochs];
        let read: &[&dyn Param] = &[&tenants, &ids];
        let mut may_split = true;
        loop {
            let connection = match tenant {
                Some(tenant) => self.database.tenant_connection(tenant).await?,
                None => self.database.connection().await?,
            };
            let (transaction, rows) =
                connection.begin((sql::LOCK_LEASES, lock), Some((sql::ENTRIES, read))).await?;
            let mut read = HashMap::with_capacity(rows.len());
            for row in &rows {
                let row = JobRow::from(row)?;
                read.insert(job_key(&row.entry.job), row);
            }
            if !(may_split && read.values().any(|row| row.is_lease_shared)) {
                return Ok((transaction, read));
            }
            transaction.roll_back().await?;
            self.split_leases(leases.iter().copied()).await?;
            may_split = false;
        }
    }
}

/// Returns tenants, job ids and epochs of leases.
pub(super) fn lease_columns<'a>(
    leases: impl Iterator<Item = &'a LeaseRef>,
) -> (Vec<&'a TenantId>, Vec<JobId>, Vec<i64>) {
    leases.map(|lease| (&lease.tenant, lease.job, int(lease.epoch))).collect()
}

/// Returns the settlements without a result, the first of each lease.
fn next_round(settlements: &[Settlement], results: &[SettleSlot]) -> Option<Vec<usize>> {
    let mut seen = HashSet::new();
    let open = settlements.iter().zip(results).enumerate().filter(|(_, (_, slot))| slot.is_none());
    let round: Vec<usize> = open
        .filter(|(_, (settlement, _))| {
            seen.insert((&settlement.lease.tenant, settlement.lease.job))
        })
        .map(|(index, _)| index)
        .collect();
    (!round.is_empty()).then_some(round)
}

/// Stored histories and step counts of some jobs.
pub(super) struct StoredHistories(HashMap<TenantJob, StoredHistory>);

struct StoredHistory {
    before_lease: Option<String>,
    since_claim: Option<String>,
    steps: u64,
}

from_columns! {
    StoredHistory { before_lease, since_claim, steps }
}

impl StoredHistories {
    pub(super) async fn read(
        transaction: &Transaction,
        rows: impl Iterator<Item = &JobRow>,
    ) -> Result<Self, PgError> {
        let (tenants, ids): (Vec<&TenantId>, Vec<JobId>) =
            rows.map(|row| (&row.entry.job.tenant, row.entry.job.id)).unzip();
        let rows = transaction.query(sql::HISTORIES, &[&tenants, &ids]).await?;
        let histories: Vec<(TenantJob, StoredHistory)> = read_all(&rows)?;
        Ok(Self(histories.into_iter().collect()))
    }

    /// Returns the history before the lease, and the events since the claim.
    pub(super) fn of(&self, key: &TenantJob) -> (Option<&str>, Option<&str>) {
        let history = self.0.get(key);
        let before_lease = history.and_then(|history| history.before_lease.as_deref());
        (before_lease, history.and_then(|history| history.since_claim.as_deref()))
    }

    /// Returns the number of finished steps.
    pub(super) fn steps(&self, key: &TenantJob) -> u64 {
        self.0.get(key).map_or(0, |history| history.steps)
    }
}
