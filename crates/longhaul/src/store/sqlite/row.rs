//! A job's row: reading, inserting and writing back.
//!
//! A transition changes the row in memory by the pure rules of [`crate::job`] and writes it back with its
//! events in one statement.

use rusqlite::params;

use crate::job::{
    Event, Fingerprint, Job, Json, Name, PreviousState, Record, Retention, Status, TenantId,
    Timestamp, Tokens, Usage, UsageMeter,
};
use crate::store::fairness;
use crate::store::sqlite::connection::columns::{Columns, from_json, int, millis, to_json};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::maintenance::blobs;
use crate::store::sqlite::maintenance::usage;
use crate::store::sqlite::outbox;
use crate::store::sqlite::sql;
use crate::store::stored_job::StoredJob;

/// A stored job with its row id.
pub(crate) struct Row {
    pub(crate) seq: i64,
    pub(crate) stored: StoredJob,
    pub(crate) fingerprint: Fingerprint,
    /// Scopes whose limit counters include the lease.
    pub(crate) counted: Option<String>,
    /// Result, if the job has just completed.
    pub(crate) result: Option<Json>,
    /// Version and epoch as read. A write fails if they have changed.
    read_as: (u64, u64),
}

/// The position of a job in its queue.
struct QueuePosition {
    rank: Option<i64>,
    paused: bool,
}

impl Row {
    /// Creates a row that is not inserted yet.
    pub(crate) fn new(stored: StoredJob, fingerprint: Fingerprint) -> Self {
        Self { seq: 0, stored, fingerprint, counted: None, result: None, read_as: (0, 0) }
    }

