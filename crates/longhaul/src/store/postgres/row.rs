//! A job's row and its history.

use tokio_postgres::Row as DbRow;

use super::connection::columns::{Columns, to_json};
use super::connection::error::PgError;
use crate::job::{
    Event, Job, Name, PreviousState, Record, Retention, Status, TenantId, Timestamp, Tokens,
    UsageMeter,
};
use crate::store::LeaseRef;
use crate::store::stored_job::StoredJob;

/// Size in bytes above which a history is cut to [`HISTORY_KEPT`] before events are appended.
const HISTORY_MAX: usize = 256 * 1024;
/// Maximum size in bytes of a cut history. Whole lines are kept, the newest ones.
const HISTORY_KEPT: usize = 128 * 1024;

/// A stored job as it was read.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) entry: StoredJob,
    /// Version and epoch in the database, which a write must still find there.
    pub(super) read_as: (u64, u64),
    /// Due time as it was read: part of the first event, until there is a history.
    run_at: Timestamp,
    /// The claim's event, which is not stored because it follows from the lease.
    claim: Option<Event>,
}

impl Row {
    /// Reads the columns of the view `entries`.
    ///
    /// The columns after `claimed_at` are found by name. Further columns are left to the caller.
    pub(super) fn read(columns: &mut Columns<'_>) -> Result<Self, PgError> {
        let job = read_job(columns)?;
        let mut entry = StoredJob {
            before: Some(PreviousState::of(&job)),
            attempt_base: columns.small()?,
            charge: columns.get()?,
            epoch: columns.count()?,
            replica: columns.get()?,
            lease_until: columns.opt_at()?,
            retention: Retention { completed: columns.duration()?, failed: columns.duration()? },
            tally: UsageMeter::default(),
            ended: false,
            webhook: None,
            events: Vec::new(),
            job,
        };
        let (settled_version, claimed_at) = (columns.count()?, columns.opt_at()?);
        let mut rest = columns.clone();
        entry.tally = read_tally(&mut rest, claimed_at)?;
        entry.webhook = rest.opt_json()?;
        let claim = claimed_at.map(|at| claim_event(&entry, settled_version + 1, at));
        let read_as = (entry.job.version, entry.epoch);
        Ok(Self { read_as, run_at: entry.job.run_at, claim, entry })
    }

    /// Reads a row that has no other columns.
    pub(super) fn from(row: &DbRow) -> Result<Self, PgError> {
        Self::read(&mut Columns::of(row))
    }

    /// Returns the row after its claim was written, with the claim's event derived from the lease.
    pub(super) fn claimed(mut self, now: Timestamp) -> Self {
        self.claim = Some(claim_event(&self.entry, self.entry.job.version, now));
        self.entry.written();
        self.read_as = (self.entry.job.version, self.entry.epoch);
        self
    }

    /// Returns whether this lease is the job's current one.
    pub(super) fn is_leased_by(&self, lease: &LeaseRef) -> bool {
        self.entry.job.status == Status::Running && self.entry.epoch == lease.epoch
    }

    /// Returns all stored events, one per line: those of earlier attempts, the claim, and the events of
    /// the running attempt.
    fn stored_history(
        &self,
        settled: Option<&str>,
        since: Option<&str>,
    ) -> Result<String, PgError> {
        let mut lines = match settled {
            Some(lines) => lines.to_owned(),
            None => to_json(&self.acceptance())?,
        };
        if let Some(claim) = &self.claim {
            push_line(&mut lines, &to_json(claim)?);
        }
        if let Some(since) = since {
            push_line(&mut lines, since);
        }
        Ok(lines)
    }

    /// Returns the stored history with the events that are not stored yet.
    pub(super) fn full_history(
        &self,
        settled: Option<&str>,
        since: Option<&str>,
    ) -> Result<String, PgError> {
        append(Some(&self.stored_history(settled, since)?), &self.entry.events)
    }

    /// Returns the first event of a job that has had no attempt yet.
    fn acceptance(&self) -> Event {
        Event {
            version: 1,
            at: self.entry.job.created_at,
            status: Status::Pending,
            attempt: 0,
            phase: None,
            replica: None,
            run_at: Some(self.run_at),
            error: None,
        }
    }

