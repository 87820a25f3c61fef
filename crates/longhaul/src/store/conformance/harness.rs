//! The harness: a store under test, its clock, and shorthands for test cases.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::clock::Clock;
use crate::job::{
    IdSource, Job, JobError, JobId, Json, Name, Outcome, Record, TenantId, Timestamp,
};
use crate::store::testing::new_job;
use crate::store::{
    Checkpoint, CheckpointResult, Claim, ClaimResult, KindCapacity, Lease, NewJob, Report,
    SettleResult, Settlement, Store, StoreError, SubmitResult,
};

/// Lease duration in all cases.
pub const LEASE: Duration = Duration::from_secs(15);

/// Resolution of a store's time.
pub const TICK: Duration = Duration::from_millis(1);

type Reopen = Box<dyn Fn(Clock) -> Arc<dyn Store> + Send + Sync>;

/// A store under test, its clock and its declared capabilities.
pub struct StoreHarness {
    /// `None` only while the store is being reopened.
    store: RwLock<Option<Arc<dyn Store>>>,
    clock: Clock,
    ids: IdSource,
    reopen: Option<Reopen>,
    /// Resources of the store, for example its directory or database. Dropped after the store.
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl StoreHarness {
    /// Returns a manual clock to create a store with.
    pub fn clock() -> Clock {
        Clock::manual(Timestamp::from_millis(1_763_000_000_000))
    }

    /// Creates a harness for a store that uses `clock`.
    pub fn new(store: impl Store + 'static, clock: Clock) -> Self {
        Self::of(Arc::new(store), clock)
    }

    /// Creates a harness for a shared store that uses `clock`.
    pub fn of(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self {
            store: RwLock::new(Some(store)),
            clock,
            ids: IdSource::default(),
            reopen: None,
            keep: Vec::new(),
        }
    }

    /// Keeps `thing` alive for as long as the store is used.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.keep.push(Box::new(thing));
        self
    }

