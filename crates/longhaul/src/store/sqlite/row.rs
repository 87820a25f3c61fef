//! A job's row: reading, inserting and writing back.
//!
//! A transition changes the row in memory by the pure rules of [`crate::job`]. What is written back depends on
//! the statuses before and after it: a claim moves the job from `ready` to `leases`, an end from there to
//! `finished`. Only a job that returns to the queue is rewritten in `jobs`.

use rusqlite::params;

use crate::job::{Fingerprint, Job, Json, Record, Status, Timestamp, Usage};
use crate::store::columns::{FromRow, ReadColumns};
use crate::store::fairness;
use crate::store::rows;
use crate::store::sqlite::connection::columns::{int, millis, to_json};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::history::{self, DerivedEvents};
use crate::store::sqlite::maintenance::blobs;
use crate::store::sqlite::maintenance::usage;
use crate::store::sqlite::outbox;
use crate::store::sqlite::sql;
use crate::store::stored_job::StoredJob;

/// Length in bytes above which an input has a row of its own, because a job that returns to the queue rewrites
/// its row in `jobs`.
const INPUT_INLINE_MAX: usize = 1024;

/// A stored job with its row id.
#[derive(Clone)]
pub(crate) struct JobRow {
    pub(crate) seq: i64,
    pub(crate) stored: StoredJob,
    pub(crate) fingerprint: Fingerprint,
    /// Scopes whose limit counters include the lease.
    pub(crate) counted: Option<String>,
    /// Result, if the job has just completed.
    pub(crate) result: Option<Json>,
    /// Number of finished steps, if it is known without counting them.
    pub(crate) steps: Option<u64>,
    derived: DerivedEvents,
    /// True if the lease has events since the claim.
    has_events: bool,
    /// Version, epoch and status as read. A write fails if version or epoch have changed.
    read_as: (u64, u64, Status),
}

/// Returns whether any queue is paused, because most servers have none, and every submission depends on it.
fn has_paused_queues(tx: &Tx<'_>) -> rusqlite::Result<bool> {
    if let Some(cached) = tx.caches.has_paused_queues.get() {
        return Ok(cached);
    }
    let found = tx.exists(sql::ANY_PAUSED, [])?;
    tx.caches.has_paused_queues.set(Some(found));
    Ok(found)
}

/// The position of a job in its queue.
struct QueuePosition {
    rank: Option<i64>,
    paused: bool,
}

impl JobRow {
    /// Creates a row that is not inserted yet.
    pub(crate) fn new(stored: StoredJob, fingerprint: Fingerprint) -> Self {
        let derived = DerivedEvents::of(&stored.job, 0, None, None);
        Self {
            seq: 0,
            stored,
            fingerprint,
            counted: None,
            result: None,
            steps: None,
            derived,
            has_events: false,
            read_as: (0, 0, Status::Pending),
        }
    }

