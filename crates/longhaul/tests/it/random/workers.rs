//! Replica calls of the simulation, with held and with lost leases.

use std::sync::Arc;
use std::time::Duration;

use longhaul::job::{
    AttemptContext, Disposition, Job, JobError, JobId, Outcome, Progress, Status, Transition,
};
use longhaul::store::WorkerStore as _;
use longhaul::store::conformance::{LEASE, demo, json};
use longhaul::store::{
    Checkpoint, CheckpointResult, Claim, FlowLimit, KindCapacity, Lease, Renewal, Report,
    Settlement, StoreError,
};
use rand::RngExt;

use super::checker::{Cause, CheckResult, Holder, Violation, ensure};
use super::simulation::Simulation;

impl Simulation {
    pub(crate) async fn claim(&mut self) -> CheckResult {
        let limit = self.random.random_range(1..5);
        self.claim_up_to(limit).await
    }

    pub(crate) async fn claim_up_to(&mut self, limit: usize) -> CheckResult {
        let want = self.want(limit);
        let due = self.jobs.values().filter(|job| job.is_due(self.now(), &self.paused)).count();
        let answer = self.store().claim(&want).await;
        let leases = match answer {
            Ok(claimed) => claimed.leases,
            Err(StoreError::Unavailable(_)) => {
                self.log("claim: unavailable");
                return self.look_at_all(Cause::Claim).await;
            }
            Err(error) => return Err(Violation(format!("claim: {error}"))),
        };
        let ids: Vec<String> =
            leases.iter().map(|lease| format!("{}@{}", lease.job.id, lease.epoch)).collect();
        self.log(&format!("claim {limit}: {ids:?}"));
        let (claimed, limited) = (leases.len(), !self.limits.is_empty());
        ensure!(limited || claimed == limit.min(due), "[19] {due} due, {limit} asked: {ids:?}");
        for lease in leases {
            self.check_lease(&lease).await?;
            self.leases.push(lease);
        }
        self.check_limits(claimed == limit)
    }

    /// Returns a claim of one of the replicas.
    pub(crate) fn want(&mut self, limit: usize) -> Claim {
        let replica = format!("replica-{}", self.random.random_range(0..3));
        let kinds = vec![KindCapacity { kind: demo(), capacity: limit, code_version: None }];
        let limits = Arc::clone(&self.limits);
        Claim { replica, limit, lease: LEASE, kinds, limits, queue_capacity: None }
    }

    /// Checks that running jobs are within the limits, and that claims take every job that the
    /// limits allow.
    fn check_limits(&self, full: bool) -> CheckResult {
        let kept = || self.jobs.values().filter(|job| !job.gone);
        let running = |of: &dyn Fn(&Job) -> bool| {
            kept().filter(|job| job.status() == Status::Running && of(&job.record.job)).count()
        };
        let is_over = |limit: FlowLimit, of: &dyn Fn(&Job) -> bool, more: usize| {
            limit.running_max.is_some_and(|max| running(of) + more > max as usize)
        };
        // True if this many more running jobs would exceed the limits of the job's queue or tenant.
        let exceeds = |job: &Job, more| {
            let in_queue = |other: &Job| other.queue == job.queue;
            let of_tenant = |other: &Job| other.tenant == job.tenant;
            is_over(self.limits.queue(&job.queue), &in_queue, more)
                || is_over(self.limits.tenants, &of_tenant, more)
        };
        for job in kept() {
            let runs = job.status() == Status::Running;
            let over = runs && exceeds(&job.record.job, 0);
            ensure!(!over, "[20] more runs than may beside {}", job.id());
            let waits = !full && job.is_due(self.now(), &self.paused);
            let left = waits && !exceeds(&job.record.job, 1);
            ensure!(!left, "[20] {} waits and nothing holds it back", job.id());
        }
        Ok(())
    }

    pub(crate) async fn check_lease(&mut self, lease: &Lease) -> CheckResult {
        let id = lease.job.id;
        let (now, paused) = (self.now(), &self.paused);
        let Some(job) = self.jobs.get(&id) else {
            return Err(Violation(format!("[1] {id} was claimed and never submitted")));
        };
        ensure!(job.is_due(now, paused), "[5] {id} is not in line: {:?}", job.record.job);
        ensure!(lease.epoch > job.last_epoch, "[3] {id}: {} → {}", job.last_epoch, lease.epoch);
        ensure!(lease.input == job.input, "{id}: its input is {:?}", lease.input);
        let attempt = job.record.job.attempt;
        if let Some(charge) = job.charge {
            let want = attempt + u32::from(charge || attempt == 0);
            ensure!(lease.job.attempt == want, "[8] {id}: {} and not {want}", lease.job.attempt);
        }
        job.check_steps(&lease.steps)?;
        let news = self.look(id, Cause::Claim).await?;
        ensure!(news.len() == 1, "[6] a claim of {id} is told as {news:?}");
        let job = self.jobs.get_mut(&id).unwrap();
        ensure!(lease.job == job.record.job, "{id} as claimed is {:?}", lease.job);
        job.holder = Holder::Lease(lease.epoch);
        job.last_epoch = lease.epoch;
        Ok(())
    }

