//! Claims: leases for due jobs, fair to all tenants and safe for any number of replicas.
//!
//! One claim is one transaction:
//!
//! 1. [`query`] reads and locks the first due jobs of each lane: the [`candidates`].
//! 2. [`fairness`](crate::store::fairness) selects among them, round-robin over tenants (over queues for deliveries). With
//!    limits, [`limits`] repeats both steps until the limits or the jobs are exhausted.
//! 3. The selected jobs leave the queue and get their leases ([`ClaimBatch`]), or share one ([`LeaseGroups`]).
//! 4. After the commit, the steps that earlier attempts finished are added.
//!
//! A job that is submitted to a replica with a free slot needs no claim: see [`hand_off`].
//!
//! [`lane_cursors`] keep the cost of the query independent of history, and [`quarantine`] keeps
//! unreadable jobs out of the way.

pub(super) mod candidates;
mod hand_off;
pub(super) mod lane_cursors;
mod limits;
pub(super) mod lost;
pub(super) mod quarantine;
pub(super) mod query;

use std::collections::HashMap;

use self::candidates::{Candidate, Candidates, Selection};
use self::query::{ClaimQuery, Rotation};
use super::batch::columns;
use super::connection::columns::{int, small, to_json, without_nul};
use super::connection::database::Transaction;
use super::connection::error::PgError;
use super::connection::params::Param;
use super::lease_cache::{CachedLease, StepCount};
use super::leases::shared::LeaseGroups;
use super::row::JobRow;
use super::settle::{TenantJob, job_key};
use super::{Inner, sql};
use crate::job::{JobId, Json, Name, Step, TenantId, Timestamp};
use crate::store::fairness::CandidateSelector;
use crate::store::limits::{LimitCheck, LimitKey};
use crate::store::{Claim, ClaimResult, Lease, QueueCapacity};

impl Inner {
    /// Claims due jobs. A claim with nothing to do also enqueues jobs that were submitted by SQL, and
    /// then tries once more.
    pub(super) async fn claim(&self, want: &Claim) -> Result<ClaimResult, PgError> {
        self.release_lost_claims(want).await?;
        let claimed = self.claim_ready(want).await?;
        if claimed.leases.is_empty() {
            // The first attempt may have read the queue before the submissions were committed.
            return if self.try_enqueue_incoming().await > 0 {
                self.claim_ready(want).await
            } else {
                Ok(claimed)
            };
        }
        if claimed.leases.len() < want.limit
            && self.is_incoming_check_due()
            && self.try_enqueue_incoming().await > 0
        {
            self.notify.wake_claims();
        }
        Ok(claimed)
    }

    async fn claim_ready(&self, want: &Claim) -> Result<ClaimResult, PgError> {
        let claim_id: i64 = rand::random();
        let mut may_have_claimed = false;
        let claimed = retrying!(is_retry => async {
            let claimed = if is_retry {
                self.claim_again(want, claim_id).await
            } else {
                self.try_claim(want, claim_id).await
            };
            may_have_claimed |= lost::may_have_committed(&claimed);
            claimed
        });
        if claimed.is_err() && may_have_claimed {
            self.lost_claims.add(&want.replica, claim_id);
        }
        Ok(claimed?)
    }

    /// Returns the leases of an earlier attempt whose response was lost, or claims.
    async fn claim_again(&self, want: &Claim, claim_id: i64) -> Result<ClaimResult, PgError> {
        let claimed = self.claimed_before(want, claim_id).await?;
        if claimed.leases.is_empty() { self.try_claim(want, claim_id).await } else { Ok(claimed) }
    }

    /// Returns the leases of a claim whose response was lost.
    async fn claimed_before(&self, want: &Claim, claim_id: i64) -> Result<ClaimResult, PgError> {
        let mut connection = self.database.connection().await?;
        connection.query(sql::SPLIT_LEASES_OF_CLAIM, &[&want.replica, &claim_id]).await?;
        let rows = connection.query(sql::CLAIMED_BEFORE, &[&want.replica, &claim_id]).await?;
        drop(connection);
        let mut leases = Vec::with_capacity(rows.len());
        for row in &rows {
            let Candidate { row, input, .. } = Candidate::read(row)?;
            let expires_at = row.entry.lease_until.unwrap_or_else(|| self.clock.now());
            leases.push(lease(row, input, expires_at));
        }
        self.with_steps(leases, None).await
    }

