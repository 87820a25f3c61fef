//! State of the reference store, and rules shared by several calls.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use longhaul::job::{
    AttemptContext, Command, Disposition, Event, Fingerprint, Job, JobError, JobId, Json, Name,
    Progress, Record, Retention, Status, Step, TenantId, Timestamp, TokenBucket, Transition,
};
use longhaul::store::{
    Blob, BlobRef, BlobRole, FlowLimit, FlowLimits, LeaseRef, NewBlob, NewJob, ReplicaState,
    SettleResult, Settlement, StoreError, SubmitResult,
};

use super::usage::{Meter, Sums};

#[derive(Default)]
pub(super) struct State {
    pub(super) rows: BTreeMap<JobId, Row>,
    pub(super) gone: HashMap<(TenantId, JobId), Timestamp>,
    pub(super) paused: BTreeSet<(TenantId, Name)>,
    /// Turn in which each tenant was last served: the one served longest ago is next.
    pub(super) served: HashMap<TenantId, u64>,
    pub(super) turn: u64,
    pub(super) replicas: BTreeMap<String, ReplicaState>,
    pub(super) blobs: Vec<StoredBlob>,
    /// Token buckets of rate limits.
    pub(super) buckets: HashMap<Scope, TokenBucket>,
    pub(super) usage: Sums,
}

/// Subject of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Kind(Name),
    Queue(Name),
    Tenant(TenantId),
}

/// Returns the limits that apply to a job.
pub(super) fn limits_on(job: &Job, limits: &FlowLimits) -> Vec<(Scope, FlowLimit)> {
    let kind = limits.kinds.iter().find(|(kind, _)| *kind == job.kind);
    let kind = kind.map(|(kind, max)| (Scope::Kind(kind.clone()), FlowLimit::running(*max)));
    let queue = (Scope::Queue(job.queue.clone()), limits.queue(&job.queue));
    let own = limits.by_tenant.get(&job.tenant).copied();
    let tenant = (Scope::Tenant(job.tenant.clone()), own.unwrap_or(limits.tenants));
    kind.into_iter().chain([queue, tenant]).filter(|(_, limit)| !limit.is_none()).collect()
}

#[derive(Clone)]
pub(super) struct Row {
    pub(super) record: Record,
    pub(super) input: Json,
    pub(super) fingerprint: Fingerprint,
    pub(super) steps: Vec<Step>,
    pub(super) retention: Retention,
    pub(super) attempts_at_first: u32,
    /// True if the next claim counts as a new attempt.
    pub(super) charge: bool,
    pub(super) epoch: u64,
    pub(super) settled_epoch: u64,
    pub(super) replica: Option<String>,
    pub(super) lease_ends_at: Timestamp,
    /// Limits that count the job while it runs.
    pub(super) counted: HashSet<Scope>,
    pub(super) meter: Meter,
}

impl Row {
    pub(super) fn event(&mut self, now: Timestamp, error: Option<JobError>) {
        let job = &mut self.record.job;
        job.version += 1;
        self.record.history.push(Event {
            version: job.version,
            at: now,
            status: job.status,
            attempt: job.attempt,
            phase: job.phase.clone(),
            replica: self.replica.clone(),
            run_at: (job.status == Status::Pending).then_some(job.run_at),
            error,
        });
    }

    pub(super) fn turn(&mut self, command: Command) -> Result<(), StoreError> {
        let job = &mut self.record.job;
        match job.status.on(command) {
            Transition::Move(status) => job.status = status,
            Transition::RequestStop | Transition::Unchanged | Transition::Delete => {}
            Transition::Reject => {
                return Err(StoreError::WrongStatus { status: job.status, command });
            }
        }
        job.phase = None;
        Ok(())
    }

    pub(super) fn ended(&mut self, now: Timestamp) {
        let job = &mut self.record.job;
        job.completed_at = job.status.is_terminal().then_some(now);
        job.expires_at = self.retention.of(job.status).map(|kept| now.after(kept));
    }

