//! State transitions of a stored job, shared by all stores.
//!
//! A store reads a [`StoredJob`], calls one of its methods, and writes the changes back. The rules are pure
//! and live in [`crate::job`].

use crate::job::{
    AttemptContext, Command, Disposition, Event, Job, JobError, JobId, Json, Name, Outcome,
    PHASE_CANCELLING, PreviousState, Progress, Retention, Status, Timestamp, Transition, Usage,
    UsageMeter, Webhook,
};
use crate::store::{Claim, NewBlob, NewJob, SettleResult, Settlement, StoreError};

/// Difference between the epochs before and after a restore: more than any store can have handed out for one job since
/// the backup, so that no worker from before the restore has a current epoch. The upper 32 bits of an epoch are the
/// number of restores.
pub(super) const EPOCHS_PER_RESTORE: u64 = 1 << 32;

/// A job with the columns that only stores use.
#[derive(Debug, Clone)]
pub(super) struct StoredJob {
    pub(super) job: Job,
    /// Attempts used before the last resume.
    pub(super) attempt_base: u32,
    /// True if the next claim charges an attempt.
    pub(super) charge: bool,
    pub(super) epoch: u64,
    pub(super) replica: Option<String>,
    /// Lease expiry. Kept when the lease expires, cleared when the attempt is settled.
    pub(super) lease_until: Option<Timestamp>,
    pub(super) retention: Retention,
    pub(super) tally: UsageMeter,
    /// True if the job finished since it was read, so that its usage must be metered.
    pub(super) ended: bool,
    /// Webhook of this job, in addition to the tenant's endpoints.
    pub(super) webhook: Option<Box<Webhook>>,
    /// Events that are not written yet.
    pub(super) events: Vec<Event>,
    /// State before these events; `None` if the first one is the submission.
    pub(super) before: Option<PreviousState>,
}

impl StoredJob {
    /// Creates a job from a submission, with its first event.
    pub(super) fn accepted(new: &NewJob, now: Timestamp) -> Self {
        let job = Job {
            id: new.id,
            tenant: new.tenant.clone(),
            kind: new.kind.clone(),
            queue: new.queue.clone(),
            status: Status::Pending,
            phase: None,
            priority: new.priority,
            attempt: 0,
            max_attempts: new.max_attempts,
            progress: None,
            labels: new.labels.clone(),
            version: 0,
            idempotency_key: new.idempotency_key.clone(),
            created_at: now,
            run_at: new.start.run_at(now),
            started_at: None,
            completed_at: None,
            expires_at: None,
            error: None,
            cancel_requested_at: None,
            timeout: new.timeout,
            code_version: None,
            forked_from: None,
            parent_id: new.parent_id,
            has_payload: new.payload.is_some(),
            artifacts: Vec::new(),
        };
        let tally = UsageMeter {
            key: new.key_id.clone(),
            payload_bytes: new.payload.as_ref().map_or(0, |payload| payload.size),
            ..UsageMeter::default()
        };
        Self::begun(job, new.retention, tally, new.webhook.clone(), now)
    }

    /// Returns a pending job as its submission has stored it.
    pub(super) fn new(
        job: Job,
        retention: Retention,
        tally: UsageMeter,
        webhook: Option<Box<Webhook>>,
    ) -> Self {
        Self {
            attempt_base: job.attempt,
            charge: true,
            epoch: 0,
            replica: None,
            lease_until: None,
            retention,
            tally,
            ended: false,
            webhook,
            events: Vec::new(),
            before: Some(PreviousState::of(&job)),
            job,
        }
    }

    /// Creates a fork: a new submission of this job with its original number of attempts and API key, which
    /// starts with `steps` finished steps.
    pub(super) fn fork(&self, id: JobId, steps: u64, now: Timestamp) -> Result<Self, StoreError> {
        if self.job.has_payload {
            return Err(StoreError::PayloadPurged);
        }
        let job = Job {
            id,
            status: Status::Pending,
            phase: None,
            attempt: 0,
            max_attempts: self.attempts_allowed(),
            progress: None,
            version: 0,
            idempotency_key: None,
            created_at: now,
            run_at: now,
            started_at: None,
            completed_at: None,
            expires_at: None,
            error: None,
            cancel_requested_at: None,
            code_version: None,
            forked_from: Some(self.job.id),
            parent_id: None,
            artifacts: Vec::new(),
            ..self.job.clone()
        };
        let tally = UsageMeter {
            key: self.tally.key.clone(),
            metered_steps: steps,
            ..UsageMeter::default()
        };
        Ok(Self::begun(job, self.retention, tally, self.webhook.clone(), now))
    }

    fn begun(
        job: Job,
        retention: Retention,
        tally: UsageMeter,
        webhook: Option<Box<Webhook>>,
        now: Timestamp,
    ) -> Self {
        let mut entry = Self { before: None, ..Self::new(job, retention, tally, webhook) };
        entry.record(now, None);
        entry
    }

