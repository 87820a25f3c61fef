//! Ready jobs of one tenant, read ahead in the order of claims.

use std::collections::VecDeque;

use rusqlite::params;

use super::limits::{ClaimLimits, LimitNames};
use crate::store::columns::from_columns;
use crate::store::fairness::ClaimCapacity;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// Growth factor of the read-ahead: many tenants with one job each cost one row each, and a single tenant
/// with all jobs costs few reads.
const READ_AHEAD_GROWTH: usize = 4;

/// The ready jobs of one tenant.
pub(crate) struct TenantCandidates<'a> {
    pub(crate) tenant: String,
    /// One per kind, because each kind has its own capacity; and one per queue, if any queue has a limit.
    by_kind: Vec<Candidates<'a>>,
}

/// Ready jobs of one kind, in the order of claims.
pub(crate) struct Candidates<'a> {
    kind: &'a str,
    source: CandidateSource,
    /// `None` if there are no limits.
    names: Option<LimitNames>,
    /// Read but not selected yet.
    jobs: VecDeque<Candidate>,
    /// Rank and id of the last job that was read.
    read_to: (i64, String),
    read_ahead: usize,
    /// True if the last read reached the end.
    exhausted: bool,
}

/// The jobs that candidates are read from.
pub(crate) enum CandidateSource {
    /// All jobs of a tenant.
    Tenant,
    /// One queue of a tenant.
    Queue(String),
    /// One queue of an outbox.
    Outbox(String),
}

/// A ready job. Ordered as jobs are claimed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: i64,
    id: String,
    seq: i64,
}

from_columns! {
    Candidate { seq, rank, id }
}

impl<'a> TenantCandidates<'a> {
    pub(crate) fn new(
        tx: &Tx<'_>,
        tenant: String,
        kinds: Vec<&'a str>,
        limits: &ClaimLimits<'_>,
    ) -> rusqlite::Result<Self> {
        let mut by_kind = Vec::with_capacity(kinds.len());
        for kind in kinds {
            if !limits.by_queue {
                by_kind.push(Candidates::new(
                    kind,
                    CandidateSource::Tenant,
                    limits.names(&tenant, kind, None),
                ));
                continue;
            }
            let mut last = String::new();
            let hop = |last: &str| tx.one(sql::NEXT_QUEUE, [kind, &tenant, last]);
            while let Some(queue) = hop(&last)? {
                last = queue;
                let names = limits.names(&tenant, kind, Some(&last));
                by_kind.push(Candidates::new(kind, CandidateSource::Queue(last.clone()), names));
            }
        }
        Ok(Self { tenant, by_kind })
    }

    /// Takes the job with the lowest rank, then id, of a kind that has capacity and is within its limits.
    pub(crate) fn pop(
        &mut self,
        tx: &Tx<'_>,
        capacity: &ClaimCapacity<'_>,
        limits: &mut ClaimLimits<'_>,
    ) -> rusqlite::Result<Option<(&'a str, i64)>> {
        let mut first: Option<&mut Candidates<'a>> = None;
        for lane in &mut self.by_kind {
            if !capacity.admits(lane.kind) {
                continue;
            }
            lane.fill(tx, &self.tenant)?;
            let Some(candidate) = lane.jobs.front() else { continue };
            let is_first = first
                .as_ref()
                .and_then(|first| first.jobs.front())
                .is_none_or(|least| candidate < least);
            if is_first && lane.is_admitted(tx, limits)? {
                first = Some(lane);
            }
        }
        let Some(lane) = first else { return Ok(None) };
        if let Some(names) = &lane.names {
            limits.reserve(names);
        }
        Ok(lane.jobs.pop_front().map(|candidate| (lane.kind, candidate.seq)))
    }
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(kind: &'a str, source: CandidateSource, names: Option<LimitNames>) -> Self {
        let read_to = (i64::MIN, String::new());
        Self {
            kind,
            source,
            names,
            jobs: VecDeque::new(),
            read_to,
            read_ahead: 1,
            exhausted: false,
        }
    }

    /// Takes the first job.
    pub(crate) fn pop(&mut self, tx: &Tx<'_>, tenant: &str) -> rusqlite::Result<Option<i64>> {
        self.fill(tx, tenant)?;
        Ok(self.jobs.pop_front().map(|candidate| candidate.seq))
    }

    fn is_admitted(&self, tx: &Tx<'_>, limits: &mut ClaimLimits<'_>) -> rusqlite::Result<bool> {
        self.names.as_ref().map_or(Ok(true), |names| limits.admit(tx, names))
    }

    /// Reads the next jobs if all that were read are selected.
    fn fill(&mut self, tx: &Tx<'_>, tenant: &str) -> rusqlite::Result<()> {
        if !self.jobs.is_empty() || self.exhausted {
            return Ok(());
        }
        let (rank, id) = &self.read_to;
        let ahead = limit(self.read_ahead);
        let (statement, queue) = match &self.source {
            CandidateSource::Tenant => (sql::READY_OF_TENANT, None),
            CandidateSource::Queue(queue) => (sql::READY_OF_QUEUE, Some(queue)),
            CandidateSource::Outbox(queue) => (sql::READY_OF_OUTBOX, Some(queue)),
        };
        let jobs: Vec<Candidate> = match queue {
            None => tx.all(statement, params![self.kind, tenant, rank, id, ahead])?,
            Some(queue) => tx.all(statement, params![self.kind, tenant, rank, id, ahead, queue])?,
        };
        self.exhausted = jobs.len() < self.read_ahead;
        if let Some(last) = jobs.last() {
            self.read_to = (last.rank, last.id.clone());
        }
        self.jobs = jobs.into();
        self.read_ahead = self.read_ahead.saturating_mul(READ_AHEAD_GROWTH);
        Ok(())
    }
}
