//! A job's row: reading, inserting and writing back.
//!
//! A transition changes the row in memory by the pure rules of [`crate::job`] and writes it back with its
//! events in one statement.

use rusqlite::params;

use crate::job::{Fingerprint, Job, Json, Record, Status, Timestamp, Usage};
use crate::store::columns::{FromRow, ReadColumns};
use crate::store::fairness;
use crate::store::rows;
use crate::store::sqlite::connection::columns::{int, millis, to_json};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::maintenance::blobs;
use crate::store::sqlite::maintenance::usage;
use crate::store::sqlite::outbox;
use crate::store::sqlite::sql;
use crate::store::stored_job::StoredJob;

/// A stored job with its row id.
pub(crate) struct JobRow {
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

impl JobRow {
    /// Creates a row that is not inserted yet.
    pub(crate) fn new(stored: StoredJob, fingerprint: Fingerprint) -> Self {
        Self { seq: 0, stored, fingerprint, counted: None, result: None, read_as: (0, 0) }
    }

    /// Reads a job by its row id.
    pub(crate) fn load(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<Self> {
        tx.one(sql::JOB, [seq])?.ok_or(rusqlite::Error::QueryReturnedNoRows)
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
        let paused = tx.exists(sql::IS_PAUSED, [tenant.as_str(), queue.as_str()])?;
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
        let lines: Option<String> = tx.one(sql::HISTORY, [self.seq])?;
        let history = rows::history(&lines.unwrap_or_default(), &self.stored.job);
        let result = self.load_result(tx)?;
        Ok(Record { job: self.stored.job, result, history })
    }

    /// Returns the result of a completed job.
    pub(crate) fn load_result(&self, tx: &Tx<'_>) -> rusqlite::Result<Option<Json>> {
        if self.stored.job.status != Status::Completed {
            return Ok(None);
        }
        tx.one(sql::RESULT, [self.seq])
    }
}

/// Reads the columns of `job.sql`.
impl FromRow for JobRow {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let mut stored: StoredJob = columns.get()?;
        let claimed_at = columns.get()?;
        stored.tally = rows::usage_meter(columns, claimed_at)?;
        stored.webhook = columns.get()?;
        Ok(Self {
            read_as: (stored.job.version, stored.epoch),
            stored,
            seq: columns.get()?,
            fingerprint: Fingerprint::from_bytes(columns.get()?),
            counted: columns.get()?,
            result: None,
        })
    }
}
