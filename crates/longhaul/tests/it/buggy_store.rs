//! Stores with one planted bug each, because a checker that has never caught a bug proves nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::clock::Clock;
use longhaul::job::{
    Job, JobId, Json, Outcome, Record, Status, Step, TenantId, Timestamp, UsageRow,
};
use longhaul::store::{
    Checkpoint, CheckpointResult, Claim, ClaimResult, FlowLimits, JobStore, JobVersion, Lease,
    LeaseRef, MaintenanceStore, NewJob, Renewal, Report, SettleResult, Settlement, Store,
    StoreError, SubmitResult, WorkerStore,
};

use crate::model_store::ModelStore;
use crate::random::InMemory;
use crate::random::checker::Violation;
use crate::random::simulation::play;
use crate::random::sqlite::OnDisk;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// The control: the wrapper without a bug.
    None,
    AcknowledgedBeforeCommit,
    KeyIgnored,
    LateSettleAccepted,
    EpochNotRaised,
    StepOverwritten,
    LostEvent,
    StaleRead,
    RetryNotCharged,
    CancelledGoesBackInLine,
    DeletedBeforeItsTime,
    TenantIgnored,
    ForkSharesEverything,
    ClaimForgotten,
    StaleGlimpse,
    GlimpseIgnoresTenant,
    LimitIgnored,
    RoomGivenBackTwice,
    RoomNeverGivenBack,
    RetriedSettleCountedTwice,
    SweptJobNotCounted,
    UsageSharedWithOthers,
    HandOffForgotten,
    HandOffNotStored,
    HandOffIgnoresPause,
    CheckpointHidesCancel,
}

struct BuggyStore {
    inner: ModelStore,
    clock: Clock,
    bug: Bug,
    /// A std mutex: held for a lookup, never across an await.
    notes: Mutex<Notes>,
}

/// State that the bugs need.
#[derive(Default)]
struct Notes {
    calls: u64,
    epochs: HashMap<JobId, u64>,
    tenants: HashMap<JobId, TenantId>,
    outputs: HashMap<(JobId, String), Json>,
    read: HashMap<JobId, Record>,
    settled: u32,
    /// Jobs that their workers have settled.
    ended: HashSet<JobId>,
    /// Error in the number of counted jobs, by tenant.
    miscounted: HashMap<TenantId, i64>,
}

impl BuggyStore {
    fn new(clock: Clock, bug: Bug) -> Self {
        let inner = ModelStore::new(clock.clone());
        Self { inner, clock, bug, notes: Mutex::default() }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    /// Returns true for one call in `n`.
    fn every(&self, n: u64) -> bool {
        let mut notes = self.notes.lock().unwrap();
        notes.calls += 1;
        notes.calls.is_multiple_of(n)
    }

    /// Returns the lease as a store without fencing would accept it.
    fn unfenced(&self, lease: LeaseRef, bugs: &[Bug]) -> LeaseRef {
        let notes = self.notes.lock().unwrap();
        match notes.epochs.get(&lease.job) {
            Some(epoch) if bugs.contains(&self.bug) => LeaseRef { epoch: *epoch, ..lease },
            Some(_) | None => lease,
        }
    }

    /// Returns the limits as a store that miscounts ended jobs would see them.
    fn miscounted(&self, limits: &FlowLimits) -> FlowLimits {
        let ended = self.notes.lock().unwrap().settled / 10;
        let mut seen = limits.clone();
        let tenants = &mut seen.tenants.running_max;
        if self.is(Bug::LimitIgnored) {
            return FlowLimits::default();
        }
        if self.is(Bug::RoomGivenBackTwice) {
            *tenants = tenants.map(|max| max + ended);
        }
        if self.is(Bug::RoomNeverGivenBack) {
            *tenants = tenants.map(|max| max.saturating_sub(ended));
        }
        seen
    }

    /// Changes usage to that of a store that counts some jobs too often or never.
    fn miscount(&self, tenant: &TenantId, rows: &mut [UsageRow]) {
        let by = self.notes.lock().unwrap().miscounted.get(tenant).copied().unwrap_or_default();
        if let Some(row) = rows.first_mut() {
            row.usage.jobs = row.usage.jobs.saturating_add_signed(by);
        }
    }

    fn overwritten(&self, id: JobId, mut steps: Vec<Step>) -> Vec<Step> {
        let notes = self.notes.lock().unwrap();
        for step in &mut steps {
            if let Some(output) = notes.outputs.get(&(id, step.name.clone())) {
                step.output = output.clone();
            }
        }
        steps
    }
}

impl BuggyStore {
    async fn submit(&self, mut jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        for job in &mut jobs {
            self.notes.lock().unwrap().tenants.insert(job.id, job.tenant.clone());
            if self.is(Bug::KeyIgnored) {
                job.idempotency_key = None;
            }
        }
        if self.is(Bug::AcknowledgedBeforeCommit) && self.every(10) {
            return ModelStore::new(self.clock.clone()).submit(jobs).await;
        }
        self.inner.submit(jobs).await
    }