    /// Marks the events as written.
    pub(super) fn written(&mut self) {
        self.events.clear();
        self.before = Some(PreviousState::of(&self.job));
    }

    /// Leases the job to the claiming replica and returns the expiry.
    pub(super) fn claim(&mut self, want: &Claim, now: Timestamp) -> Result<Timestamp, StoreError> {
        let status = self.move_by(Command::Claim)?;
        let expires_at = now.after(want.lease);
        self.job.status = status;
        self.job.phase = None;
        if self.charge {
            self.job.attempt += 1;
            self.job.progress = None;
        }
        self.charge = true;
        self.epoch += 1;
        self.replica = Some(want.replica.clone());
        self.lease_until = Some(expires_at);
        self.tally.start(now);
        self.job.started_at = self.job.started_at.or(Some(now));
        if self.job.code_version.is_none() {
            self.job.code_version = code_version(want, &self.job.kind);
        }
        self.record(now, None);
        Ok(expires_at)
    }

    /// Records phases, each as an event, and progress, which only raises the version.
    pub(super) fn tell(&mut self, phases: &[String], progress: Option<&Progress>, now: Timestamp) {
        // After a cancellation request the phase stays `cancelling`.
        let phases = if self.job.cancel_requested_at.is_some() { &[] } else { phases };
        for phase in phases {
            self.job.phase = Some(phase.clone());
            self.record(now, None);
        }
        if let Some(progress) = progress {
            self.job.progress = Some(progress.clone());
            self.job.version += 1;
        }
    }

