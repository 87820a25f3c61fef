//! Shared leases: one row for first attempts of a lane that were claimed together.
//!
//! Most jobs are claimed by the hundred and finish a moment later. For them a lease of their own would be a row that
//! is inserted and deleted again without ever being read. Anything else that happens to one of these jobs, for
//! example a checkpoint, a renewal or a cancellation, splits the lease first: each job that is still running then has
//! a lease of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio_postgres::Client;

use crate::job::{EncodedId, Job, JobId, Name, TenantId, Timestamp};
use crate::store::postgres::batch::columns;
use crate::store::postgres::claim::candidates::Candidate;
use crate::store::postgres::connection::columns::{int, to_json, without_nul};
use crate::store::postgres::connection::database::query_unprepared;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::row::JobRow;
use crate::store::postgres::settle::lease_columns;
use crate::store::postgres::{Inner, sql};
use crate::store::{LeaseRef, SettleResult, Settlement};

/// Minimum number of jobs that share a lease. A row for two or three of them costs as much as their own.
const SHARED_JOBS_MIN: usize = 4;

/// A shared lease of this process. Tenant and highest job id identify it.
#[derive(Debug)]
pub(crate) struct SharedLease {
    tenant: TenantId,
    last_id: JobId,
    /// Number of jobs that are not known to have finished.
    unfinished: AtomicUsize,
    /// True if the row is known to be gone.
    is_split: AtomicBool,
}

impl SharedLease {
    pub(crate) fn is_split(&self) -> bool {
        self.is_split.load(Ordering::Relaxed)
    }

    pub(crate) fn set_split(&self) {
        self.is_split.store(true, Ordering::Relaxed);
    }
}

columns! {
    /// A shared lease, in the order of the parameters of `claim_jobs.sql`.
    struct SharedLeaseRow => SharedLeaseRows {
        tenant: TenantId,
        queue: Name,
        first_id: JobId,
        last_id: JobId,
        ids: String,
        code_version: Option<String>,
    }
}

columns! {
    /// A lane whose jobs were claimed, in the order of the parameters of `claim_jobs.sql`.
    struct LaneRow => LaneRows {
        tenant: TenantId,
        queue: Name,
        kind: Name,
        priority: i32,
    }
}

type LaneKey<'a> = (&'a TenantId, &'a Name, &'a Name, i32);

/// The lanes of claimed jobs, and the leases that these share.
#[derive(Default)]
pub(crate) struct LeaseGroups {
    leases: SharedLeaseRows,
    lanes: LaneRows,
    /// The shared lease of each claimed job, or `None` if it needs its own.
    of_jobs: Vec<Option<Arc<SharedLease>>>,
}

impl LeaseGroups {
    /// Groups claimed jobs by lane. Those that `may_share` accepts get a shared lease if there are at least
    /// `jobs_min` of them.
    pub(crate) fn new(
        claimed: &[Candidate],
        may_share: impl Fn(&JobRow) -> bool,
        jobs_min: usize,
    ) -> Self {
        let mut lanes: HashMap<LaneKey<'_>, Vec<(usize, &Job)>> = HashMap::new();
        for (index, candidate) in claimed.iter().enumerate() {
            let job = candidate.job();
            let lane = (&job.tenant, &job.queue, &job.kind, job.priority);
            let jobs = lanes.entry(lane).or_default();
            if may_share(&candidate.row) {
                jobs.push((index, job));
            }
        }
        let mut claimed = Self { of_jobs: vec![None; claimed.len()], ..Self::default() };
        for ((tenant, queue, kind, priority), jobs) in lanes {
            let (tenant, queue, kind) = (tenant.clone(), queue.clone(), kind.clone());
            if jobs.len() >= jobs_min {
                claimed.share(&tenant, &queue, &jobs);
            }
            claimed.lanes.push(LaneRow { tenant, queue, kind, priority });
        }
        claimed
    }