    pub(super) fn apply(&mut self, next: Disposition, now: Timestamp) {
        self.turn(next.command()).expect("only running jobs are settled");
        self.counted.clear();
        let job = &mut self.record.job;
        let mut why = None;
        match next {
            Disposition::Complete(result) => {
                job.error = None;
                self.record.result = Some(result);
            }
            Disposition::Fail(error) => {
                job.error = Some(error.clone());
                why = Some(error);
            }
            Disposition::Stop => {}
            Disposition::Requeue { run_at, error, charge } => {
                job.run_at = run_at;
                job.error = error.clone().or(job.error.take());
                why = error;
                self.charge = charge;
            }
        }
        self.ended(now);
        self.event(now, why);
    }

    pub(super) fn standing(&self) -> AttemptContext {
        let job = &self.record.job;
        AttemptContext {
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            cancel_requested: job.cancel_requested_at.is_some(),
        }
    }

    pub(super) fn words(
        &mut self,
        phases: Vec<String>,
        progress: Option<Progress>,
        now: Timestamp,
    ) {
        let stops = self.standing().cancel_requested;
        for phase in phases.into_iter().filter(|_| !stops) {
            self.record.job.phase = Some(phase);
            self.event(now, None);
        }
        if progress.is_some() {
            self.record.job.progress = progress;
            self.record.job.version += 1;
        }
    }

    pub(super) fn rank(&self) -> (i64, Timestamp, JobId) {
        let job = &self.record.job;
        (job.run_at.as_millis() - i64::from(job.priority) * 60_000, job.run_at, job.id)
    }
}

impl State {
    pub(super) fn is_stray(&mut self, blob: &BlobRef) -> bool {
        let is_left = |kept: &StoredBlob| kept.to_ref() == *blob && kept.blob.deleted_at.is_none();
        let known = self.blobs.iter().any(is_left);
        let row = self.row(&blob.tenant, blob.job);
        !known && row.map_or(true, |row| row.record.job.status.is_terminal())
    }

    pub(super) fn row(&mut self, tenant: &TenantId, id: JobId) -> Result<&mut Row, StoreError> {
        match self.rows.get_mut(&id).filter(|row| &row.record.job.tenant == tenant) {
            Some(row) => Ok(row),
            None if self.gone.contains_key(&(tenant.clone(), id)) => Err(StoreError::Gone),
            None => Err(StoreError::NotFound),
        }
    }

    pub(super) fn held(&mut self, lease: &LeaseRef) -> Result<&mut Row, StoreError> {
        let row = self.row(&lease.tenant, lease.job).map_err(|_| StoreError::LeaseLost)?;
        if row.epoch == lease.epoch && row.record.job.status == Status::Running {
            Ok(row)
        } else {
            Err(StoreError::LeaseLost)
        }
    }

    pub(super) fn remove(&mut self, id: JobId, now: Timestamp) {
        for kept in self.blobs.iter_mut().filter(|kept| kept.job == id) {
            kept.doom(now);
        }
        if let Some(row) = self.rows.remove(&id) {
            self.gone.insert((row.record.job.tenant, id), now);
        }
    }

