//! A job's row and its history.

use tokio_postgres::Row as DbRow;

use super::connection::columns::{Columns, to_json};
use super::connection::error::PgError;
use crate::job::{Event, Job, Record, Status, Timestamp, UsageMeter};
use crate::store::LeaseRef;
use crate::store::columns::ReadColumns;
use crate::store::rows;
use crate::store::stored_job::StoredJob;

/// Size in bytes above which a history is cut to [`HISTORY_KEPT`] before events are appended.
const HISTORY_MAX: usize = 256 * 1024;
/// Maximum size in bytes of a cut history. Whole lines are kept, the newest ones.
const HISTORY_KEPT: usize = 128 * 1024;

/// A stored job as it was read.
#[derive(Debug, Clone)]
pub(super) struct JobRow {
    pub(super) entry: StoredJob,
    /// Version and epoch in the database, which a write must still find there.
    pub(super) read_as: (u64, u64),
    /// Due time as it was read: part of the first event, until there is a history.
    run_at: Timestamp,
    /// The event of the last claim, which is not stored because it follows from the lease or the final state.
    claim: Option<Event>,
    /// The final event, if the job was read as finished.
    end: Option<Event>,
    /// True if the job was read with a shared lease, which has to be split before the job is written.
    pub(super) is_lease_shared: bool,
}

impl JobRow {
    /// Reads the columns of the view `entries`.
    ///
    /// The columns after `claimed_at` are found by name. Further columns are left to the caller.
    pub(super) fn read(columns: &mut Columns<'_>) -> Result<Self, PgError> {
        let mut entry: StoredJob = columns.get()?;
        let (settled_version, claimed_at): (u64, _) = columns.get()?;
        let mut rest = columns.clone();
        entry.tally = rows::usage_meter(rest.seek("key_id")?, claimed_at)?;
        entry.webhook = rest.get()?;
        let is_lease_shared = rest.get()?;
        let claim = claimed_at.map(|at| claim_event(&entry, settled_version + 1, at));
        let mut end = None;
        if let Some(at) = entry.job.completed_at {
            // The replica and time of the last claim are those of its event only.
            let replica = entry.replica.take();
            entry.tally.claimed_at = None;
            end = Some(end_event(&entry.job, replica, at));
        }
        let read_as = (entry.job.version, entry.epoch);
        Ok(Self { read_as, run_at: entry.job.run_at, claim, end, is_lease_shared, entry })
    }

    /// Reads the columns of `claim_heads.sql` that a submission has written, as a job that has not changed since.
    pub(super) fn read_new(columns: &mut Columns<'_>) -> Result<Self, PgError> {
        let (tenant, id) = columns.get()?;
        let (kind, queue) = columns.get()?;
        let (priority, max_attempts) = columns.get()?;
        let (labels, idempotency_key) = columns.get()?;
        let (created_at, run_at) = columns.get()?;
        let (timeout, parent_id, has_payload) = columns.get()?;
        let retention = columns.get()?;
        let (key, payload_bytes) = columns.get()?;
        let webhook = columns.get()?;
        let job = Job {
            tenant,
            id,
            kind,
            queue,
            status: Status::Pending,
            phase: None,
            priority,
            attempt: 0,
            max_attempts,
            progress: None,
            labels,
            version: 1,
            idempotency_key,
            created_at,
            run_at,
            started_at: None,
            completed_at: None,
            expires_at: None,
            error: None,
            cancel_requested_at: None,
            timeout,
            code_version: None,
            forked_from: None,
            parent_id,
            has_payload,
            artifacts: Vec::new(),
        };
        let tally = UsageMeter { key, payload_bytes, ..UsageMeter::default() };
        Ok(Self::submitted(StoredJob::new(job, retention, tally, webhook)))
    }

    /// Reads a row that has no other columns.
    pub(super) fn from(row: &DbRow) -> Result<Self, PgError> {
        Self::read(&mut Columns::of(row))
    }

    /// Returns the row of a job that is being submitted.
    pub(super) fn submitted(entry: StoredJob) -> Self {
        let read_as = (entry.job.version, entry.epoch);
        let run_at = entry.job.run_at;
        Self { read_as, run_at, claim: None, end: None, is_lease_shared: false, entry }
    }

    /// Returns the row after its claim was written, with the claim's event derived from the lease.
    pub(super) fn claimed(mut self, now: Timestamp) -> Self {
        self.claim = Some(claim_event(&self.entry, self.entry.job.version, now));
        self.entry.written();
        self.read_as = (self.entry.job.version, self.entry.epoch);
        self
    }

    /// Returns whether the state of a claimed job follows from its claim, so that it needs no lease of its own: in
    /// its first attempt, if nothing changed the job before.
    pub(super) fn may_share_lease(&self) -> bool {
        let StoredJob { job, epoch, .. } = &self.entry;
        *epoch == 1
            && job.version == 2
            && job.attempt == 1
            && job.cancel_requested_at.is_none()
            && job.forked_from.is_none()
            && !job.has_payload
    }

    /// Returns whether this lease is the job's current one.
    pub(super) fn is_leased_by(&self, lease: &LeaseRef) -> bool {
        self.entry.job.status == Status::Running && self.entry.epoch == lease.epoch
    }

    /// Returns all stored events, one per line: those of earlier attempts, the claim, and the events since.
    pub(super) fn stored_history(
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
        match (since, &self.end) {
            (Some(since), _) => push_line(&mut lines, since),
            (None, Some(end)) => push_line(&mut lines, &to_json(end)?),
            (None, None) => {}
        }
        Ok(lines)
    }

    /// Returns the events since the claim of a job that has just finished, `since` and those that are not
    /// stored yet. `None` if there is only the final one, which follows from the job's final state.
    pub(super) fn final_events(&self, since: Option<&str>) -> Result<Option<String>, PgError> {
        let job = &self.entry.job;
        let replica = self.claim.as_ref().and_then(|claim| claim.replica.clone());
        let end = job.completed_at.map(|at| end_event(job, replica, at));
        if since.is_none() && self.entry.events.iter().eq(end.iter()) {
            return Ok(None);
        }
        append(since, &self.entry.events).map(Some)
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
        let (settled, since): (Option<String>, Option<String>) = columns.get()?;
        let lines = read.stored_history(settled.as_deref(), since.as_deref())?;
        let history = rows::history(&lines, &read.entry.job);
        let has_result = read.entry.job.status == Status::Completed;
        let result = if has_result { Some(columns.get()?) } else { None };
        Ok(Record { job: read.entry.job, result, history })
    }
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

/// Returns the final event of a finished job that was last claimed by `replica`.
fn end_event(job: &Job, replica: Option<String>, at: Timestamp) -> Event {
    Event {
        version: job.version,
        at,
        status: job.status,
        attempt: job.attempt,
        phase: None,
        replica,
        run_at: None,
        error: job.error.clone().filter(|_| job.status == Status::Failed),
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
    if !lines.is_empty() && !line.is_empty() {
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