    async fn job(&self, tenant: &TenantId, id: JobId) -> Result<Record, StoreError> {
        let owner = self.notes.lock().unwrap().tenants.get(&id).cloned();
        let tenant = owner.as_ref().filter(|_| self.is(Bug::TenantIgnored)).unwrap_or(tenant);
        let mut record = self.inner.job(tenant, id).await?;
        if self.is(Bug::LostEvent) {
            record.history.retain(|event| event.version % 8 != 5);
        }
        let stale = self.is(Bug::StaleRead) && self.every(20);
        let mut notes = self.notes.lock().unwrap();
        let before = notes.read.insert(id, record.clone());
        Ok(before.filter(|_| stale).unwrap_or(record))
    }

    async fn steps(&self, tenant: &TenantId, id: JobId) -> Result<Vec<Step>, StoreError> {
        Ok(self.overwritten(id, self.inner.steps(tenant, id).await?))
    }

    async fn fork(
        &self,
        tenant: &TenantId,
        id: JobId,
        new_id: JobId,
        from_step: Option<&str>,
    ) -> Result<Job, StoreError> {
        let from_step = from_step.filter(|_| !self.is(Bug::ForkSharesEverything));
        self.inner.fork(tenant, id, new_id, from_step).await
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        let mut asked = jobs.to_vec();
        if self.is(Bug::GlimpseIgnoresTenant) {
            let notes = self.notes.lock().unwrap();
            for (tenant, id) in &mut asked {
                if let Some(owner) = notes.tenants.get(id) {
                    tenant.clone_from(owner);
                }
            }
        }
        let mut glimpses = self.inner.versions(&asked).await?;
        if self.is(Bug::StaleGlimpse) {
            for glimpse in glimpses.iter_mut().flatten().filter(|glimpse| glimpse.version > 3) {
                glimpse.version -= 1;
            }
        }
        Ok(glimpses)
    }

    async fn submit_and_claim(
        &self,
        mut job: NewJob,
        want: &Claim,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError> {
        self.notes.lock().unwrap().tenants.insert(job.id, job.tenant.clone());
        if self.is(Bug::KeyIgnored) {
            job.idempotency_key = None;
        }
        if self.is(Bug::HandOffIgnoresPause) {
            self.inner.pause_queue(&job.tenant, &job.queue, false).await?;
        }
        if self.is(Bug::HandOffNotStored) && self.every(3) {
            // Leased in a store that is lost.
            let lost = ModelStore::new(self.clock.clone());
            let (_, lease) = lost.submit_and_claim(job.clone(), want).await?;
            let submitted = self.inner.submit(vec![job]).await.remove(0)?;
            return Ok((submitted, lease));
        }
        let limits = Arc::new(self.miscounted(&want.limits));
        let want = Claim { limits, ..want.clone() };
        let (submitted, lease) = self.inner.submit_and_claim(job, &want).await?;
        if let Some(lease) = &lease {
            self.notes.lock().unwrap().epochs.insert(lease.job.id, lease.epoch);
        }
        Ok((submitted, lease.filter(|_| !self.is(Bug::HandOffForgotten))))
    }

    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let limits = Arc::new(self.miscounted(&want.limits));
        let mut claimed = self.inner.claim(&Claim { limits, ..want.clone() }).await?;
        for lease in &mut claimed.leases {
            lease.steps = self.overwritten(lease.job.id, std::mem::take(&mut lease.steps));
            self.notes.lock().unwrap().epochs.insert(lease.job.id, lease.epoch);
            if self.is(Bug::EpochNotRaised) {
                lease.epoch = 1;
            }
        }
        if self.is(Bug::ClaimForgotten) && self.every(10) {
            claimed.leases.pop();
        }
        Ok(claimed)
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        let unfenced = |lease| self.unfenced(lease, &[Bug::EpochNotRaised]);
        self.inner.renew(leases.into_iter().map(unfenced).collect(), duration).await
    }