    pub(super) fn blobs_of(
        &self,
        tenant: &TenantId,
        id: JobId,
    ) -> impl Iterator<Item = &StoredBlob> + use<'_> {
        let tenant = tenant.clone();
        self.blobs.iter().filter(move |kept| kept.tenant == tenant && kept.job == id)
    }

    /// Schedules the payload for deletion if the job has ended.
    pub(super) fn doom_payload(&mut self, job: &Job, now: Timestamp) {
        let ended = job.status.is_terminal();
        for kept in self.blobs.iter_mut().filter(|kept| ended && kept.job == job.id) {
            if kept.blob.role == BlobRole::Payload && kept.blob.key.is_some() {
                kept.doom(now);
            }
        }
    }

    pub(super) fn expire_payload(&mut self, id: JobId, now: Timestamp) -> Job {
        let row = self.rows.get_mut(&id).expect("it was found");
        row.turn(Command::Expire).expect("it is pending");
        let message = "nobody claimed the job before its payload expired";
        let error = JobError::fatal(message).with_code("payload-expired");
        row.record.job.error = Some(error.clone());
        row.ended(now);
        row.event(now, Some(error));
        let job = row.record.job.clone();
        self.doom_payload(&job, now);
        self.meter(id, now);
        job
    }

    pub(super) fn by_key(&self, tenant: &TenantId, key: &str) -> Option<&Row> {
        self.rows.values().find(|row| {
            &row.record.job.tenant == tenant
                && row.record.job.idempotency_key.as_deref() == Some(key)
        })
    }

    pub(super) fn submit(
        &mut self,
        new: NewJob,
        now: Timestamp,
    ) -> Result<SubmitResult, StoreError> {
        let known = new.idempotency_key.as_deref().and_then(|key| self.by_key(&new.tenant, key));
        if let Some(row) = known {
            return if row.fingerprint == new.fingerprint {
                Ok(SubmitResult { record: row.record.clone(), created: false })
            } else {
                Err(StoreError::KeyReused { existing: row.record.job.id })
            };
        }
        let job = Job {
            id: new.id,
            tenant: new.tenant,
            kind: new.kind,
            queue: new.queue,
            status: Status::Pending,
            phase: None,
            priority: new.priority,
            attempt: 0,
            max_attempts: new.max_attempts,
            progress: None,
            labels: new.labels,
            version: 0,
            idempotency_key: new.idempotency_key,
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
        let meter = Meter::new(new.key_id, new.payload.as_ref(), now);
        if let Some(payload) = new.payload {
            self.blobs.push(StoredBlob::new(&job, BlobRole::Payload, payload, now));
        }
        let mut row = Row {
            attempts_at_first: job.max_attempts,
            record: Record { job, result: None, history: Vec::new() },
            input: new.input,
            fingerprint: new.fingerprint,
            steps: Vec::new(),
            retention: new.retention,
            charge: true,
            epoch: 0,
            settled_epoch: 0,
            replica: None,
            lease_ends_at: now,
            counted: HashSet::new(),
            meter,
        };
        row.event(now, None);
        let record = row.record.clone();
        self.rows.insert(new.id, row);
        Ok(SubmitResult { record, created: true })
    }

    /// Returns the best job of the tenant that was served longest ago.
    pub(super) fn pick(
        &self,
        rooms: &HashMap<Name, usize>,
        limits: &FlowLimits,
        now: Timestamp,
    ) -> Option<JobId> {
        let free = |(scope, limit): &(Scope, FlowLimit)| {
            let running = || self.rows.values().filter(|row| row.counted.contains(scope)).count();
            let bucket = self.buckets.get(scope).copied();
            limit.running_max.is_none_or(|max| running() < max as usize)
                && limit.rate.is_none_or(|rate| rate.available(bucket, now) > 0)
        };
        let due = self.due(rooms, now);
        let free = due.filter(|row| limits_on(&row.record.job, limits).iter().all(free));
        free.min_by_key(|row| {
            (self.served.get(&row.record.job.tenant).copied().unwrap_or(0), row.rank())
        })
        .map(|row| row.record.job.id)
    }

    fn due(&self, rooms: &HashMap<Name, usize>, now: Timestamp) -> impl Iterator<Item = &Row> {
        self.rows.values().filter(move |row| {
            let job = &row.record.job;
            job.status == Status::Pending
                && job.run_at <= now
                && rooms.get(&job.kind).is_some_and(|room| *room > 0)
                && !self.paused.contains(&(job.tenant.clone(), job.queue.clone()))
        })
    }

    /// Counts a starting job against its limits.
    pub(super) fn count(&mut self, id: JobId, limits: &FlowLimits, now: Timestamp) {
        let row = self.rows.get_mut(&id).expect("it was picked");
        for (scope, limit) in limits_on(&row.record.job, limits) {
            if let Some(rate) = limit.rate {
                let taken = rate.take(self.buckets.get(&scope).copied(), 1, now);
                self.buckets.insert(scope.clone(), taken);
            }
            if limit.running_max.is_some() {
                row.counted.insert(scope);
            }
        }
    }

    /// Returns the time at which a rate limit lets the next delayed job start.
    pub(super) fn next_token_at(
        &self,
        rooms: &HashMap<Name, usize>,
        limits: &FlowLimits,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let scopes = self.due(rooms, now).flat_map(|row| limits_on(&row.record.job, limits));
        let next = scopes.filter_map(|(scope, limit)| {
            limit.rate?.next_at(self.buckets.get(&scope).copied(), now)
        });
        next.filter(|at| *at > now).min()
    }

    pub(super) fn settle(
        &mut self,
        end: Settlement,
        now: Timestamp,
    ) -> Result<SettleResult, StoreError> {
        let answer = |row: &Row| {
            let Job { status, version, run_at, .. } = row.record.job;
            SettleResult { status, version, run_at }
        };
        if let Ok(row) = self.row(&end.lease.tenant, end.lease.job)
            && row.settled_epoch == end.lease.epoch
            && row.epoch == end.lease.epoch
        {
            return Ok(answer(row));
        }
        let row = self.held(&end.lease)?;
        row.words(end.phases, end.progress, now);
        row.settled_epoch = end.lease.epoch;
        row.meter.run(now);
        row.apply(end.outcome.disposition(row.standing(), now), now);
        if row.record.job.status.is_terminal() {
            row.meter.left.tokens = end.tokens;
        }
        let completed = row.record.job.status == Status::Completed;
        let artifacts = if completed { end.artifacts } else { Vec::new() };
        row.record.job.artifacts = artifacts.iter().map(NewBlob::to_artifact).collect();
        let (answer, job) = (answer(row), row.record.job.clone());
        for artifact in artifacts {
            self.blobs.push(StoredBlob::new(&job, BlobRole::Artifact, artifact, now));
        }
        self.doom_payload(&job, now);
        self.meter(job.id, now);
        Ok(answer)
    }
}

