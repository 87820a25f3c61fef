//! Reference implementation of the store contract, as short as possible: a map behind a mutex. It
//! passes the conformance suite, so a case that fails elsewhere points to the store and not to the
//! suite.

mod claim;
mod queues;
mod state;
mod usage;

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use longhaul::clock::Clock;
use longhaul::job::{
    Command, Disposition, Job, JobId, Json, Name, Record, Status, Step, TenantId, Timestamp,
    UsageRow,
};
use longhaul::store::{
    Blob, BlobRef, BlobRole, ChangeNotifications, Checkpoint, CheckpointResult, Claim, ClaimResult,
    Deletion, Filter, Heartbeat, JobStore, JobVersion, Lease, LeaseRef, MaintenanceStore, NewJob,
    Page, PageRequest, QueueState, QueueTotal, REPLICA_FORGOTTEN_AFTER, Renewal, ReplicaState,
    ReplicaStore, Report, SettleResult, Settlement, Start, Store, StoreError, SubmitResult,
    WorkerStore,
};

use state::{Row, State, StoredBlob};

const GONE_FOR: Duration = Duration::from_hours(24 * 366);

pub(crate) struct ModelStore {
    clock: Clock,
    state: Mutex<State>,
}

impl ModelStore {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

#[async_trait]
impl JobStore for ModelStore {
    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        let mut state = self.state();
        jobs.into_iter().map(|job| state.submit(job, self.now())).collect()
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        self.state().row(tenant, id).map(|row| row.record.clone())
    }

    async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, StoreError> {
        let state = self.state();
        let candidates = state.rows.values().rev().map(|row| &row.record.job).filter(|job| {
            &job.tenant == tenant
                && page.before.is_none_or(|before| job.id < before)
                && filter.parent.is_none_or(|parent| job.parent_id == Some(parent))
                && (filter.statuses.is_empty() || filter.statuses.contains(&job.status))
        });
        let matches = |job: &Job| {
            filter.kind.as_ref().is_none_or(|kind| &job.kind == kind)
                && filter.queue.as_ref().is_none_or(|queue| &job.queue == queue)
                && filter.created_after.is_none_or(|at| job.created_at >= at)
                && filter.labels.iter().all(|(k, v)| job.labels.get(k) == Some(v))
        };
        let (mut jobs, mut examined) = (Vec::new(), None);
        for (index, job) in candidates.enumerate() {
            if jobs.len() == page.limit || index == page.examined_max {
                return Ok(Page { jobs, next: examined });
            }
            examined = Some(job.id);
            if matches(job) {
                jobs.push(job.clone());
            }
        }
        Ok(Page { jobs, next: None })
    }

    async fn job_by_key(&self, tenant: &TenantId, key: &str) -> Result<Record, StoreError> {
        let state = self.state();
        state.by_key(tenant, key).map(|row| row.record.clone()).ok_or(StoreError::NotFound)
    }

    async fn input(&self, tenant: &TenantId, id: JobId) -> Result<Json, StoreError> {
        self.state().row(tenant, id).map(|row| row.input.clone())
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        self.state().row(tenant, id).map(|row| row.steps.clone())
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        let mut state = self.state();
        let glimpse = |(tenant, id): &(TenantId, JobId)| {
            let row = state.row(tenant, *id).ok()?;
            let Job { version, status, .. } = row.record.job;
            let cancel_requested = status == Status::Running && row.standing().cancel_requested;
            Some(JobVersion { version, status, cancel_requested })
        };
        Ok(jobs.iter().map(glimpse).collect())
    }