    async fn report(&self, mut reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        for report in &mut reports {
            report.lease = self.unfenced(report.lease.clone(), &[Bug::EpochNotRaised]);
        }
        self.inner.report(reports).await
    }

    async fn checkpoint(&self, mut checkpoint: Checkpoint) -> Result<CheckpointResult, StoreError> {
        checkpoint.lease = self.unfenced(checkpoint.lease, &[Bug::EpochNotRaised]);
        let step = (checkpoint.lease.job, checkpoint.name.clone());
        let output = checkpoint.output.clone();
        match self.inner.checkpoint(checkpoint).await {
            Err(StoreError::StepConflict { .. }) if self.is(Bug::StepOverwritten) => {
                self.notes.lock().unwrap().outputs.insert(step, output);
                Ok(CheckpointResult { cancel_requested: false })
            }
            Ok(_) if self.is(Bug::CheckpointHidesCancel) => {
                Ok(CheckpointResult { cancel_requested: false })
            }
            answer => answer,
        }
    }

    async fn settle(
        &self,
        mut settlements: Vec<Settlement>,
    ) -> Vec<Result<SettleResult, StoreError>> {
        let (mut ended, now) = (Vec::new(), self.now());
        for end in &mut settlements {
            let bugs = [Bug::EpochNotRaised, Bug::LateSettleAccepted];
            end.lease = self.unfenced(end.lease.clone(), &bugs);
            if let Outcome::Failed { error, retry_in } = &end.outcome
                && error.retryable
                && self.is(Bug::RetryNotCharged)
            {
                end.outcome = Outcome::Sleep { until: now.after(*retry_in) };
            }
            ended.push((end.lease.tenant.clone(), end.lease.job));
        }
        let answers = self.inner.settle(settlements).await;
        for ((tenant, id), answer) in ended.iter().zip(&answers) {
            let status = answer.as_ref().map(|settled| settled.status);
            self.notes.lock().unwrap().settled += u32::from(status.is_ok());
            if self.is(Bug::CancelledGoesBackInLine) && status == Ok(Status::Cancelled) {
                self.inner.resume(tenant, *id).await.ok();
            }
            if self.is(Bug::RetriedSettleCountedTwice) && status.is_ok_and(Status::is_terminal) {
                let mut notes = self.notes.lock().unwrap();
                let again = !notes.ended.insert(*id);
                *notes.miscounted.entry(tenant.clone()).or_default() += i64::from(again);
            }
            if self.is(Bug::DeletedBeforeItsTime) && status == Ok(Status::Completed) {
                self.inner.purge(tenant, *id).await.ok();
            }
        }
        answers
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        let swept = self.inner.rescue(limit).await?;
        if self.is(Bug::SweptJobNotCounted) {
            for job in swept.iter().filter(|job| job.status.is_terminal()) {
                let mut notes = self.notes.lock().unwrap();
                *notes.miscounted.entry(job.tenant.clone()).or_default() -= 1;
            }
        }
        Ok(swept)
    }