    /// Declares that the store is durable; `reopen` opens it again.
    #[must_use]
    pub fn reopened_by<S: Store + 'static>(
        mut self,
        reopen: impl Fn(Clock) -> S + Send + Sync + 'static,
    ) -> Self {
        self.reopen = Some(Box::new(move |clock| Arc::new(reopen(clock))));
        self
    }

    /// Returns the store.
    pub fn store(&self) -> Arc<dyn Store> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.clone().expect("the store is open")
    }

    /// Closes the store and opens it again. Returns false and does nothing if the store does not declare
    /// durability.
    pub fn reopen(&self) -> bool {
        let Some(reopen) = &self.reopen else { return false };
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        drop(store.take());
        *store = Some(reopen(self.clock.clone()));
        true
    }

    /// Advances the clock to one tick before `by` has passed.
    pub fn advance_short_of(&self, by: Duration) {
        self.advance(by.saturating_sub(TICK));
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns an id that is greater than all earlier ones.
    pub fn id(&self) -> JobId {
        self.ids.next(self.now(), 7)
    }

    // --- for clients ---

    /// Returns a submission with default values. Vary it by struct update.
    pub fn job(&self) -> NewJob {
        self.job_with(r#"{"page":1}"#)
    }

    /// Returns a submission with this input.
    pub fn job_with(&self, input: &str) -> NewJob {
        new_job(self.id(), json(input))
    }

    /// Returns a submission with this idempotency key.
    pub fn keyed(&self, key: &str) -> NewJob {
        NewJob { idempotency_key: Some(key.to_owned()), ..self.job() }
    }

    /// Returns a submission of this tenant.
    pub fn job_of(&self, tenant: &TenantId) -> NewJob {
        NewJob { tenant: tenant.clone(), ..self.job() }
    }

    /// Submits one job.
    pub async fn submit(&self, job: NewJob) -> Result<SubmitResult, StoreError> {
        let mut answers = self.store().submit(vec![job]).await;
        assert_eq!(answers.len(), 1, "one result per submission");
        answers.remove(0)
    }

    /// Submits one job and asserts that it is new.
    pub async fn accept(&self, job: NewJob) -> Job {
        let submitted = self.submit(job).await.unwrap();
        assert!(submitted.created, "a new job");
        submitted.record.job
    }

    /// Returns a new pending job.
    pub async fn pending(&self) -> Job {
        self.accept(self.job()).await
    }

    /// Returns the lease of a new running job.
    pub async fn running(&self) -> Lease {
        self.running_as(self.job()).await
    }

    /// Submits this job and returns its lease.
    pub async fn running_as(&self, job: NewJob) -> Lease {
        let id = self.accept(job).await.id;
        let lease = self.claim_one().await;
        assert_eq!(lease.job.id, id, "no other job should be due");
        lease
    }

    /// Returns a job whose attempt ended with this outcome.
    pub async fn ended(&self, outcome: Outcome) -> Job {
        let lease = self.running().await;
        self.settle(&lease, outcome).await.unwrap();
        self.record(lease.job.id).await.job
    }

    /// Returns the record of a job of the default tenant.
    pub async fn record(&self, id: JobId) -> Record {
        self.try_record(id).await.unwrap()
    }

    /// Returns the record of a job of the default tenant, or the store's error.
    pub async fn try_record(&self, id: JobId) -> Result<Record, StoreError> {
        self.store().job(&TenantId::default(), id).await
    }

    // --- for workers ---

    /// Returns a claim for up to `limit` demo jobs.
    pub fn want(&self, limit: usize) -> Claim {
        Claim {
            replica: "replica-1".to_owned(),
            limit,
            lease: LEASE,
            kinds: vec![KindCapacity { kind: demo(), capacity: limit, code_version: None }],
            limits: Arc::default(),
            queue_capacity: None,
        }
    }

    /// Claims up to `limit` demo jobs.
    pub async fn claim(&self, limit: usize) -> Vec<Lease> {
        self.claimed(limit).await.leases
    }

    /// Claims up to `limit` demo jobs and returns the whole result.
    pub async fn claimed(&self, limit: usize) -> ClaimResult {
        self.store().claim(&self.want(limit)).await.unwrap()
    }

    /// Returns when the first job is due that is not due now.
    pub async fn next_due_at(&self) -> Option<Timestamp> {
        self.store().next_due_at(self.now()).await.unwrap()
    }

    /// Claims one job and asserts that one is due.
    pub async fn claim_one(&self) -> Lease {
        let mut leases = self.claim(1).await;
        assert_eq!(leases.len(), 1, "a job should be due");
        leases.remove(0)
    }

    /// Lets a lease expire and rescues its job.
    pub async fn lose(&self, lease: &Lease) -> Job {
        self.advance(LEASE + TICK);
        let mut swept = self.store().rescue(100).await.unwrap();
        swept.retain(|job| job.id == lease.job.id);
        assert_eq!(swept.len(), 1, "the rescue should end this attempt once");
        swept.remove(0)
    }

    /// Returns an expired lease and the lease of the next attempt.
    pub async fn superseded(&self) -> (Lease, Lease) {
        let late = self.running().await;
        self.lose(&late).await;
        let current = self.claim_one().await;
        assert_eq!(late.job.id, current.job.id);
        (late, current)
    }

    /// Ends an attempt with this outcome.
    pub async fn settle(
        &self,
        lease: &Lease,
        outcome: Outcome,
    ) -> Result<SettleResult, StoreError> {
        self.settle_as(settlement(lease, outcome)).await
    }

    /// Ends an attempt with this settlement.
    pub async fn settle_as(&self, settlement: Settlement) -> Result<SettleResult, StoreError> {
        let mut answers = self.store().settle(vec![settlement]).await;
        assert_eq!(answers.len(), 1, "one result per settlement");
        answers.remove(0)
    }

    /// Reports one phase.
    pub async fn phase(&self, lease: &Lease, phase: &str) -> Result<(), StoreError> {
        let (lease, phases) = (lease.to_ref(), vec![phase.to_owned()]);
        let mut answers = self.store().report(vec![Report { lease, phases, progress: None }]).await;
        assert_eq!(answers.len(), 1, "one result per report");
        answers.remove(0)
    }

    /// Stores a step's output.
    pub async fn step(
        &self,
        lease: &Lease,
        position: u32,
        name: &str,
        output: &str,
    ) -> Result<CheckpointResult, StoreError> {
        let checkpoint = Checkpoint {
            lease: lease.to_ref(),
            name: name.to_owned(),
            position,
            output: json(output),
            alone: true,
            started_at: self.now(),
        };
        self.store().checkpoint(checkpoint).await
    }
}

/// Returns a settlement without unreported phases or progress.
pub fn settlement(lease: &Lease, outcome: Outcome) -> Settlement {
    Settlement::of(lease.to_ref(), outcome)
}

/// Returns the kind of demo jobs.
pub fn demo() -> Name {
    name("demo")
}

/// Returns a valid name.
pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Returns a tenant id.
pub fn tenant(text: &str) -> TenantId {
    TenantId::new(text).unwrap()
}

/// Returns a JSON text.
pub fn json(text: &str) -> Json {
    Json::from_text(text).unwrap()
}

/// Returns a completed outcome.
pub fn done() -> Outcome {
    Outcome::Completed(json(r#"{"pages":12}"#))
}

/// Returns a failed outcome that is retried immediately while attempts are left.
pub fn failed() -> Outcome {
    Outcome::Failed { error: JobError::retryable("line cut"), retry_in: Duration::ZERO }
}

/// Returns a failed outcome that is not retried.
pub fn failed_for_good() -> Outcome {
    Outcome::Failed { error: JobError::fatal("no such page"), retry_in: Duration::ZERO }
}