    async fn blobs(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Blob>, StoreError> {
        Ok(self.state().blobs_of(tenant, id).map(|kept| kept.blob.clone()).collect())
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        let row = state.row(tenant, id)?;
        let status = row.record.job.status;
        let asked = status == Status::Running && row.standing().cancel_requested;
        if asked || status == Status::Cancelled {
            return Ok(row.record.job.clone());
        }
        row.turn(Command::Cancel)?;
        row.record.job.cancel_requested_at = Some(now);
        if row.record.job.status == Status::Running {
            row.record.job.phase = Some("cancelling".to_owned());
        }
        row.ended(now);
        row.event(now, None);
        let job = row.record.job.clone();
        state.doom_payload(&job, now);
        state.meter(id, now);
        Ok(job)
    }

    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        let row = state.row(tenant, id)?;
        if row.record.job.has_payload && row.record.job.status != Status::Completed {
            row.clone().turn(Command::Resume)?;
            return Err(StoreError::PayloadPurged);
        }
        row.turn(Command::Resume)?;
        let job = &mut row.record.job;
        job.run_at = now;
        job.max_attempts = job.attempt + row.attempts_at_first;
        job.cancel_requested_at = None;
        row.charge = true;
        row.ended(now);
        row.event(now, None);
        Ok(row.record.job.clone())
    }

    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        let parent = state.row(tenant, id)?.clone();
        if parent.record.job.has_payload {
            return Err(StoreError::PayloadPurged);
        }
        let shared = match from_step {
            None => parent.steps.len(),
            Some(name) => parent
                .steps
                .iter()
                .position(|step| step.name == name)
                .ok_or_else(|| StoreError::UnknownStep { name: name.to_owned() })?,
        };
        let Job { kind, queue, priority, labels, timeout, .. } = parent.record.job;
        let new = NewJob {
            tenant: tenant.clone(),
            id: new_id,
            kind,
            queue,
            priority,
            input: parent.input,
            fingerprint: parent.fingerprint,
            idempotency_key: None,
            start: Start::Now,
            max_attempts: parent.attempts_at_first,
            timeout,
            labels,
            retention: parent.retention,
            parent_id: None,
            payload: None,
            key_id: parent.meter.key,
            webhook: None,
        };
        state.submit(new, now)?;
        let row = state.row(tenant, new_id)?;
        row.steps = parent.steps[..shared].to_vec();
        row.meter.steps = shared;
        row.record.job.forked_from = Some(id);
        Ok(row.record.job.clone())
    }

    async fn purge(&self, tenant: &TenantId, id: JobId) -> Result<(), StoreError> {
        let mut state = self.state();
        state.row(tenant, id)?.turn(Command::Purge)?;
        state.remove(id, self.now());
        Ok(())
    }

    async fn queues(&self, tenant: &TenantId) -> Result<Vec<QueueState>, StoreError> {
        Ok(queues::of(&self.state(), tenant, self.now()))
    }

    async fn pause_queue(
        &self,
        tenant: &TenantId,
        queue: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        let (mut state, queue) = (self.state(), (tenant.clone(), queue.clone()));
        if paused {
            state.paused.insert(queue);
        } else {
            state.paused.remove(&queue);
        }
        Ok(())
    }

    async fn count_pending(
        &self,
        tenant: &TenantId,
        queue: Option<&Name>,
        up_to: u64,
    ) -> Result<u64, StoreError> {
        Ok(queues::pending(&self.state(), tenant, queue).min(up_to))
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        Ok(self.state().usage_of(tenant, from, to))
    }
}