    /// Ends the attempt with the outcome of its worker. Returns the result if the job completed.
    pub(super) fn settle(
        &mut self,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Option<Json>, StoreError> {
        self.tell(&settlement.phases, settlement.progress.as_ref(), now);
        let next = settlement.outcome.clone().disposition(self.standing(), now);
        self.tally.stop(now);
        self.tally.tokens = settlement.tokens;
        let result = self.end(next, now)?;
        if result.is_some() {
            self.job.artifacts = settlement.artifacts.iter().map(NewBlob::to_artifact).collect();
        }
        Ok(result)
    }

    /// Ends the attempt of a worker whose lease expired.
    pub(super) fn lose(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let replica = self.replica.clone().unwrap_or_default();
        let next = Disposition::after_lost_lease(self.standing(), &replica, now);
        // The run time is unknown, so it is metered up to the lease expiry.
        self.tally.stop(self.lease_until.map_or(now, |until| until.min(now)));
        // Raised now and not at the next claim, so that later writes of the lost worker are rejected.
        self.epoch += 1;
        self.end(next, now).map(|_| ())
    }

    /// Releases the attempt of a worker from before a restore of the store. The attempt is not charged, because neither
    /// the job nor its worker failed.
    pub(super) fn release_restored(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let next = Outcome::Released.disposition(self.standing(), now);
        // The run time is unknown, so it is metered up to the lease expiry.
        self.tally.stop(self.lease_until.map_or(now, |until| until.min(now)));
        self.end(next, now).map(|_| ())
    }

    fn end(&mut self, next: Disposition, now: Timestamp) -> Result<Option<Json>, StoreError> {
        self.job.status = self.move_by(next.command())?;
        self.job.phase = None;
        let mut result = None;
        let error = match next {
            Disposition::Complete(json) => {
                self.job.error = None;
                result = Some(json);
                None
            }
            Disposition::Stop => None,
            Disposition::Fail(error) => Some(error),
            Disposition::Requeue { run_at, error, charge } => {
                self.job.run_at = run_at;
                self.charge = charge;
                error
            }
        };
        if let Some(error) = &error {
            self.job.error = Some(error.clone());
        }
        self.finish(now);
        self.record(now, error);
        // Cleared after the event was recorded, because the event names the replica.
        self.replica = None;
        self.lease_until = None;
        Ok(result)
    }

    /// Cancels the job, or requests cancellation from its worker. Returns false if nothing changes.
    pub(super) fn cancel(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        match self.job.status.on(Command::Cancel) {
            Transition::Move(status) => {
                self.job.status = status;
                self.job.phase = None;
                self.finish(now);
            }
            Transition::Unchanged => return Ok(false),
            Transition::RequestStop if self.job.cancel_requested_at.is_some() => return Ok(false),
            Transition::RequestStop => self.job.phase = Some(PHASE_CANCELLING.to_owned()),
            Transition::Reject | Transition::Delete => return Err(self.refusal(Command::Cancel)),
        }
        self.job.cancel_requested_at = Some(now);
        self.record(now, None);
        Ok(true)
    }

    /// Fails a job that was not claimed before its payload expired.
    pub(super) fn expire_payload(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.job.status = self.move_by(Command::Expire)?;
        let message = "the payload expired before a worker claimed the job";
        let error = JobError::new("payload-expired", message, false);
        self.job.error = Some(error.clone());
        self.finish(now);
        self.record(now, Some(error));
        Ok(())
    }

    /// Returns true if the job has finished and its payload must be deleted.
    pub(super) fn dooms_payload(&self) -> bool {
        self.job.has_payload && self.job.status.is_terminal()
    }

    /// Returns the usage to record if the job finished since it was read. `steps` is the number of finished
    /// steps.
    pub(super) fn meter(&mut self, steps: u64) -> Option<Usage> {
        std::mem::take(&mut self.ended).then(|| self.tally.meter(steps))
    }

    /// Returns a failed or cancelled job to its queue.
    pub(super) fn resume(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let status = self.move_by(Command::Resume)?;
        if self.job.has_payload {
            return Err(StoreError::PayloadPurged);
        }
        let further = self.attempts_allowed();
        self.attempt_base = self.job.attempt;
        self.charge = true;
        self.job.max_attempts = self.job.attempt.saturating_add(further);
        self.job.status = status;
        self.job.phase = None;
        self.job.run_at = now;
        self.job.error = None;
        self.job.completed_at = None;
        self.job.expires_at = None;
        self.job.cancel_requested_at = None;
        self.record(now, None);
        Ok(())
    }

    /// Checks that the job may be deleted.
    pub(super) fn check_purge(&self) -> Result<(), StoreError> {
        match self.job.status.on(Command::Purge) {
            Transition::Delete => Ok(()),
            Transition::Move(_)
            | Transition::RequestStop
            | Transition::Unchanged
            | Transition::Reject => Err(self.refusal(Command::Purge)),
        }
    }

    /// Returns the result for a settlement without a current lease. Succeeds if it repeats the last settlement,
    /// whose response may have been lost: the epoch is unchanged, so the job was neither rescued nor claimed
    /// since.
    pub(super) fn settled_before(
        &self,
        settlement: &Settlement,
    ) -> Result<SettleResult, StoreError> {
        let leads_here = leads_to(&settlement.outcome, self.job.status);
        if self.epoch == settlement.lease.epoch && leads_here {
            return Ok(self.settled());
        }
        Err(StoreError::LeaseLost)
    }

    /// Returns the result of a settlement.
    pub(super) fn settled(&self) -> SettleResult {
        let Job { status, version, run_at, .. } = self.job;
        SettleResult { status, version, run_at }
    }

    /// Returns false if there cannot be finished steps, because this is the first attempt and the job is no
    /// fork. Saves a query.
    pub(super) fn may_have_steps(&self) -> bool {
        self.epoch > 0 || self.job.forked_from.is_some()
    }

    /// Raises the version and records the current state as an event.
    fn record(&mut self, now: Timestamp, error: Option<JobError>) {
        self.job.version += 1;
        self.events.push(Event {
            version: self.job.version,
            at: now,
            status: self.job.status,
            attempt: self.job.attempt,
            phase: self.job.phase.clone(),
            replica: self.replica.clone(),
            run_at: (self.job.status == Status::Pending).then_some(self.job.run_at),
            error,
        });
    }

    /// Sets the completion and expiry times of a finished job and marks it for metering.
    fn finish(&mut self, now: Timestamp) {
        if let Some(kept) = self.retention.of(self.job.status) {
            self.job.completed_at = Some(now);
            self.job.expires_at = Some(now.after(kept));
            self.ended = true;
        }
    }

    /// Returns the original number of attempts, which a resume grants again.
    fn attempts_allowed(&self) -> u32 {
        self.job.max_attempts.saturating_sub(self.attempt_base)
    }

    fn standing(&self) -> AttemptContext {
        AttemptContext {
            attempt: self.job.attempt,
            max_attempts: self.job.max_attempts,
            cancel_requested: self.job.cancel_requested_at.is_some(),
        }
    }

    fn move_by(&self, command: Command) -> Result<Status, StoreError> {
        match self.job.status.on(command) {
            Transition::Move(status) => Ok(status),
            Transition::RequestStop
            | Transition::Unchanged
            | Transition::Delete
            | Transition::Reject => Err(self.refusal(command)),
        }
    }

    fn refusal(&self, command: Command) -> StoreError {
        StoreError::WrongStatus { status: self.job.status, command }
    }
}

fn code_version(want: &Claim, kind: &Name) -> Option<String> {
    want.kinds.iter().find(|room| room.kind == *kind).and_then(|room| room.code_version.clone())
}

/// Returns true if this outcome can have led to `status`.
fn leads_to(outcome: &Outcome, status: Status) -> bool {
    use Status::{Cancelled, Completed, Failed, Pending};
    match outcome {
        Outcome::Completed(_) => status == Completed,
        Outcome::Failed { .. } => [Failed, Pending, Cancelled].contains(&status),
        Outcome::Cancelled => status == Cancelled,
        Outcome::Released | Outcome::Sleep { .. } => [Pending, Cancelled].contains(&status),
    }
}