    /// Reads a job by its row id.
    pub(crate) fn load(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<Self> {
        tx.one(sql::JOB, [seq])?.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Reads a pending job by its row id, with its input.
    pub(crate) fn load_pending(tx: &Tx<'_>, seq: i64) -> rusqlite::Result<(Self, Json)> {
        tx.one(sql::PENDING_JOB, [seq])?.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Inserts the row with its input and deliveries and sets `seq`. Returns false and writes nothing if the id
    /// or idempotency key exists.
    pub(crate) fn insert(&mut self, tx: &Tx<'_>, input: &Json) -> rusqlite::Result<bool> {
        let (stored, job) = (&self.stored, &self.stored.job);
        let input = input.as_str();
        let is_inline = input.len() <= INPUT_INLINE_MAX;
        let inserted = tx.run(
            sql::INSERT_JOB,
            params![
                job.tenant.as_str(),
                job.id.to_string(),
                job.kind.as_str(),
                job.queue.as_str(),
                job.priority,
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
                job.has_payload,
                stored.tally.key,
                int(stored.tally.payload_bytes),
                int(stored.tally.metered_steps),
                stored.webhook.as_ref().map(to_json).transpose()?,
                is_inline.then_some(input),
            ],
        )?;
        if inserted == 0 {
            return Ok(false);
        }
        self.seq = tx.conn.last_insert_rowid();
        if !is_inline {
            tx.run(sql::INSERT_INPUT, params![self.seq, input])?;
        }
        self.enqueue(tx)?;
        outbox::write_deliveries(tx, &self.stored, None)?;
        Ok(true)
    }

    /// Writes a transition: the changed state with its new events, the usage of a finished job, the expiry of
    /// its payload, and the webhook deliveries.
    pub(crate) fn save_transition(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        tx.caches.leases.borrow_mut().forget(&self.stored.job);
        let (_, _, was) = self.read_as;
        let is = self.stored.job.status;
        if self.stored.ended {
            self.meter(tx)?;
        }
        if (was, is) == (Status::Running, Status::Running) {
            self.save_lease(tx)?;
        } else {
            // Read before the rows that they are in are deleted.
            let events =
                if self.needs_events(is) { tx.one(sql::HISTORY, [self.seq])? } else { None };
            let (settled, since): (Option<String>, Option<String>) = events.unwrap_or_default();
            self.leave(tx, was)?;
            match is {
                Status::Running => self.insert_lease(tx)?,
                Status::Completed | Status::Failed | Status::Cancelled => {
                    self.insert_finished(tx, since.as_deref())?;
                }
                Status::Pending | Status::Waiting => {
                    self.save_job(tx, settled.as_deref(), since.as_deref())?;
                    self.enqueue(tx)?;
                }
            }
        }
        let job = &self.stored.job;
        if self.stored.dooms_payload() {
            blobs::expire_payload_key(tx, &job.tenant, job.id)?;
        }
        outbox::write_deliveries(tx, &self.stored, self.result.as_ref())?;
        self.stored.written();
        self.read_as = (self.stored.job.version, self.stored.epoch, is);
        Ok(())
    }

    /// Returns whether a transition to `status` needs the stored events: a claim does not, nor does an end whose
    /// event follows from the final state.
    fn needs_events(&self, status: Status) -> bool {
        match status {
            Status::Running => false,
            Status::Completed | Status::Failed | Status::Cancelled => self.has_events,
            Status::Pending | Status::Waiting => true,
        }
    }

    /// Deletes the row of the status that the job leaves.
    fn leave(&self, tx: &Tx<'_>, status: Status) -> rusqlite::Result<()> {
        let (version, epoch, _) = self.read_as;
        let deleted = match status {
            Status::Running => {
                tx.run(sql::DELETE_LEASE, params![self.seq, int(version), int(epoch)])?
            }
            Status::Pending | Status::Waiting => {
                let Job { tenant, id, .. } = &self.stored.job;
                tx.run(sql::DEQUEUE, [tenant.as_str(), &id.to_string()])?
            }
            Status::Completed | Status::Failed | Status::Cancelled => {
                tx.run(sql::DELETE_FINISHED, [self.seq])?
            }
        };
        expect_one(deleted)
    }

    fn enqueue(&self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        let job = &self.stored.job;
        let position = self.queue_position(tx)?;
        let id = job.id.to_string();
        let (tenant, kind, queue) = (job.tenant.as_str(), job.kind.as_str(), job.queue.as_str());
        let (run_at, QueuePosition { rank, paused }) = (job.run_at.as_millis(), position);
        let row = params![tenant, id, self.seq, kind, queue, job.priority, run_at, rank, paused];
        tx.run(sql::ENQUEUE, row)?;
        Ok(())
    }

    fn insert_lease(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        let (stored, job) = (&self.stored, &self.stored.job);
        let (settled_version, _, _) = self.read_as;
        let (replica, claimed_at) = (stored.replica.as_deref(), stored.tally.claimed_at);
        self.derived = DerivedEvents::of(job, settled_version, replica, claimed_at);
        tx.run(
            sql::INSERT_LEASE,
            params![
                self.seq,
                int(stored.epoch),
                int(job.version),
                job.attempt,
                stored.replica,
                stored.tally.claimed_at.map(Timestamp::as_millis),
                stored.lease_until.map(Timestamp::as_millis),
                job.started_at.map(Timestamp::as_millis),
                job.cancel_requested_at.map(Timestamp::as_millis),
                job.tenant.as_str(),
                job.id.to_string(),
                job.queue.as_str(),
                job.code_version,
                self.counted,
                job.progress.as_ref().map(to_json).transpose()?,
            ],
        )?;
        Ok(())
    }

    fn save_lease(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        let (stored, job) = (&self.stored, &self.stored.job);
        let (version, epoch, _) = self.read_as;
        let has_new = !stored.events.is_empty();
        let saved = tx.run(
            sql::SAVE_LEASE,
            params![
                self.seq,
                int(version),
                int(epoch),
                int(job.version),
                job.phase,
                job.progress.as_ref().map(to_json).transpose()?,
                job.cancel_requested_at.map(Timestamp::as_millis),
                has_new.then(|| history::append(None, &stored.events)).transpose()?,
            ],
        )?;
        self.has_events |= has_new;
        expect_one(saved)
    }

    fn save_job(
        &self,
        tx: &Tx<'_>,
        settled: Option<&str>,
        since: Option<&str>,
    ) -> rusqlite::Result<()> {
        let (stored, job) = (&self.stored, &self.stored.job);
        let lines = self.derived.lines(settled, since)?;
        let saved = tx.run(
            sql::SAVE_JOB,
            params![
                self.seq,
                int(self.derived.settled_version()),
                int(job.version),
                job.attempt,
                job.max_attempts,
                stored.attempt_base,
                stored.charge,
                int(stored.epoch),
                job.progress.as_ref().map(to_json).transpose()?,
                job.run_at.as_millis(),
                job.started_at.map(Timestamp::as_millis),
                job.cancel_requested_at.map(Timestamp::as_millis),
                job.error.as_ref().map(to_json).transpose()?,
                job.code_version,
                int(stored.tally.run_ms),
                stored.tally.metered,
                int(stored.tally.metered_steps),
                history::append(Some(&lines), &stored.events)?,
            ],
        )?;
        expect_one(saved)
    }

    fn insert_finished(&self, tx: &Tx<'_>, since: Option<&str>) -> rusqlite::Result<()> {
        let (stored, job) = (&self.stored, &self.stored.job);
        let is_derived = !self.has_events && self.derived.is_end(job, &stored.events);
        let events = (!is_derived).then(|| history::append(since, &stored.events)).transpose()?;
        let claim = self.derived.claim();
        tx.run(
            sql::FINISH_JOB,
            params![
                self.seq,
                job.tenant.as_str(),
                job.id.to_string(),
                job.status.as_str(),
                int(stored.epoch),
                int(job.version),
                job.attempt,
                claim.and_then(|claim| claim.replica.as_deref()),
                claim.map(|claim| claim.at.as_millis()),
                job.started_at.map(Timestamp::as_millis),
                job.completed_at.map(Timestamp::as_millis),
                job.expires_at.map(Timestamp::as_millis),
                job.cancel_requested_at.map(Timestamp::as_millis),
                int(stored.tally.metered_steps),
                job.code_version,
                job.progress.as_ref().map(to_json).transpose()?,
                job.error.as_ref().map(to_json).transpose()?,
                (!job.artifacts.is_empty()).then(|| to_json(&job.artifacts)).transpose()?,
                self.result.as_ref().map(Json::as_str),
                events,
            ],
        )?;
        Ok(())
    }

    /// Records the usage of a finished job.
    fn meter(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        let steps = match self.steps {
            Some(steps) => steps,
            None => usage::count_steps(tx, self.seq, None)?,
        };
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

    /// Returns the position. Only a due job in a queue that is not paused has a rank.
    fn queue_position(&self, tx: &Tx<'_>) -> rusqlite::Result<QueuePosition> {
        let Job { tenant, queue, run_at, priority, .. } = &self.stored.job;
        let paused = has_paused_queues(tx)?
            && tx.exists(sql::IS_PAUSED, [tenant.as_str(), queue.as_str()])?;
        let ready = *run_at <= tx.now && !paused;
        let rank = ready.then(|| fairness::rank(*run_at, *priority));
        Ok(QueuePosition { rank, paused })
    }

    /// Returns the record of a job that was just inserted.
    pub(crate) fn into_new_record(self) -> Record {
        Record { job: self.stored.job, result: None, history: self.stored.events }
    }

    /// Returns the stored history of the job, one event per line.
    pub(crate) fn history(&self, tx: &Tx<'_>) -> rusqlite::Result<String> {
        let events = tx.one(sql::HISTORY, [self.seq])?;
        let (settled, since): (Option<String>, Option<String>) = events.unwrap_or_default();
        self.derived.lines(settled.as_deref(), since.as_deref())
    }
}

fn expect_one(rows: usize) -> rusqlite::Result<()> {
    if rows == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(rows)) }
}

/// Reads the columns of `job.sql`.
impl FromRow for JobRow {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let mut stored: StoredJob = columns.get()?;
        let claimed_at = columns.get()?;
        stored.tally = rows::usage_meter(columns, claimed_at)?;
        stored.webhook = columns.get()?;
        let (seq, fingerprint, counted) = columns.get()?;
        let (settled_version, has_events) = columns.get()?;
        let replica = stored.replica.as_deref();
        let derived = DerivedEvents::of(&stored.job, settled_version, replica, claimed_at);
        if stored.job.completed_at.is_some() {
            // The replica and the time of the last claim are those of its event only.
            stored.replica = None;
            stored.tally.claimed_at = None;
        }
        Ok(Self {
            read_as: (stored.job.version, stored.epoch, stored.job.status),
            stored,
            seq,
            fingerprint: Fingerprint::from_bytes(fingerprint),
            counted,
            result: None,
            steps: None,
            derived,
            has_events,
        })
    }
}

/// Reads the columns of `record.sql`.
impl FromRow for Record {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let job: Job = columns.get()?;
        let replica: Option<String> = columns.get()?;
        let (claimed_at, settled_version) = columns.get()?;
        let derived = DerivedEvents::of(&job, settled_version, replica.as_deref(), claimed_at);
        let (settled, since): (Option<String>, Option<String>) = columns.get()?;
        let result = columns.get()?;
        let history = derived.into_events(&job, settled.as_deref(), since.as_deref());
        Ok(Self { job, result, history })
    }
}
