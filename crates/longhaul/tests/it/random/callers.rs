//! Client calls of the simulation.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::job::{
    Command, Fingerprint, Job, JobId, Json, Name, Record, Retention, Status, Transition,
};
use longhaul::store::conformance::{demo, json};
use longhaul::store::{Filter, NewJob, PageRequest, Start, StoreError, SubmitResult};
use longhaul::store::{JobStore as _, WorkerStore as _};
use rand::RngExt;
use rand::seq::IndexedRandom;

use super::checker::{Cause, CheckResult, TrackedJob, Violation, ensure};
use super::simulation::Simulation;

/// Returns the record as it was before the claim of a job that was leased with its submission.
fn as_submitted(mut record: Record) -> Record {
    if record.job.status == Status::Running {
        record.history.truncate(1);
        let job = &mut record.job;
        (job.status, job.version, job.attempt, job.started_at) = (Status::Pending, 1, 0, None);
    }
    record
}

impl Simulation {
    fn some_new_job(&mut self) -> NewJob {
        let tenant = self.some_tenant();
        let random = &mut self.random;
        let input: Json = json(&random.random_range(0..4).to_string());
        let key = random.random_bool(0.6).then(|| format!("key-{}", random.random_range(0..6)));
        let key_id = random.random_bool(0.3).then(|| format!("k{}", random.random_range(0..2)));
        let secs = Duration::from_secs;
        let start = match random.random_range(0..5) {
            0 => Start::In(Duration::from_millis(random.random_range(0..60_000))),
            1 => Start::At(self.clock.now().after(secs(random.random_range(0..60)))),
            _ => Start::Now,
        };
        let retention = Retention {
            completed: secs(random.random_range(0..300)),
            failed: secs(random.random_range(0..600)),
        };
        NewJob {
            tenant,
            id: self.new_id(),
            kind: demo(),
            queue: self.some_queue(),
            priority: self.random.random_range(-2..=2),
            fingerprint: Fingerprint::of(&demo(), &input, None).unwrap(),
            input,
            idempotency_key: key,
            start,
            max_attempts: self.random.random_range(1..4),
            timeout: None,
            labels: BTreeMap::new(),
            retention,
            parent_id: None,
            payload: None,
            key_id,
            webhook: None,
        }
    }

    pub(crate) async fn submit(&mut self) -> CheckResult {
        let batch: Vec<NewJob> =
            (0..self.random.random_range(1..4)).map(|_| self.some_new_job()).collect();
        let answers = self.store().submit(batch.clone()).await;
        ensure!(answers.len() == batch.len(), "{} answers", answers.len());
        for (new, answer) in batch.into_iter().zip(answers) {
            self.check_submission(new, answer).await?;
        }
        Ok(())
    }

    /// Submits one job that a replica would start at once.
    pub(crate) async fn submit_and_claim(&mut self) -> CheckResult {
        let (new, want) = (self.some_new_job(), self.want(1));
        let id = new.id;
        let is_of_tenant = |job: &&TrackedJob| job.record.job.tenant == new.tenant;
        let is_due = |job: &TrackedJob| job.is_due(self.now(), &self.paused);
        let comes_first = self.jobs.values().filter(is_of_tenant).any(is_due)
            || self.paused.contains(&(new.tenant.clone(), new.queue.clone()));
        let starts = want.may_start(&new) && !comes_first;
        let answer = self.store().submit_and_claim(new.clone(), &want).await;
        let created = matches!(&answer, Ok((submitted, _)) if submitted.created);
        let (answer, lease) = match answer {
            Ok((submitted, lease)) => (Ok(submitted), lease),
            Err(error) => (Err(error), None),
        };
        let is_unknown = matches!(answer, Err(StoreError::Unavailable(_)));
        self.check_submission(new, answer).await?;
        let has_lease = lease.is_some();
        self.log(&format!("  its lease: {:?}", lease.as_ref().map(|lease| lease.epoch)));
        ensure!(
            is_unknown || has_lease == (starts && created),
            "[19] {id}: leased {has_lease}, due {starts}, created {created}"
        );
        match lease {
            Some(lease) => {
                self.check_lease(&lease).await?;
                self.leases.push(lease);
            }
            None if self.jobs.contains_key(&id) => {
                let news = self.look(id, Cause::Claim).await?;
                ensure!(is_unknown || news.is_empty(), "[6] {id} was claimed: {news:?}");
            }
            None => {}
        }
        Ok(())
    }