    /// Picks a lease, usually one that is still held.
    fn some_lease(&mut self) -> Option<Lease> {
        let any = self.random.random_bool(0.3);
        let holds =
            |lease: &&Lease| any || self.jobs[&lease.job.id].holder == Holder::Lease(lease.epoch);
        let leases: Vec<&Lease> = self.leases.iter().filter(holds).collect();
        if leases.is_empty() {
            return None;
        }
        let at = self.random.random_range(0..leases.len());
        Some(leases[at].clone())
    }

    /// Checks that a write is accepted if and only if it carries the current epoch.
    fn check_write<T: std::fmt::Debug>(
        &self,
        lease: &Lease,
        answer: &Result<T, StoreError>,
    ) -> CheckResult {
        let (id, epoch) = (lease.job.id, lease.epoch);
        let holder = self.jobs[&id].holder;
        let right = match answer {
            Err(StoreError::Unavailable(_)) => true,
            Err(StoreError::LeaseLost) => holder != Holder::Lease(epoch) || self.is_late(lease),
            Err(_) | Ok(_) => holder == Holder::Lease(epoch),
        };
        ensure!(right, "[3] a write to {id} with {epoch}, held by {holder:?}: {answer:?}");
        Ok(())
    }

    /// Returns true if the lease may have expired. A store may reject it before the rescue ends it.
    fn is_late(&self, lease: &Lease) -> bool {
        lease.expires_at <= self.now()
    }

    pub(crate) async fn renew(&mut self) -> CheckResult {
        let Some(lease) = self.some_lease() else { return Ok(()) };
        let answer = self.store().renew(vec![lease.to_ref()], LEASE).await;
        self.log(&format!("renew {}@{}: {answer:?}", lease.job.id, lease.epoch));
        let asked = self.jobs[&lease.job.id].record.job.cancel_requested_at.is_some();
        let answer = match answer.as_deref() {
            Ok([Renewal::Kept { cancel_requested }]) => {
                ensure!(*cancel_requested == asked, "[15] {}: {answer:?}", lease.job.id);
                let expires_at = self.now().after(LEASE);
                for held in self.leases.iter_mut().filter(|held| held.epoch == lease.epoch) {
                    if held.job.id == lease.job.id {
                        held.expires_at = expires_at;
                    }
                }
                Ok(())
            }
            Ok(_) => Err(StoreError::LeaseLost),
            Err(error) => Err(error.clone()),
        };
        self.check_write(&lease, &answer)?;
        self.look(lease.job.id, Cause::Nothing).await.map(drop)
    }

    pub(crate) async fn checkpoint(&mut self) -> CheckResult {
        let Some(lease) = self.some_lease() else { return Ok(()) };
        let (id, position) = (lease.job.id, self.random.random_range(0..5));
        let (name, output) = (format!("step-{position}"), self.random.random_range(0..2));
        let output = json(&output.to_string());
        let stored = self.jobs[&id].steps.get(&name).cloned();
        let answer = self
            .store()
            .checkpoint(Checkpoint {
                lease: lease.to_ref(),
                name: name.clone(),
                position,
                output: output.clone(),
                alone: true,
                started_at: self.now(),
            })
            .await;
        self.log(&format!("checkpoint {id}@{} {name}={output:?}: {answer:?}", lease.epoch));
        self.check_write(&lease, &answer)?;
        let differs = stored.as_ref().is_some_and(|(_, stored)| *stored != output);
        let asked = self.jobs[&id].record.job.cancel_requested_at.is_some();
        match &answer {
            Ok(CheckpointResult { cancel_requested }) => {
                ensure!(!differs, "[4] {name} of {id} was stored as {stored:?}");
                ensure!(*cancel_requested == asked, "[15] {id}: {answer:?}");
            }
            Err(StoreError::StepConflict { .. }) => ensure!(differs, "[4] {name} of {id}"),
            Err(StoreError::LeaseLost | StoreError::Unavailable(_)) => {}
            Err(error) => return Err(Violation(format!("checkpoint: {error}"))),
        }
        let unknown = matches!(answer, Err(StoreError::Unavailable(_)));
        if stored.is_none() && (answer.is_ok() || (unknown && self.has_step(id, &name).await)) {
            let holds = self.jobs[&id].holder == Holder::Lease(lease.epoch);
            ensure!(holds, "[3] a step of {id} by {}", lease.epoch);
            self.jobs.get_mut(&id).unwrap().steps.insert(name, (position, output));
        }
        self.look_at_steps(id).await?;
        // A checkpoint may or may not raise the version; it is not a transition.
        let news = self.look(id, Cause::Nothing).await?;
        ensure!(news.is_empty(), "[6] a checkpoint of {id} is told as {news:?}");
        Ok(())
    }

    async fn has_step(&self, id: JobId, name: &str) -> bool {
        let steps = self.truth().steps(&self.jobs[&id].tenant, id).await;
        steps.is_ok_and(|steps| steps.iter().any(|step| step.name == name))
    }