#[async_trait]
impl WorkerStore for ModelStore {
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        self.state().claim(want, self.now())
    }

    async fn submit_and_claim(
        &self,
        new: NewJob,
        want: &Claim,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError> {
        self.state().submit_and_claim(new, want, self.now())
    }

    async fn next_due_at(&self, since: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let state = self.state();
        let jobs = state.rows.values().map(|row| &row.record.job);
        let later = jobs.filter(|job| job.status == Status::Pending && job.run_at > since);
        Ok(later.map(|job| job.run_at).min())
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        let renew = |lease: LeaseRef| match state.held(&lease) {
            Err(_) => Renewal::Lost,
            Ok(row) => {
                row.lease_ends_at = now.after(duration);
                Renewal::Kept { cancel_requested: row.standing().cancel_requested }
            }
        };
        Ok(leases.into_iter().map(renew).collect())
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        let (mut state, now) = (self.state(), self.now());
        let report = |report: Report| {
            state.held(&report.lease)?.words(report.phases, report.progress, now);
            Ok(())
        };
        reports.into_iter().map(report).collect()
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<CheckpointResult, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        let row = state.held(&checkpoint.lease)?;
        let result = CheckpointResult { cancel_requested: row.standing().cancel_requested };
        let Checkpoint { name, position, output, alone, started_at, .. } = checkpoint;
        if let Some(stored) = row.steps.iter().find(|step| step.name == name) {
            return if stored.output == output {
                Ok(result)
            } else {
                Err(StoreError::StepConflict { name })
            };
        }
        let attempt = row.record.job.attempt;
        row.steps.push(Step {
            name,
            position,
            output,
            alone,
            attempt,
            started_at,
            completed_at: now,
        });
        row.steps.sort_by_key(|step| step.position);
        Ok(result)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        let mut state = self.state();
        settlements.into_iter().map(|end| state.settle(end, self.now())).collect()
    }

    async fn record_work_dir(
        &self,
        lease: &LeaseRef,
        path: &str,
        replica: &str,
    ) -> Result<(), StoreError> {
        let (mut state, now) = (self.state(), self.now());
        state.held(lease)?;
        let folder = StoredBlob::folder(lease, path, replica, now);
        if !state.blobs_of(&lease.tenant, lease.job).any(|kept| kept.blob.path == path) {
            state.blobs.push(folder);
        }
        Ok(())
    }
}

#[async_trait]
impl MaintenanceStore for ModelStore {
    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        let lost = state
            .rows
            .values_mut()
            .filter(|row| row.record.job.status == Status::Running && row.lease_ends_at <= now);
        let sweep = |row: &mut Row| {
            let replica = row.replica.clone().unwrap_or_default();
            row.meter.run(row.lease_ends_at.min(now));
            row.apply(Disposition::after_lost_lease(row.standing(), &replica, now), now);
            row.record.job.clone()
        };
        let swept: Vec<Job> = lost.take(limit).map(sweep).collect();
        for job in &swept {
            state.doom_payload(job, now);
            state.meter(job.id, now);
        }
        Ok(swept)
    }

    async fn prune(&self, limit: usize) -> Result<usize, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        state.gone.retain(|_, gone_at| now.since(*gone_at) < GONE_FOR);
        let jobs = state.rows.values().map(|row| &row.record.job);
        let ended = jobs.filter(|job| job.expires_at.is_some_and(|at| at <= now));
        let ended: Vec<JobId> = ended.map(|job| job.id).take(limit).collect();
        for id in &ended {
            state.remove(*id, now);
        }
        Ok(ended.len())
    }

    async fn expire_payloads(&self, kept: Duration, limit: usize) -> Result<Vec<Job>, StoreError> {
        let (mut state, now) = (self.state(), self.now());
        let old = state.blobs.iter().filter(|one| {
            one.blob.role == BlobRole::Payload && now.since(one.blob.stored_at) >= kept
        });
        let old: Vec<JobId> = old.map(|one| one.job).collect();
        let unclaimed = |id: &JobId| {
            let row = state.rows.get(id);
            row.is_some_and(|row| row.epoch == 0 && row.record.job.status == Status::Pending)
        };
        let failing: Vec<JobId> = old.into_iter().filter(unclaimed).take(limit).collect();
        Ok(failing.into_iter().map(|id| state.expire_payload(id, now)).collect())
    }

    async fn blobs_to_delete(&self, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        let (state, now) = (self.state(), self.now());
        let doomed = state.blobs.iter().filter(|kept| kept.bury_at.is_some_and(|at| at <= now));
        Ok(doomed.take(limit).map(StoredBlob::to_ref).collect())
    }

    async fn work_dirs(&self, host: &str, limit: usize) -> Result<Vec<BlobRef>, StoreError> {
        let (state, host) = (self.state(), format!("{host}:"));
        let here = state.blobs.iter().filter(|kept| {
            let Blob { role, path, deleted_at, .. } = &kept.blob;
            *role == BlobRole::Folder && deleted_at.is_none() && path.starts_with(&host)
        });
        Ok(here.take(limit).map(StoredBlob::to_ref).collect())
    }

    async fn record_deletions(
        &self,
        deletions: Vec<Deletion>,
        replica: &str,
    ) -> Result<(), StoreError> {
        let (mut state, now) = (self.state(), self.now());
        for deletion in deletions {
            let kept = state.blobs.iter_mut().find(|kept| kept.to_ref() == deletion.blob);
            if let Some(kept) = kept.filter(|kept| kept.blob.deleted_at.is_none()) {
                kept.record_deletions(deletion.failure, replica, now);
            }
        }
        Ok(())
    }

    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        let mut state = self.state();
        Ok(blobs.into_iter().filter(|blob| state.is_stray(blob)).collect())
    }

    async fn blob_bytes(&self, tenant: &TenantId) -> Result<u64, StoreError> {
        let state = self.state();
        let left = state.blobs.iter().filter(|kept| &kept.tenant == tenant && kept.is_left());
        Ok(left.map(|kept| kept.blob.size).sum())
    }

    async fn roll_up_usage(&self, _limit: usize) -> Result<usize, StoreError> {
        self.state().forget_usage(self.now());
        Ok(0)
    }

    async fn queue_totals(&self, limit: usize) -> Result<Vec<QueueTotal>, StoreError> {
        Ok(queues::totals(&self.state(), limit, self.now()))
    }
}