    /// Returns the record of a job that was just accepted.
    pub(super) fn new_record(entry: StoredJob) -> Record {
        Record { job: entry.job, result: None, history: entry.events }
    }

    /// Reads a row of `records.sql`.
    pub(super) fn record(row: &DbRow) -> Result<Record, PgError> {
        let mut columns = Columns::of(row);
        let read = Self::read(&mut columns)?;
        let (settled, since) = (columns.get()?, columns.get()?);
        let history = read_history(&read.stored_history(settled, since)?, &read.entry.job);
        let has_result = read.entry.job.status == Status::Completed;
        let result = if has_result { Some(columns.json()?) } else { None };
        Ok(Record { job: read.entry.job, result, history })
    }
}

/// Reads the usage meter. The fields are evaluated in this order, which is the order of the columns.
fn read_tally(
    columns: &mut Columns<'_>,
    claimed_at: Option<Timestamp>,
) -> Result<UsageMeter, PgError> {
    columns.seek("key_id")?;
    Ok(UsageMeter {
        key: columns.get()?,
        claimed_at,
        run_ms: columns.count()?,
        payload_bytes: columns.count()?,
        metered: columns.get()?,
        metered_steps: columns.count()?,
        tokens: Tokens::default(),
    })
}

fn claim_event(entry: &StoredJob, version: u64, at: Timestamp) -> Event {
    Event {
        version,
        at,
        status: Status::Running,
        attempt: entry.job.attempt,
        phase: None,
        replica: entry.replica.clone(),
        run_at: None,
        error: None,
    }
}

/// Appends events, one per line, after cutting a history that is too long.
pub(super) fn append(lines: Option<&str>, events: &[Event]) -> Result<String, PgError> {
    let mut lines = cut(lines.unwrap_or_default()).to_owned();
    for event in events {
        push_line(&mut lines, &to_json(event)?);
    }
    Ok(lines)
}

fn push_line(lines: &mut String, line: &str) {
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines.push_str(line);
}

/// Returns the newest whole lines of a history that is too long.
fn cut(lines: &str) -> &str {
    if lines.len() <= HISTORY_MAX {
        return lines;
    }
    let from = lines.len() - HISTORY_KEPT;
    let next_line = lines.as_bytes().iter().skip(from).position(|byte| *byte == b'\n');
    next_line.and_then(|skipped| lines.get(from + skipped + 1..)).unwrap_or_default()
}

/// Decodes the history. An unreadable event is skipped, so that it does not hide the job.
fn read_history(lines: &str, job: &Job) -> Vec<Event> {
    let parsed = lines.lines().map(serde_json::from_str);
    let events: Vec<Event> = parsed.filter_map(Result::ok).collect();
    let unreadable = lines.lines().count() - events.len();
    if unreadable > 0 {
        tracing::warn!(job.id = %job.id, tenant.id = %job.tenant, unreadable, "events of a job's history cannot be read");
    }
    events
}

/// Reads the job. The fields are evaluated in this order, which is the order of the columns.
fn read_job(columns: &mut Columns<'_>) -> Result<Job, PgError> {
    Ok(Job {
        tenant: columns.text(TenantId::stored)?,
        id: columns.id()?,
        kind: columns.text(|text| Name::new(text).ok())?,
        queue: columns.text(|text| Name::new(text).ok())?,
        status: columns.text(Status::parse)?,
        phase: columns.get()?,
        priority: columns.get()?,
        attempt: columns.small()?,
        max_attempts: columns.small()?,
        progress: columns.opt_json()?,
        labels: columns.opt_json()?.unwrap_or_default(),
        version: columns.count()?,
        idempotency_key: columns.get()?,
        created_at: columns.at()?,
        run_at: columns.at()?,
        started_at: columns.opt_at()?,
        completed_at: columns.opt_at()?,
        expires_at: columns.opt_at()?,
        error: columns.opt_json()?,
        cancel_requested_at: columns.opt_at()?,
        timeout: columns.opt_duration()?,
        code_version: columns.get()?,
        forked_from: columns.opt_id()?,
        parent_id: columns.opt_id()?,
        has_payload: columns.get()?,
        artifacts: columns.opt_json()?.unwrap_or_default(),
    })
}