    fn share(&mut self, tenant: &TenantId, queue: &Name, jobs: &[(usize, &Job)]) {
        let ids = || jobs.iter().map(|(_, job)| job.id);
        let (Some((_, job)), Some(first_id), Some(last_id)) =
            (jobs.first(), ids().min(), ids().max())
        else {
            return;
        };
        let lease = Arc::new(SharedLease {
            tenant: tenant.clone(),
            last_id,
            unfinished: AtomicUsize::new(jobs.len()),
            is_split: AtomicBool::new(false),
        });
        let mut text = String::with_capacity(jobs.len() * (size_of::<EncodedId>() + 1));
        for (index, job) in jobs {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(job.id.encode(&mut EncodedId::default()));
            if let Some(slot) = self.of_jobs.get_mut(*index) {
                *slot = Some(Arc::clone(&lease));
            }
        }
        let code_version = job.code_version.as_deref();
        self.leases.push(SharedLeaseRow {
            tenant: tenant.clone(),
            queue: queue.clone(),
            first_id,
            last_id,
            ids: text,
            code_version: code_version.map(|text| without_nul(text).into_owned()),
        });
    }

    /// Returns the shared lease of a claimed job.
    pub(crate) fn shared_lease(&self, index: usize) -> Option<Arc<SharedLease>> {
        self.of_jobs.get(index).cloned().flatten()
    }

    pub(crate) fn params(&self) -> Vec<&dyn Param> {
        let mut params = self.leases.params();
        params.extend(self.lanes.params());
        params
    }
}

columns! {
    /// A finished job, in the order of the parameters of `end_shared_jobs.sql`.
    struct FinishedJob => FinishedJobs {
        lease: i64,
        id: JobId,
        status: &'static str,
        expires_at: Option<Timestamp>,
        error: Option<String>,
        result: Option<String>,
    }
}

columns! {
    /// Usage of jobs, in the order of the parameters of `end_shared_jobs.sql`.
    struct UsedByJobs => UsageRows {
        lease: i64,
        kind: Name,
        key_id: String,
        jobs: i64,
        run_ms: i64,
    }
}

columns! {
    /// The key of a shared lease.
    pub(crate) struct SharedLeaseKey => SharedLeaseKeys {
        tenant: TenantId,
        last_id: JobId,
    }
}

impl SharedLeaseKeys {
    pub(crate) fn push_key(&mut self, lease: &SharedLease) {
        self.push(SharedLeaseKey { tenant: lease.tenant.clone(), last_id: lease.last_id });
    }
}

/// Settlements of jobs with shared leases.
#[derive(Default)]
pub(crate) struct SharedSettlements(
    /// By tenant and highest id, because leases are locked in this order.
    BTreeMap<(TenantId, JobId), SettlementsOfLease>,
);

struct SettlementsOfLease {
    lease: Arc<SharedLease>,
    jobs: Vec<SettledJob>,
}

struct SettledJob {
    index: usize,
    result: SettleResult,
    finished: FinishedJob,
    kind: Name,
    key_id: String,
    run_ms: i64,
}

impl SharedSettlements {
    /// Adds the settlement with this index. Returns false if the job needs more than its final state written.
    pub(crate) fn push(
        &mut self,
        lease: Arc<SharedLease>,
        mut row: JobRow,
        (index, settlement): (usize, &Settlement),
        now: Timestamp,
    ) -> Result<bool, PgError> {
        let result = row.entry.settle(settlement, now)?;
        let is_plain = row.entry.job.status.is_terminal()
            && row.entry.job.version == 3
            && row.entry.job.progress.is_none()
            && row.final_events(None)?.is_none();
        if !is_plain {
            return Ok(false);
        }
        let used = row.entry.meter(0).unwrap_or_default();
        let job = &row.entry.job;
        let finished = FinishedJob {
            lease: 0,
            id: job.id,
            status: job.status.as_str(),
            expires_at: job.expires_at,
            error: job.error.as_ref().map(to_json).transpose()?,
            result: result.map(|result| result.as_str().to_owned()),
        };
        let key = (lease.tenant.clone(), lease.last_id);
        let of_lease = self.0.entry(key).or_insert(SettlementsOfLease { lease, jobs: Vec::new() });
        of_lease.jobs.push(SettledJob {
            index,
            result: row.entry.settled(),
            finished,
            kind: job.kind.clone(),
            key_id: row.entry.tally.key.clone().unwrap_or_default(),
            run_ms: int(used.run_ms),
        });
        Ok(true)
    }
}

impl Inner {
    /// Chooses the claimed jobs that share a lease.
    pub(crate) fn share_leases(&self, claimed: &[Candidate], now: Timestamp) -> LeaseGroups {
        if self.always_shares_leases.load(Ordering::Relaxed) {
            return LeaseGroups::new(claimed, JobRow::may_share_lease, 1);
        }
        let may_share = |row: &JobRow| {
            row.may_share_lease() && self.lease_cache.may_share(&row.entry.job.kind, now)
        };
        LeaseGroups::new(claimed, may_share, SHARED_JOBS_MIN)
    }