    async fn usage(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<UsageRow>, StoreError> {
        let others = TenantId::new("acme").unwrap();
        let tenant = if self.is(Bug::UsageSharedWithOthers) { &others } else { tenant };
        let mut rows = self.inner.usage(tenant, from, to).await?;
        self.miscount(tenant, &mut rows);
        Ok(rows)
    }
}

longhaul::delegate_store!(
    impl for BuggyStore,
    to [inner],
    except submit submit_and_claim job steps fork versions claim renew report checkpoint settle rescue usage
);

/// Returns the first violation that the checker reports for a store with this bug, in at most
/// `seeds` runs.
async fn verdict(bug: Bug, seeds: u64) -> Option<String> {
    for seed in 0..seeds {
        let store = move |clock| Arc::new(BuggyStore::new(clock, bug)) as Arc<dyn Store>;
        if let Err(Violation(why)) = play(seed, Box::new(InMemory(store))).await {
            return Some(why);
        }
    }
    None
}

/// Defines tests that expect the checker to catch a bug and to report its invariant.
macro_rules! caught {
    ($($name:ident: $bug:ident as $($invariant:literal)|+;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let why = verdict(Bug::$bug, 20).await.expect("the checker should catch it");
            let named = [$($invariant),+].iter().any(|invariant| why.starts_with(invariant));
            assert!(named, "caught, but for another reason: {why}");
        })*
    };
}

caught! {
    acknowledging_before_the_commit_is_caught: AcknowledgedBeforeCommit as "[1]" | "[2]";
    ignoring_an_idempotency_key_is_caught: KeyIgnored as "[2]";
    accepting_a_settlement_with_a_stale_epoch_is_caught: LateSettleAccepted as "[3]" | "[5]";
    not_raising_the_epoch_is_caught: EpochNotRaised as "[3]";
    overwriting_a_step_is_caught: StepOverwritten as "[4]";
    losing_an_event_is_caught: LostEvent as "[5]" | "[6]";
    reading_a_stale_copy_is_caught: StaleRead as "[6]" | "[18]";
    not_charging_a_retry_is_caught: RetryNotCharged as "[5]" | "[8]";
    requeuing_a_cancelled_job_is_caught: CancelledGoesBackInLine as "[5]" | "[6]" | "[15]";
    deleting_a_job_before_its_retention_ends_is_caught: DeletedBeforeItsTime as "[1]";
    ignoring_the_tenant_of_a_job_is_caught: TenantIgnored as "[11]";
    sharing_steps_after_the_fork_point_is_caught: ForkSharesEverything as "[16]";
    forgetting_a_claimed_job_is_caught: ClaimForgotten as "[19]";
    stale_version_query_is_caught: StaleGlimpse as "[6]";
    version_query_of_another_tenants_job_is_caught: GlimpseIgnoresTenant as "[11]";
    ignoring_a_flow_limit_is_caught: LimitIgnored as "[19]" | "[20]";
    releasing_limit_capacity_twice_is_caught: RoomGivenBackTwice as "[20]";
    never_releasing_limit_capacity_is_caught: RoomNeverGivenBack as "[20]";
    counting_usage_of_a_retried_settlement_twice_is_caught: RetriedSettleCountedTwice as "[10]";
    not_counting_usage_of_a_rescued_job_is_caught: SweptJobNotCounted as "[10]";
    sharing_usage_with_other_tenants_is_caught: UsageSharedWithOthers as "[10]";
    forgetting_a_handed_off_job_is_caught: HandOffForgotten as "[19]";
    handing_off_a_job_that_is_not_leased_is_caught: HandOffNotStored as "[6]" | "[19]";
    handing_off_a_job_of_a_paused_queue_is_caught: HandOffIgnoresPause as "[5]" | "[19]";
    hiding_a_cancellation_from_a_checkpoint_is_caught: CheckpointHidesCancel as "[15]";
}

/// A database that acknowledges before its log is on disk loses acknowledged writes.
#[tokio::test]
async fn losing_the_write_ahead_log_at_a_kill_is_caught() {
    for seed in 0..20 {
        if let Err(Violation(why)) = play(seed, Box::new(OnDisk::that_loses_its_log())).await {
            let lost = ["[1]", "[4]", "[10]", "[18]"].iter().any(|one| why.starts_with(one));
            assert!(lost, "{why}");
            return;
        }
    }
    panic!("the checker should catch it");
}

/// The control: the violations come from the bugs and not from the wrapper.
#[tokio::test]
async fn wrapper_without_a_bug_passes_the_checker() {
    assert_eq!(verdict(Bug::None, 20).await, None);
}