    async fn try_claim(&self, want: &Claim, claim_id: i64) -> Result<ClaimResult, PgError> {
        let now = self.clock.now();
        let mut outbox = self.outbox().await?;
        let mut limits = LimitCheck::new(&want.limits, now);
        let (transaction, selection) = if limits.is_open() {
            let (transaction, candidates) = self.lock_candidates(want, now).await?;
            (
                transaction,
                Selection::choose(candidates, &mut CandidateSelector::new(want), &mut limits),
            )
        } else {
            self.select_within_limits(want, now, &mut limits).await?
        };

        let mut claimed = selection.selected;
        let mut counted = Vec::with_capacity(claimed.len());
        for candidate in &mut claimed {
            candidate.row.entry.claim(want, now)?;
            counted.push(limits.pass(LimitKey::of(&candidate.row.entry.job)));
            outbox.add(&candidate.row.entry, None);
        }
        let limited_until = limits.next_at();
        let Some(last) = claimed.last() else {
            transaction.commit().await?;
            return Ok(ClaimResult { leases: Vec::new(), limited_until });
        };
        self.rotation(want).set_last_served(last.job());
        if !limits.is_open() {
            self.save_counters(&transaction, &limits).await?;
        }
        let may_share = limits.is_open() && outbox.is_empty() && want.queue_capacity.is_none();
        let lanes = if may_share {
            self.share_leases(&claimed, now)
        } else {
            LeaseGroups::new(&claimed, |_| false, usize::MAX)
        };
        let (batch, leases) = self.lease(claimed, counted, &lanes, want, now)?;
        let (replica, expires_at) = (without_nul(&want.replica), now.after(want.lease));
        let mut params = batch.params();
        params.extend(lanes.params());
        params.extend([&replica as &dyn Param, &now, &expires_at, &claim_id]);
        if outbox.is_empty() {
            transaction.commit_with(sql::CLAIM_JOBS, &params).await?;
        } else {
            transaction.query(sql::CLAIM_JOBS, &params).await?;
            self.commit_with_outbox(transaction, &outbox, now).await?;
        }
        if leases.len() >= want.limit && want.queue_capacity.is_none() && limits.is_open() {
            self.rotation(want).set_claimed(&leases);
        }
        self.notify.jobs_changed();
        if selection.left > 0 {
            // Claims that ran meanwhile have skipped the candidates that were locked but not taken.
            self.notify.jobs_ready();
        }
        self.with_steps(leases, limited_until).await
    }

    /// Leases claimed jobs in memory. Returns what is to be written besides `lanes`.
    fn lease(
        &self,
        claimed: Vec<Candidate>,
        counted: Vec<Option<String>>,
        lanes: &LeaseGroups,
        want: &Claim,
        now: Timestamp,
    ) -> Result<(ClaimBatch, Vec<Lease>), PgError> {
        let mut batch = ClaimBatch::default();
        let mut leases = Vec::with_capacity(claimed.len());
        for (index, (candidate, counted)) in claimed.into_iter().zip(counted).enumerate() {
            let (id, ready_ctid) = (candidate.job().id, candidate.ready_ctid);
            batch.dequeued.push(DequeuedJob { ready_ctid, id });
            let row = candidate.row.claimed(now);
            let shared = lanes.shared_lease(index);
            if shared.is_none() {
                batch.leases.push(OwnLease::new(&row, counted)?);
            }
            let may_have_steps = row.entry.epoch > 1 || row.entry.job.forked_from.is_some();
            self.lease_cache.insert(CachedLease {
                row: row.clone(),
                history: candidate.history,
                events: None,
                counted: !want.limits.is_empty(),
                steps: StepCount::known((!may_have_steps).then_some(0)),
                shared,
            });
            leases.push(lease(row, candidate.input, now.after(want.lease)));
        }
        Ok((batch, leases))
    }

    pub(super) async fn next_due_at(&self, since: Timestamp) -> Result<Option<Timestamp>, PgError> {
        Ok(self.first::<Option<Timestamp>>(sql::NEXT_DUE, &[&since]).await?.flatten())
    }