    async fn check_submission(
        &mut self,
        new: NewJob,
        answer: Result<SubmitResult, StoreError>,
    ) -> CheckResult {
        let known = new
            .idempotency_key
            .as_ref()
            .and_then(|key| self.keys.get(&(new.tenant.clone(), key.clone())).copied());
        let told = answer.as_ref().map(|s| (s.record.job.id, s.created));
        self.log(&format!("submit {} {:?}: {told:?}", new.id, new.idempotency_key));
        let same = known.is_some_and(|id| self.jobs[&id].fingerprint == new.fingerprint);
        match (answer, known) {
            (Ok(answer), None) => {
                ensure!(answer.created, "[2] {} is not new to its key", new.id);
                ensure!(answer.record.job.id == new.id, "[2] {} got another id", new.id);
                self.track(new).await?;
            }
            (Ok(answer), Some(id)) => {
                ensure!(!answer.created, "[2] a second job under {:?}", new.idempotency_key);
                ensure!(answer.record.job.id == id, "[2] the key names {id}");
                ensure!(same, "[2] {id} was given out for another fingerprint");
            }
            (Err(StoreError::KeyReused { existing }), known) => {
                ensure!(known == Some(existing), "[2] {existing} refused, {known:?} known");
                ensure!(!same, "[2] the same submission was refused");
            }
            (Err(StoreError::Unavailable(_)), _) => {
                // The client does not know whether the call committed, so the checker reads the
                // store.
                if self.truth().job(&new.tenant, new.id).await.is_ok() {
                    ensure!(known.is_none(), "[2] a second job {}", new.id);
                    self.track(new).await?;
                }
            }
            (Err(error), _) => return Err(Violation(format!("submit: {error}"))),
        }
        Ok(())
    }

    async fn track(&mut self, new: NewJob) -> CheckResult {
        let id = new.id;
        let record = self.truth().job(&new.tenant, id).await;
        let record = record.map_err(|e| Violation(format!("[1] {id} was accepted: {e}")))?;
        let record = as_submitted(record);
        if let Some(key) = &new.idempotency_key {
            let by_key = self.truth().job_by_key(&new.tenant, key).await;
            let found = by_key.map(|record| record.job.id);
            ensure!(found == Ok(id), "[2] {key} leads to {found:?} and not to {id}");
            self.keys.insert((new.tenant.clone(), key.clone()), id);
        }
        let mut job =
            TrackedJob::new(new.tenant, new.idempotency_key, new.fingerprint, new.input, record)?;
        job.meter.key = new.key_id;
        self.jobs.insert(id, job);
        Ok(())
    }

    /// Checks the result of a caller's command against the status machine.
    fn check_command<T: std::fmt::Debug>(
        &self,
        id: JobId,
        command: Command,
        answer: &Result<T, StoreError>,
    ) -> CheckResult {
        let job = &self.jobs[&id];
        let status = job.status();
        // Cancelling a cancelled job is accepted and changes nothing.
        let again = command == Command::Cancel && status == Status::Cancelled;
        let right = match answer {
            Err(StoreError::Unavailable(_)) => true,
            Err(StoreError::Gone | StoreError::NotFound) => job.gone,
            Err(error) => {
                !job.gone
                    && status.on(command) == Transition::Reject
                    && *error == StoreError::WrongStatus { status, command }
            }
            Ok(_) => !job.gone && (again || status.on(command) != Transition::Reject),
        };
        ensure!(right, "[5] {command} of {id}, which is {status}: {answer:?}");
        Ok(())
    }

