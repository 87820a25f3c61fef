//! Candidates of a claim: due jobs that are locked until the claim's transaction ends.

use std::collections::HashMap;

use tokio_postgres::Row as DbRow;

use super::quarantine::quarantine_ready;
use super::query::LANES_PER_QUERY;
use crate::job::{Job, Json, Name, TenantId};
use crate::store::columns::ReadColumns;
use crate::store::fairness::{CandidateSelector, RankedJob};
use crate::store::limits::{LimitCheck, LimitKey};
use crate::store::postgres::connection::columns::{Columns, unreadable};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::row::JobRow;
use crate::store::postgres::sql;

/// A due job that the claim may take.
pub(crate) struct Candidate {
    pub(crate) row: JobRow,
    pub(crate) input: Json,
    pub(crate) history: Option<String>,
    /// The ctid of the job's row in `ready`, valid as long as the transaction holds its lock.
    pub(crate) ready_ctid: Option<String>,
}

impl Candidate {
    /// Reads a row of `claim_heads.sql`. Returns none if the job has changed since its submission.
    fn read_new(row: &DbRow) -> Result<Option<Self>, PgError> {
        let mut columns = Columns::of(row);
        let job = JobRow::read_new(&mut columns)?;
        let (input, is_new, ready_ctid) = columns.get()?;
        Ok(Some(Self { row: job, input, history: None, ready_ctid }).filter(|_| is_new))
    }

    /// Reads a complete record.
    pub(crate) fn read(row: &DbRow) -> Result<Self, PgError> {
        let mut columns = Columns::of(row);
        let row = JobRow::read(&mut columns)?;
        let history = columns.get()?;
        // A pending job has neither events of a lease nor a result.
        let (_, _): (Option<String>, Option<String>) = columns.get()?;
        Ok(Self { row, input: columns.get()?, history, ready_ctid: None })
    }

    pub(crate) fn job(&self) -> &Job {
        &self.row.entry.job
    }
}

/// Records of candidates that have changed since their submission, for example because they are retried.
struct ChangedJobs(HashMap<(String, String), DbRow>);

impl ChangedJobs {
    async fn read(transaction: &Transaction, heads: &[DbRow]) -> Result<Self, PgError> {
        let is_changed = |head: &&DbRow| head.try_get("is_new").is_ok_and(|is_new: bool| !is_new);
        let keys = heads.iter().filter(is_changed).map(Self::key);
        let (tenants, ids): (Vec<String>, Vec<String>) = keys.unzip();
        if ids.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let records = transaction.query(sql::RECORDS, &[&tenants, &ids]).await?;
        Ok(Self(records.into_iter().map(|record| (Self::key(&record), record)).collect()))
    }

    fn key(row: &DbRow) -> (String, String) {
        let text = |column| row.try_get(column).unwrap_or_default();
        (text("tenant_id"), text("id"))
    }

    fn candidate(&self, head: &DbRow) -> Result<Candidate, PgError> {
        let record = self.0.get(&Self::key(head)).ok_or_else(|| unreadable("it has no record"))?;
        Ok(Candidate { ready_ctid: head.try_get("ready_ctid")?, ..Candidate::read(record)? })
    }
}

/// The candidates that one query returned.
pub(crate) struct Candidates {
    pub(crate) jobs: Vec<Candidate>,
    /// Number of jobs by tenant, queue, kind and priority.
    lanes: HashMap<(TenantId, Name, Name, i32), usize>,
}

impl Candidates {
    /// Reads the rows of `claim_heads.sql`, and the complete records of jobs that have changed since their
    /// submission. Quarantines unreadable ones.
    pub(crate) async fn read(transaction: &Transaction, rows: &[DbRow]) -> Result<Self, PgError> {
        let changed = ChangedJobs::read(transaction, rows).await?;
        let mut candidates = Self { jobs: Vec::with_capacity(rows.len()), lanes: HashMap::new() };
        for row in rows {
            let candidate = match Candidate::read_new(row) {
                Ok(None) => changed.candidate(row),
                Ok(Some(candidate)) => Ok(candidate),
                Err(error) => Err(error),
            };
            match candidate {
                Ok(candidate) => {
                    let job = candidate.job();
                    let (queue, kind) = (job.queue.clone(), job.kind.clone());
                    let lane = (job.tenant.clone(), queue, kind, job.priority);
                    *candidates.lanes.entry(lane).or_default() += 1;
                    candidates.jobs.push(candidate);
                }
                Err(error) => quarantine_ready(transaction, row, &error).await?,
            }
        }
        Ok(candidates)
    }

    pub(crate) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// Returns whether a lane may have more due jobs than the query read.
    pub(crate) fn has_full_lane(&self, heads_per_lane: usize) -> bool {
        self.lanes.values().any(|jobs| *jobs >= heads_per_lane)
    }

    /// Returns whether there may be lanes, or jobs in them, that the query did not reach. Lanes whose
    /// first jobs other claims have locked are missing here, but count against the query's limit.
    pub(crate) fn may_have_more(&self, heads_per_lane: usize) -> bool {
        self.lanes.len() * 2 >= LANES_PER_QUERY || self.has_full_lane(heads_per_lane)
    }
}

/// The candidates that a claim takes.
#[derive(Default)]
pub(crate) struct Selection {
    pub(crate) selected: Vec<Candidate>,
    /// Number of locked candidates that could have been taken too.
    pub(crate) left: usize,
}

impl Selection {
    /// Selects among the candidates, in the order in which they are taken.
    pub(crate) fn choose(
        candidates: Vec<Candidate>,
        selector: &mut CandidateSelector<'_>,
        limits: &mut LimitCheck<'_>,
    ) -> Self {
        let jobs: Vec<RankedJob<'_>> =
            candidates.iter().map(|candidate| RankedJob::of(candidate.job())).collect();
        let indices = selector.select(&jobs, limits);
        let mut rest: Vec<Option<Candidate>> = candidates.into_iter().map(Some).collect();
        let take = |index: usize| rest.get_mut(index).and_then(Option::take);
        let selected = indices.into_iter().filter_map(take).collect();
        let admitted = |one: &&Candidate| limits.admits(LimitKey::of(one.job()));
        let left = rest.iter().flatten().filter(admitted).count();
        Self { selected, left }
    }
}