#[async_trait]
impl ReplicaStore for ModelStore {
    async fn heartbeat(&self, beat: &Heartbeat) -> Result<(), StoreError> {
        let (mut state, now) = (self.state(), self.now());
        state.replicas.retain(|_, known| now.since(known.seen_at) < REPLICA_FORGOTTEN_AFTER);
        let known = state.replicas.get(&beat.replica);
        let same_run = known.filter(|known| known.heartbeat.run == beat.run);
        if same_run.is_none()
            && known.is_some_and(|known| known.heartbeat.is_alive(known.seen_at, now))
        {
            return Err(StoreError::NameTaken { replica: beat.replica.clone() });
        }
        let started_at = same_run.map_or(now, |known| known.started_at);
        let heard = ReplicaState { heartbeat: beat.clone(), started_at, seen_at: now, alive: true };
        state.replicas.insert(beat.replica.clone(), heard);
        Ok(())
    }

    async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        let (state, now) = (self.state(), self.now());
        let alive = |known: &ReplicaState| known.heartbeat.is_alive(known.seen_at, now);
        let shown = |known: &ReplicaState| ReplicaState { alive: alive(known), ..known.clone() };
        Ok(state.replicas.values().map(shown).collect())
    }

    async fn take_over(&self, replica: &str, run: u64) -> Result<(), StoreError> {
        let (mut state, now) = (self.state(), self.now());
        if state.replicas.get(replica).is_some_and(|known| known.heartbeat.run == run) {
            state.replicas.remove(replica);
            let is_its = |row: &&mut Row| row.replica.as_deref() == Some(replica);
            for row in state.rows.values_mut().filter(is_its) {
                row.lease_ends_at = row.lease_ends_at.min(now);
            }
        }
        Ok(())
    }

    async fn deregister(&self, replica: &str) -> Result<(), StoreError> {
        self.state().replicas.remove(replica);
        Ok(())
    }
}

impl Store for ModelStore {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        None
    }

    fn outbox_notify(&self) -> std::sync::Arc<tokio::sync::Notify> {
        std::sync::Arc::default()
    }
}