    pub(crate) async fn cancel(&mut self) -> CheckResult {
        let Some(id) = self.some_job() else { return Ok(()) };
        let tenant = self.jobs[&id].tenant.clone();
        let job = &self.jobs[&id].record.job;
        let asked_before = job.cancel_requested_at.is_some() || job.status == Status::Cancelled;
        let answer = self.store().cancel(&tenant, id).await;
        self.log(&format!("cancel {id}: {:?}", answer.as_ref().map(|job| job.status)));
        self.check_command(id, Command::Cancel, &answer)?;
        let news = self.look(id, Cause::Cancel).await?;
        if let Ok(job) = answer {
            ensure!(news.is_empty() == asked_before, "[6] cancel of {id} is told as {news:?}");
            ensure!(job == self.jobs[&id].record.job, "cancel answers {job:?}");
            ensure!(job.cancel_requested_at.is_some() || job.status.is_terminal(), "[15] {id}");
        }
        Ok(())
    }

    pub(crate) async fn resume(&mut self) -> CheckResult {
        let ended = self.some_job_that_is(&[Status::Failed, Status::Cancelled]);
        let Some(id) = ended.or(self.some_job()) else { return Ok(()) };
        let tenant = self.jobs[&id].tenant.clone();
        let answer = self.store().resume(&tenant, id).await;
        self.log(&format!("resume {id}: {:?}", answer.as_ref().map(|job| job.max_attempts)));
        self.check_command(id, Command::Resume, &answer)?;
        let news = self.look(id, Cause::Resume).await?;
        ensure!(answer.is_err() || news.len() == 1, "[5] resume is {news:?}");
        if !news.is_empty() {
            let job = self.jobs.get_mut(&id).unwrap();
            // If the job ended after a released attempt, the next claim may continue that attempt
            // or charge a new one.
            job.charge = job.charge.filter(|charge| *charge);
            let left = job.record.job.max_attempts - job.record.job.attempt;
            ensure!(left >= 1, "[8] {id} was resumed with no attempt left");
            self.look_at_steps(id).await?;
        }
        Ok(())
    }

    pub(crate) async fn fork(&mut self) -> CheckResult {
        let Some(id) = self.some_job() else { return Ok(()) };
        let tenant = self.jobs[&id].tenant.clone();
        let names: Vec<String> = self.jobs[&id].steps.keys().cloned().collect();
        let from = names.choose(&mut self.random).cloned();
        let from = from.filter(|_| self.random.random_bool(0.7));
        let new_id = self.new_id();
        let answer = self.store().fork(&tenant, id, new_id, from.as_deref()).await;
        self.log(&format!("fork {id} as {new_id} from {from:?}: {:?}", answer.as_ref().err()));
        let parent = &self.jobs[&id];
        ensure!(answer.is_err() || !parent.gone, "[1] fork of {id}, which is gone");
        let Ok(record) = self.truth().job(&tenant, new_id).await else {
            ensure!(answer.is_err(), "[1] fork {new_id} was acknowledged");
            let expected = parent.gone || matches!(answer, Err(StoreError::Unavailable(_)));
            ensure!(expected, "fork of {id}: {answer:?}");
            return Ok(());
        };
        ensure!(record.job.forked_from == Some(id), "[16] {new_id}: {:?}", record.job.forked_from);
        let (fingerprint, input) = (parent.fingerprint, parent.input.clone());
        let mut fork = TrackedJob::new(tenant, None, fingerprint, input, record)?;
        let end = from.map_or(u32::MAX, |name| parent.steps[&name].0);
        let shared = parent.steps.iter().filter(|(_, (position, _))| *position < end);
        fork.steps = shared.map(|(name, step)| (name.clone(), step.clone())).collect();
        fork.meter.key.clone_from(&parent.meter.key);
        fork.meter.steps = fork.steps.len();
        self.jobs.insert(new_id, fork);
        self.look(id, Cause::Nothing).await?;
        self.look_at_steps(new_id).await.map_err(|Violation(why)| Violation(format!("[16] {why}")))
    }

    pub(crate) async fn purge(&mut self) -> CheckResult {
        let Some(id) = self.some_job() else { return Ok(()) };
        self.purge_one(id).await
    }

    pub(crate) async fn purge_one(&mut self, id: JobId) -> CheckResult {
        let tenant = self.jobs[&id].tenant.clone();
        let answer = self.store().purge(&tenant, id).await;
        self.log(&format!("purge {id}: {answer:?}"));
        self.check_command(id, Command::Purge, &answer)?;
        self.look(id, Cause::Purge).await?;
        ensure!(answer.is_err() || self.jobs[&id].gone, "[12] {id} was purged and is there");
        Ok(())
    }