    /// Reads a job by its row id.
    pub(crate) fn load(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<Self> {
        tx.one(sql::JOB, [seq], |row| Self::read(&mut Columns::of(row)))?
            .ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Inserts the row with its deliveries and sets `seq`. Returns false and writes nothing if the id or
    /// idempotency key exists.
    pub(crate) fn insert(&mut self, tx: &Tx<'_>) -> rusqlite::Result<bool> {
        let position = self.queue_position(tx)?;
        let (stored, job) = (&self.stored, &self.stored.job);
        let inserted = tx.run(
            sql::INSERT_JOB,
            params![
                job.tenant.as_str(),
                job.id.to_string(),
                job.kind.as_str(),
                job.queue.as_str(),
                job.status.as_str(),
                job.priority,
                position.rank,
                position.paused,
                job.attempt,
                job.max_attempts,
                stored.attempt_base,
                int(stored.epoch),
                int(job.version),
                to_json(&job.labels)?,
                job.idempotency_key,
                self.fingerprint.as_bytes(),
                job.created_at.as_millis(),
                job.run_at.as_millis(),
                job.timeout.map(millis),
                millis(stored.retention.completed),
                millis(stored.retention.failed),
                job.forked_from.map(|id| id.to_string()),
                job.parent_id.map(|id| id.to_string()),
                self.encoded_events()?,
                job.has_payload,
                stored.tally.key,
                int(stored.tally.payload_bytes),
                int(stored.tally.metered_steps),
                stored.webhook.as_ref().map(to_json).transpose()?,
            ],
        )?;
        self.seq = tx.conn.last_insert_rowid();
        if inserted == 1 {
            outbox::write_deliveries(tx, &self.stored, None)?;
        }
        Ok(inserted == 1)
    }

    /// Writes a transition: the row with its new events, the usage of a finished job, the expiry of its
    /// payload, and the webhook deliveries.
    pub(crate) fn save_transition(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        if self.stored.ended {
            self.meter(tx)?;
        }
        let position = self.queue_position(tx)?;
        let (stored, job) = (&self.stored, &self.stored.job);
        let saved = tx.run(
            sql::SAVE_JOB,
            params![
                self.seq,
                int(self.read_as.0),
                int(self.read_as.1),
                job.status.as_str(),
                job.phase,
                position.rank,
                job.attempt,
                job.max_attempts,
                stored.attempt_base,
                stored.charge,
                int(stored.epoch),
                stored.replica,
                stored.lease_until.map(Timestamp::as_millis),
                int(job.version),
                job.progress.as_ref().map(to_json).transpose()?,
                job.run_at.as_millis(),
                job.started_at.map(Timestamp::as_millis),
                job.completed_at.map(Timestamp::as_millis),
                job.expires_at.map(Timestamp::as_millis),
                job.cancel_requested_at.map(Timestamp::as_millis),
                job.error.as_ref().map(to_json).transpose()?,
                job.code_version,
                self.encoded_events()?,
                position.paused,
                self.counted,
                (!job.artifacts.is_empty()).then(|| to_json(&job.artifacts)).transpose()?,
                stored.tally.claimed_at.map(Timestamp::as_millis),
                int(stored.tally.run_ms),
                stored.tally.metered,
                int(stored.tally.metered_steps),
            ],
        )?;
        if saved != 1 {
            return Err(rusqlite::Error::StatementChangedRows(saved));
        }
        if stored.dooms_payload() {
            blobs::expire_payload_key(tx, &job.tenant, job.id)?;
        }
        outbox::write_deliveries(tx, &self.stored, self.result.as_ref())?;
        self.stored.written();
        self.read_as = (self.stored.job.version, self.stored.epoch);
        Ok(())
    }

    /// Records the usage of a finished job.
    fn meter(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        let steps = usage::count_steps(tx, self.seq, None)?;
        if let Some(used) = self.stored.meter(steps).filter(|used| *used != Usage::default()) {
            usage::add(tx, &self.stored.job, self.stored.tally.key.as_deref(), used);
        }
        Ok(())
    }

    /// Decrements the limit counters that include the lease. Call it before the end of the attempt is
    /// written.
    pub(crate) fn release_limits(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        if self.counted.take().is_some() {
            tx.run(sql::RELEASE_LIMITS, [self.seq])?;
        }
        Ok(())
    }

    /// Returns the position. Only a pending, due job in a queue that is not paused has a rank.
    fn queue_position(&self, tx: &Tx<'_>) -> rusqlite::Result<QueuePosition> {
        let Job { tenant, queue, status, run_at, priority, .. } = &self.stored.job;
        if *status != Status::Pending {
            return Ok(QueuePosition { rank: None, paused: false });
        }
        let is_paused = tx.one(sql::IS_PAUSED, [tenant.as_str(), queue.as_str()], |_| Ok(()))?;
        let paused = is_paused.is_some();
        let ready = *run_at <= tx.now && !paused;
        let rank = ready.then(|| fairness::rank(*run_at, *priority));
        Ok(QueuePosition { rank, paused })
    }

    /// Encodes the new events, one per line.
    fn encoded_events(&self) -> rusqlite::Result<Option<String>> {
        let lines: Vec<String> =
            self.stored.events.iter().map(to_json).collect::<Result<_, _>>()?;
        Ok((!lines.is_empty()).then(|| lines.join("\n")))
    }

    /// Returns the record of a job that was just inserted.
    pub(crate) fn into_new_record(self) -> Record {
        Record { job: self.stored.job, result: None, history: self.stored.events }
    }

    /// Returns the job with its result and history.
    pub(crate) fn into_record(self, tx: &Tx<'_>) -> rusqlite::Result<Record> {
        let history = tx.one(sql::HISTORY, [self.seq], |row| row.get::<_, String>(0))?;
        let history = history.unwrap_or_default();
        let history = read_history(&history, &self.stored.job);
        let result = match self.stored.job.status {
            Status::Completed => tx.one(sql::RESULT, [self.seq], |row| Columns::of(row).json())?,
            Status::Pending
            | Status::Running
            | Status::Waiting
            | Status::Failed
            | Status::Cancelled => None,
        };
        Ok(Record { job: self.stored.job, result, history })
    }

    /// Reads the columns of `job.sql`.
    fn read(columns: &mut Columns<'_>) -> rusqlite::Result<Self> {
        let job = read_job(columns)?;
        let seq = columns.get()?;
        let attempt_base = columns.get()?;
        let charge = columns.get()?;
        let epoch = columns.count()?;
        let read_as = (job.version, epoch);
        let stored = StoredJob {
            before: Some(PreviousState::of(&job)),
            job,
            attempt_base,
            charge,
            epoch,
            replica: columns.get()?,
            lease_until: columns.opt_at()?,
            retention: Retention { completed: columns.duration()?, failed: columns.duration()? },
            tally: UsageMeter::default(),
            ended: false,
            webhook: None,
            events: Vec::new(),
        };
        let fingerprint = Fingerprint::from_bytes(columns.get()?);
        let counted = columns.get()?;
        let tally = read_tally(columns)?;
        let stored = StoredJob { tally, webhook: columns.opt_json()?, ..stored };
        Ok(Self { seq, stored, fingerprint, counted, result: None, read_as })
    }
}

// The fields are evaluated in this order, which is the order of the columns.
fn read_tally(columns: &mut Columns<'_>) -> rusqlite::Result<UsageMeter> {
    Ok(UsageMeter {
        key: columns.get()?,
        claimed_at: columns.opt_at()?,
        run_ms: columns.count()?,
        payload_bytes: columns.count()?,
        metered: columns.get()?,
        metered_steps: columns.count()?,
        tokens: Tokens::default(),
    })
}

/// Decodes the history. An unreadable event is skipped, so that it does not hide the job.
fn read_history(lines: &str, job: &Job) -> Vec<Event> {
    let events: Vec<Event> = lines.lines().filter_map(|line| from_json(line).ok()).collect();
    let unreadable = lines.lines().count() - events.len();
    if unreadable > 0 {
        tracing::warn!(job.id = %job.id, tenant.id = %job.tenant, unreadable, "skipped unreadable events of a job's history");
    }
    events
}

// The fields are evaluated in this order, which is the order of the columns.
fn read_job(columns: &mut Columns<'_>) -> rusqlite::Result<Job> {
    Ok(Job {
        tenant: columns.text(TenantId::stored)?,
        id: columns.text(|text| text.parse().ok())?,
        kind: columns.text(|text| Name::new(text).ok())?,
        queue: columns.text(|text| Name::new(text).ok())?,
        status: columns.text(Status::parse)?,
        phase: columns.get()?,
        priority: columns.get()?,
        attempt: columns.get()?,
        max_attempts: columns.get()?,
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
