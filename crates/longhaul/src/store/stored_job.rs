//! A job on its way through a store: what happens to it, decided once for every store.
//!
//! A store reads an entry, lets one of these methods change it, and writes back what changed. The
//! rules themselves are pure and live in [`crate::job`].

use crate::job::{
    AttemptContext, Command, Disposition, Event, Job, JobError, JobId, Json, Name, Outcome,
    PHASE_CANCELLING, PreviousState, Progress, Retention, Status, Timestamp, Transition, Usage,
    UsageMeter, Webhook,
};
use crate::store::{Claim, NewBlob, NewJob, SettleResult, Settlement, StoreError};

/// A job and what stores alone know of it.
#[derive(Debug, Clone)]
pub(super) struct StoredJob {
    pub(super) job: Job,
    /// Attempts that were used up before the last resume.
    pub(super) attempt_base: u32,
    /// Whether the next claim counts as a further attempt.
    pub(super) charge: bool,
    pub(super) epoch: u64,
    pub(super) replica: Option<String>,
    /// When the lease ends. Stays when it ran out, goes when it was settled.
    pub(super) lease_until: Option<Timestamp>,
    pub(super) retention: Retention,
    pub(super) tally: UsageMeter,
    /// Whether it ended since it was read: then it has to be metered.
    pub(super) ended: bool,
    /// Who wants to be told of it, besides the tenant's endpoints.
    pub(super) webhook: Option<Box<Webhook>>,
    /// Transitions that are not written yet.
    pub(super) events: Vec<Event>,
    /// How the job stood before them; none if they begin with its acceptance.
    pub(super) before: Option<PreviousState>,
}

impl StoredJob {
    /// A job that was just accepted: that is its first transition.
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

    /// The job as if it had just been submitted, with the attempts that it had at first, by the same API
    /// key. It begins with so many of the finished steps.
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
        let mut entry = Self {
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
            before: None,
            job,
        };
        entry.record(now, None);
        entry
    }

    /// Its transitions are written.
    pub(super) fn written(&mut self) {
        self.events.clear();
        self.before = Some(PreviousState::of(&self.job));
    }

    /// Gives the job to the replica that asks, until the returned time.
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

    /// Records what a running job tells of itself: each phase is a transition, progress raises the
    /// version only.
    pub(super) fn tell(&mut self, phases: &[String], progress: Option<&Progress>, now: Timestamp) {
        // Once a job was asked to stop, its phase says so until it does.
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

    /// Ends the attempt as its worker tells. Returns the result, if the job completed.
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

    /// Ends the attempt of a worker that let its lease run out.
    pub(super) fn lose(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let replica = self.replica.clone().unwrap_or_default();
        let next = Disposition::after_lost_lease(self.standing(), &replica, now);
        // Nobody knows how long it ran; nobody vouches for it after its lease.
        self.tally.stop(self.lease_until.map_or(now, |until| until.min(now)));
        // Fences the worker off now, not at the next claim: what it says later was not done.
        self.epoch += 1;
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
        // The event still names who held the lease; from now on nobody does.
        self.replica = None;
        self.lease_until = None;
        Ok(result)
    }

    /// Cancels the job, or asks its worker to stop. False if that changes nothing.
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

    /// Fails a job that nobody claimed before its payload expired.
    pub(super) fn expire_payload(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.job.status = self.move_by(Command::Expire)?;
        let message = "nobody claimed the job before its payload expired";
        let error = JobError::new("payload-expired", message, false);
        self.job.error = Some(error.clone());
        self.finish(now);
        self.record(now, Some(error));
        Ok(())
    }

    /// Whether the job has ended and its payload has to go.
    pub(super) fn dooms_payload(&self) -> bool {
        self.job.has_payload && self.job.status.is_terminal()
    }

    /// What its end adds to the usage, if it ended since it was read. `steps` are all finished ones.
    pub(super) fn meter(&mut self, steps: u64) -> Option<Usage> {
        std::mem::take(&mut self.ended).then(|| self.tally.meter(steps))
    }

    /// Puts a job that ended badly back in line.
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

    /// Whether the job may be deleted.
    pub(super) fn check_purge(&self) -> Result<(), StoreError> {
        match self.job.status.on(Command::Purge) {
            Transition::Delete => Ok(()),
            Transition::Move(_)
            | Transition::RequestStop
            | Transition::Unchanged
            | Transition::Reject => Err(self.refusal(Command::Purge)),
        }
    }

    /// The answer to a settlement of a lease that does not hold the job any more. The first answer
    /// may have been lost: the same again is fine, if the job was neither swept nor claimed since,
    /// both of which raise its epoch.
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

    /// The answer to a settlement.
    pub(super) fn settled(&self) -> SettleResult {
        let Job { status, version, run_at, .. } = self.job;
        SettleResult { status, version, run_at }
    }

    /// Whether there may be steps that an attempt goes on from: a first one has none, unless it was
    /// forked with some.
    pub(super) fn may_have_steps(&self) -> bool {
        self.epoch > 0 || self.job.forked_from.is_some()
    }

    /// Raises the version and records how the job stands now as a transition.
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

    /// If the job has ended, notes when, until when it is kept, and that it has to be metered.
    fn finish(&mut self, now: Timestamp) {
        if let Some(kept) = self.retention.of(self.job.status) {
            self.job.completed_at = Some(now);
            self.job.expires_at = Some(now.after(kept));
            self.ended = true;
        }
    }

    /// The attempts that the job was given at first, and is given again by a resume.
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

/// Whether a job that stands at `status` may have got there by this outcome.
fn leads_to(outcome: &Outcome, status: Status) -> bool {
    use Status::{Cancelled, Completed, Failed, Pending};
    match outcome {
        Outcome::Completed(_) => status == Completed,
        Outcome::Failed { .. } => [Failed, Pending, Cancelled].contains(&status),
        Outcome::Cancelled => status == Cancelled,
        Outcome::Released | Outcome::Sleep { .. } => [Pending, Cancelled].contains(&status),
    }
}