    /// Settles jobs with shared leases. Returns the indices and results of those whose lease is still shared.
    pub(crate) async fn settle_shared(
        &self,
        settlements: SharedSettlements,
        now: Timestamp,
    ) -> Result<Vec<(usize, SettleResult)>, PgError> {
        if settlements.0.is_empty() {
            return Ok(Vec::new());
        }
        let mut keys = SharedLeaseKeys::default();
        let mut finished = FinishedJobs::default();
        let mut usage: BTreeMap<(i64, Name, String), (i64, i64)> = BTreeMap::new();
        let mut of_leases = Vec::with_capacity(settlements.0.len());
        for (number, SettlementsOfLease { lease, jobs }) in (1..).zip(settlements.0.into_values()) {
            keys.push_key(&lease);
            let mut results = Vec::with_capacity(jobs.len());
            for job in jobs {
                finished.push(FinishedJob { lease: number, ..job.finished });
                let used = usage.entry((number, job.kind, job.key_id)).or_default();
                *used = (used.0 + 1, used.1 + job.run_ms);
                results.push((job.index, job.result));
            }
            of_leases.push((lease, results));
        }
        let mut used = UsageRows::default();
        for ((lease, kind, key_id), (jobs, run_ms)) in usage {
            used.push(UsedByJobs { lease, kind, key_id, jobs, run_ms });
        }
        let ended = self.lease_cache.take_ended();
        let mut params: Vec<&dyn Param> = vec![&now];
        params.extend(keys.params());
        params.extend(finished.params());
        params.extend(used.params());
        params.extend(ended.params());
        let held: Vec<i64> = self.all(sql::END_SHARED_JOBS, &params).await?;
        let mut settled = Vec::with_capacity(finished.len());
        for (number, (lease, results)) in (1..).zip(of_leases) {
            if held.contains(&number) {
                let left = lease.unfinished.fetch_sub(results.len(), Ordering::Relaxed);
                if left == results.len() {
                    self.lease_cache.add_ended(&lease);
                }
                settled.extend(results);
            } else {
                lease.set_split();
            }
        }
        Ok(settled)
    }

    /// Splits the shared leases of these attempts, if there are any. Returns whether a call that found no lease of them must
    /// be repeated: also if none was split here, because another call may have split it just before.
    pub(crate) async fn split_leases<'a>(
        &self,
        leases: impl Iterator<Item = &'a LeaseRef>,
    ) -> Result<bool, PgError> {
        let leases: Vec<&LeaseRef> = leases.filter(|lease| may_be_shared(lease)).collect();
        if leases.is_empty() {
            return Ok(false);
        }
        let (tenants, ids, _) = lease_columns(leases.iter().copied());
        let split: Option<Option<u64>> =
            self.first(sql::SPLIT_LEASES_OF_JOBS, &[&tenants, &ids]).await?;
        if split.flatten().is_some() {
            self.lease_cache.set_split(leases.into_iter(), self.clock.now());
        }
        Ok(true)
    }

    /// Splits shared leases like [`Inner::split_leases`], over the connection of renewals.
    pub(super) async fn split_leases_over(
        &self,
        client: &Client,
        leases: &[&LeaseRef],
    ) -> Result<(), PgError> {
        let (tenants, ids, _) = lease_columns(leases.iter().copied());
        query_unprepared(client, sql::SPLIT_LEASES_OF_JOBS, &[&tenants, &ids]).await?;
        self.lease_cache.set_split(leases.iter().copied(), self.clock.now());
        Ok(())
    }

    /// Splits shared leases that have expired and deletes those whose jobs have all finished.
    pub(crate) async fn maintain_shared_leases(&self, now: Timestamp) -> Result<(), PgError> {
        self.run(sql::SPLIT_EXPIRED_LEASES, &[&now]).await?;
        let ended = self.lease_cache.take_ended();
        if ended.len() > 0 {
            self.run(sql::DELETE_SHARED_LEASES, &ended.params()).await?;
        }
        Ok(())
    }
}

/// Returns whether an attempt may have a shared lease: it must be a first one.
pub(crate) fn may_be_shared(lease: &LeaseRef) -> bool {
    lease.epoch == 1
}