    pub(crate) async fn pause(&mut self) -> CheckResult {
        let (tenant, queue) = (self.some_tenant(), self.some_queue());
        let pause = self.random.random_bool(0.4);
        let answer = self.store().pause_queue(&tenant, &queue, pause).await;
        self.log(&format!("pause {tenant}/{queue} {pause}: {answer:?}"));
        let queues = self.truth().queues(&tenant).await.unwrap();
        let paused = queues.iter().any(|state| state.name == queue && state.paused);
        ensure!(answer.is_err() || paused == pause, "{queue} is paused: {paused}");
        let queue: (_, Name) = (tenant, queue);
        if paused {
            self.paused.insert(queue);
        } else {
            self.paused.remove(&queue);
        }
        Ok(())
    }

    pub(crate) async fn ask_as_another_tenant(&mut self) -> CheckResult {
        let Some(id) = self.some_job() else { return Ok(()) };
        let other = self.some_tenant();
        if other == self.jobs[&id].tenant {
            return Ok(());
        }
        let new_id = self.new_id();
        let truth = self.truth();
        let answers = [
            truth.job(&other, id).await.map(drop),
            truth.input(&other, id).await.map(drop),
            truth.steps(&other, id).await.map(drop),
            truth.cancel(&other, id).await.map(drop),
            truth.resume(&other, id).await.map(drop),
            truth.fork(&other, id, new_id, None).await.map(drop),
            truth.purge(&other, id).await,
        ];
        let silent = answers.iter().all(|answer| *answer == Err(StoreError::NotFound));
        ensure!(silent, "[11] {other} learns of {id}: {answers:?}");
        self.look(id, Cause::Nothing).await.map(drop)
    }

    /// Checks that each tenant's list holds exactly the jobs of that tenant.
    pub(crate) async fn look_at_lists(&mut self) -> CheckResult {
        let tenant = self.some_tenant();
        let page = PageRequest { examined_max: 10_000, ..PageRequest::new(10_000, None) };
        let page = self.truth().jobs(&tenant, &Filter::default(), &page).await;
        let page = page.map_err(|error| Violation(format!("list: {error}")))?;
        let listed: Vec<JobId> = page.jobs.iter().map(|job| job.id).collect();
        let ours = self.jobs.values().rev().filter(|job| job.tenant == tenant && !job.gone);
        let ours: Vec<JobId> = ours.map(TrackedJob::id).collect();
        ensure!(listed == ours, "[11] {tenant} lists {listed:?} and has {ours:?}");
        for job in page.jobs {
            ensure!(job == self.jobs[&job.id].record.job, "[6] the list shows {job:?}");
        }
        let waits = |job: &&TrackedJob| job.tenant == tenant && job.status() == Status::Pending;
        let waiting = self.jobs.values().filter(|job| !job.gone).filter(waits).count();
        let pending = self.truth().count_pending(&tenant, None, u64::MAX).await.unwrap();
        ensure!(usize::try_from(pending) == Ok(waiting), "{pending} pending, not {waiting}");
        Ok(())
    }

    /// Checks that version queries agree with full reads for every job.
    pub(crate) async fn glimpse_all(&mut self) -> CheckResult {
        let looker = self.some_tenant();
        let asked: Vec<_> = self.jobs.keys().map(|id| (looker.clone(), *id)).collect();
        let glimpses = self.truth().versions(&asked).await.unwrap();
        ensure!(glimpses.len() == asked.len(), "[6] {} of {}", glimpses.len(), asked.len());
        for (job, glimpse) in self.jobs.values().zip(glimpses) {
            let Job { id, version, status, .. } = job.record.job;
            let seen = glimpse.map(|glimpse| (glimpse.version, glimpse.status));
            let theirs = job.tenant != looker;
            ensure!(!theirs || seen.is_none(), "[11] {looker} glimpses {id}");
            let there = (!job.gone).then_some((version, status));
            ensure!(theirs || seen == there, "[6] {id} is glimpsed as {seen:?}, not {there:?}");
        }
        Ok(())
    }
}