    fn some_words(&mut self) -> (Vec<String>, Option<Progress>) {
        let random = &mut self.random;
        let phases = (0..random.random_range(0..3)).map(|n| format!("phase-{n}")).collect();
        let done = random.random_range(0..100);
        let progress =
            random.random_bool(0.5).then_some(Progress { done, total: None, message: None });
        (phases, progress)
    }

    /// Returns the phases that watchers must see: none after a cancellation request.
    fn owed_phases<'a>(&self, id: JobId, phases: &'a [String]) -> &'a [String] {
        let stops = self.jobs[&id].record.job.cancel_requested_at.is_some();
        if stops { &[] } else { phases }
    }

    pub(crate) async fn report(&mut self) -> CheckResult {
        let Some(lease) = self.some_lease() else { return Ok(()) };
        let (id, (phases, progress)) = (lease.job.id, self.some_words());
        let owed = self.owed_phases(id, &phases);
        let report =
            Report { lease: lease.to_ref(), phases: phases.clone(), progress: progress.clone() };
        let answer = self.store().report(vec![report]).await.remove(0);
        self.log(&format!("report {id}@{} {phases:?}: {answer:?}", lease.epoch));
        self.check_write(&lease, &answer)?;
        let news = self.look(id, Cause::Report).await?;
        ensure!(news.len() == owed.len() || (answer.is_err() && news.is_empty()), "[6] {news:?}");
        if answer.is_ok() {
            let told: Vec<_> = news.into_iter().filter_map(|event| event.phase).collect();
            ensure!(told == owed, "[6] {id} went through {phases:?}, told {told:?}");
            let shown = &self.jobs[&id].record.job.progress;
            ensure!(progress.is_none() || *shown == progress, "{id} shows {shown:?}");
        }
        Ok(())
    }

    fn some_outcome(&mut self) -> Outcome {
        let random = &mut self.random;
        let retry_in = Duration::from_millis(random.random_range(0..5_000));
        match random.random_range(0..8) {
            0..3 => Outcome::Completed(json(&random.random_range(0..100).to_string())),
            3..5 => Outcome::Failed { error: JobError::retryable("line cut"), retry_in },
            5 => Outcome::Failed { error: JobError::fatal("no such page"), retry_in },
            6 => match random.random_range(0..2) {
                0 => Outcome::Cancelled,
                _ => Outcome::Sleep { until: self.clock.now().after(retry_in) },
            },
            _ => Outcome::Released,
        }
    }

    pub(crate) async fn settle(&mut self) -> CheckResult {
        let Some(lease) = self.some_lease() else { return Ok(()) };
        let outcome = self.some_outcome();
        let (phases, progress) = self.some_words();
        self.settle_as(
            Settlement {
                lease: lease.to_ref(),
                outcome,
                phases,
                progress,
                artifacts: Vec::new(),
                tokens: longhaul::job::Tokens::default(),
            },
            &lease,
        )
        .await
    }

    pub(crate) async fn settle_as(&mut self, end: Settlement, lease: &Lease) -> CheckResult {
        let (id, epoch) = (lease.job.id, lease.epoch);
        let job = &self.jobs[&id];
        let (standing, said_before) = (standing(&job.record.job), job.settled.contains(&epoch));
        let held = job.holder == Holder::Lease(epoch);
        let owed = self.owed_phases(id, &end.phases).len() + 1;
        let next = end.outcome.clone().disposition(standing, self.now());
        let answer = self.store().settle(vec![end.clone()]).await.remove(0);
        self.log(&format!("settle {id}@{epoch} {:?}: {answer:?}", end.outcome));
        if !said_before {
            self.check_write(lease, &answer)?;
        }
        let cause = if held { Cause::Settle } else { Cause::Nothing };
        let news = self.look(id, cause).await?;
        if answer.is_ok() && held {
            ensure!(news.len() == owed, "[6] {id} settled as {news:?}");
        }
        let Some(last) = news.last() else { return Ok(()) };
        let want = Status::Running.on(next.command());
        ensure!(
            want == Transition::Move(last.status),
            "[5] {:?} made {id} {}",
            end.outcome,
            last.status
        );
        let job = self.jobs.get_mut(&id).unwrap();
        job.settled.insert(epoch);
        match next {
            Disposition::Complete(result) => {
                ensure!(job.record.result.as_ref() == Some(&result), "[7] {:?}", job.record.result);
            }
            Disposition::Requeue { run_at, charge, .. } => {
                job.charge = Some(charge);
                ensure!(job.record.job.run_at == run_at, "{id} is due {}", job.record.job.run_at);
            }
            Disposition::Fail(_) | Disposition::Stop => job.charge = Some(true),
        }
        if let Ok(settled) = answer {
            let now = &job.record.job;
            let told = (settled.status, settled.version, settled.run_at);
            ensure!(told == (now.status, now.version, now.run_at), "{id}: {settled:?}");
        }
        Ok(())
    }
}

fn standing(job: &Job) -> AttemptContext {
    AttemptContext {
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        cancel_requested: job.cancel_requested_at.is_some(),
    }
}