    /// Begins a transaction and locks the first due jobs of each lane in it.
    async fn lock_candidates(
        &self,
        want: &Claim,
        now: Timestamp,
    ) -> Result<(Transaction, Vec<Candidate>), PgError> {
        let rotation = self.rotation(want);
        // More heads of a lane than its queue has capacity for are of no use.
        let capacity = want.queue_capacity.as_ref().map_or(want.limit, QueueCapacity::most);
        let heads_max = want.limit.min(capacity);
        let mut heads_per_lane = rotation.heads_per_lane(want.limit).min(heads_max);
        let mut query = ClaimQuery::new(want, rotation, now, heads_per_lane);
        let mut continues = want.queue_capacity.is_none() && query.continue_after(rotation);
        let connection = self.database.connection().await?;
        let (transaction, mut rows) =
            connection.begin((sql::CLAIM_HEADS, &query.params()), None).await?;
        loop {
            let candidates = Candidates::read(&transaction, &rows).await?;
            rotation.set_lanes_seen(candidates.lane_count());
            let is_complete = candidates.jobs.len() >= want.limit
                || !continues
                    && (heads_per_lane >= heads_max || !candidates.has_full_lane(heads_per_lane));
            if is_complete {
                return Ok((transaction, candidates.jobs));
            }
            if continues {
                query.start_at_cursors();
            } else {
                heads_per_lane = heads_max;
                query.set_heads_per_lane(heads_per_lane);
            }
            continues = false;
            rows = transaction.query(sql::CLAIM_HEADS, &query.params()).await?;
        }
    }

    /// Returns the rotation of deliveries, which is round-robin over queues, or that of all other jobs.
    fn rotation(&self, want: &Claim) -> &Rotation {
        if want.queue_capacity.is_some() { &self.outboxes } else { &self.tenants }
    }

    /// Adds the steps that earlier attempts finished.
    async fn with_steps(
        &self,
        mut leases: Vec<Lease>,
        limited_until: Option<Timestamp>,
    ) -> Result<ClaimResult, PgError> {
        let may_have_steps = |lease: &&Lease| lease.epoch > 1 || lease.job.forked_from.is_some();
        let keys = leases.iter().filter(may_have_steps).map(|lease| job_key(&lease.job));
        let (tenants, ids): (Vec<TenantId>, Vec<JobId>) = keys.unzip();
        if !ids.is_empty() {
            let mut steps: HashMap<TenantJob, Vec<Step>> = HashMap::new();
            for (key, step) in self.all(sql::STEPS, &[&tenants, &ids]).await? {
                steps.entry(key).or_default().push(step);
            }
            for lease in &mut leases {
                lease.steps = steps.remove(&job_key(&lease.job)).unwrap_or_default();
            }
            for lease in leases.iter().filter(may_have_steps) {
                self.lease_cache.set_steps(lease);
            }
        }
        Ok(ClaimResult { leases, limited_until })
    }
}

fn lease(row: JobRow, input: Json, expires_at: Timestamp) -> Lease {
    Lease { epoch: row.entry.epoch, expires_at, input, steps: Vec::new(), job: row.entry.job }
}

columns! {
    /// A claimed job, in the order of the parameters of `claim_jobs.sql`.
    struct DequeuedJob => DequeuedJobs {
        ready_ctid: Option<String>,
        id: JobId,
    }
}

columns! {
    /// The lease of one job, in the order of the parameters of `claim_jobs.sql`.
    struct OwnLease => OwnLeases {
        tenant: TenantId,
        id: JobId,
        queue: Name,
        epoch: i64,
        version: i64,
        attempt: i32,
        started_at: Timestamp,
        code_version: Option<String>,
        progress: Option<String>,
        /// The limit scopes that count the lease.
        counted: Option<String>,
    }
}

impl OwnLease {
    fn new(row: &JobRow, counted: Option<String>) -> Result<Self, PgError> {
        let job = &row.entry.job;
        Ok(Self {
            tenant: job.tenant.clone(),
            id: job.id,
            queue: job.queue.clone(),
            epoch: int(row.entry.epoch),
            version: int(job.version),
            attempt: small(job.attempt),
            started_at: job.started_at.unwrap_or(job.created_at),
            code_version: job.code_version.as_deref().map(|text| without_nul(text).into_owned()),
            progress: job.progress.as_ref().map(to_json).transpose()?,
            counted,
        })
    }
}

/// The writes of a claim besides shared leases.
#[derive(Default)]
struct ClaimBatch {
    dequeued: DequeuedJobs,
    leases: OwnLeases,
}

impl ClaimBatch {
    fn params(&self) -> Vec<&dyn Param> {
        let mut params = self.dequeued.params();
        params.extend(self.leases.params());
        params
    }
}