/// A blob stored for a job.
#[derive(Clone)]
pub(super) struct StoredBlob {
    pub(super) tenant: TenantId,
    pub(super) job: JobId,
    pub(super) blob: Blob,
    pub(super) bury_at: Option<Timestamp>,
}

impl StoredBlob {
    fn new(job: &Job, role: BlobRole, new: NewBlob, now: Timestamp) -> Self {
        let blob = Blob {
            role,
            path: new.path,
            name: new.name,
            content_type: new.content_type,
            size: new.size,
            digest: Some(new.digest),
            key: Some(new.key),
            stored_at: now,
            stored_by: new.replica,
            key_destroyed_at: None,
            deleted_at: None,
            deleted_by: None,
            failures: 0,
            failure: None,
        };
        Self { tenant: job.tenant.clone(), job: job.id, blob, bury_at: None }
    }

    pub(super) fn folder(lease: &LeaseRef, path: &str, replica: &str, now: Timestamp) -> Self {
        let blob = Blob {
            role: BlobRole::Folder,
            path: path.to_owned(),
            name: String::new(),
            content_type: String::new(),
            size: 0,
            digest: None,
            key: None,
            stored_at: now,
            stored_by: replica.to_owned(),
            key_destroyed_at: None,
            deleted_at: None,
            deleted_by: None,
            failures: 0,
            failure: None,
        };
        Self { tenant: lease.tenant.clone(), job: lease.job, blob, bury_at: None }
    }

    pub(super) fn is_left(&self) -> bool {
        self.blob.deleted_at.is_none() && self.blob.role != BlobRole::Folder
    }

    pub(super) fn to_ref(&self) -> BlobRef {
        BlobRef { tenant: self.tenant.clone(), job: self.job, path: self.blob.path.clone() }
    }

    fn doom(&mut self, now: Timestamp) {
        self.blob.key = None;
        if self.blob.role != BlobRole::Folder {
            self.blob.key_destroyed_at = self.blob.key_destroyed_at.or(Some(now));
            if self.is_left() {
                self.bury_at = self.bury_at.or(Some(now));
            }
        }
    }

    pub(super) fn record_deletions(
        &mut self,
        failure: Option<String>,
        replica: &str,
        now: Timestamp,
    ) {
        if failure.is_some() {
            let pause = std::time::Duration::from_secs(5) * 2_u32.pow(self.blob.failures.min(20));
            self.bury_at = Some(now.after(pause.min(std::time::Duration::from_mins(15))));
            self.blob.failures += 1;
            self.blob.failure = failure;
            return;
        }
        self.doom(now);
        self.bury_at = None;
        self.blob.deleted_at = Some(now);
        self.blob.deleted_by = Some(replica.to_owned());
    }
}
