//! A store on a harness, and the hands to work it with.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::clock::Clock;
use crate::job::{
    Fingerprint, IdSource, Job, JobError, JobId, Json, Name, Outcome, Record, Retention, TenantId,
    Timestamp,
};
use crate::store::{
    Checkpoint, Claim, ClaimResult, KindCapacity, Lease, NewJob, Report, SettleResult, Settlement,
    Start, Store, StoreError, SubmitResult,
};

/// How long leases last on the harness.
pub const LEASE: Duration = Duration::from_secs(15);

/// The smallest step of a store's time.
pub const TICK: Duration = Duration::from_millis(1);

type Reopen = Box<dyn Fn(Clock) -> Arc<dyn Store> + Send + Sync>;

/// A store under test, the clock that it goes by, and what it declares it can do.
pub struct StoreHarness {
    /// Empty only while the store is closed and opened again.
    store: RwLock<Option<Arc<dyn Store>>>,
    clock: Clock,
    ids: IdSource,
    reopen: Option<Reopen>,
    /// Dropped after the store: its folder, its database.
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl StoreHarness {
    /// The clock to make a store with.
    pub fn clock() -> Clock {
        Clock::manual(Timestamp::from_millis(1_763_000_000_000))
    }

    /// Puts a store on the harness that goes by `clock`.
    pub fn new(store: impl Store + 'static, clock: Clock) -> Self {
        Self::of(Arc::new(store), clock)
    }

    /// Puts a store on the harness that somebody else holds too.
    pub fn of(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self {
            store: RwLock::new(Some(store)),
            clock,
            ids: IdSource::default(),
            reopen: None,
            keep: Vec::new(),
        }
    }

    /// Keeps `thing` for as long as the store is used.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.keep.push(Box::new(thing));
        self
    }

    /// Declares that what the store keeps outlives it, and how to open it again.
    #[must_use]
    pub fn reopened_by<S: Store + 'static>(
        mut self,
        reopen: impl Fn(Clock) -> S + Send + Sync + 'static,
    ) -> Self {
        self.reopen = Some(Box::new(move |clock| Arc::new(reopen(clock))));
        self
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.clone().expect("the store is open")
    }

    /// Closes the store and opens it again. False, and nothing is done, where the store does not
    /// declare that it outlives its process.
    pub fn reopen(&self) -> bool {
        let Some(reopen) = &self.reopen else { return false };
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        drop(store.take());
        *store = Some(reopen(self.clock.clone()));
        true
    }

    /// Moves the time by the most that is less than `by`.
    pub fn advance_short_of(&self, by: Duration) {
        self.advance(by.saturating_sub(TICK));
    }

    /// Moves the time.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// An id that is greater than all before it.
    pub fn id(&self) -> JobId {
        self.ids.next(self.now(), 7)
    }

    // --- for callers ---

    /// A submission with nothing special. Vary it by struct update.
    pub fn job(&self) -> NewJob {
        self.job_with(r#"{"page":1}"#)
    }

    /// A submission with this input.
    pub fn job_with(&self, input: &str) -> NewJob {
        let (kind, input) = (demo(), json(input));
        NewJob {
            tenant: TenantId::default(),
            id: self.id(),
            fingerprint: Fingerprint::of(&kind, &input, None).unwrap(),
            kind,
            queue: Name::default_queue(),
            priority: 0,
            input,
            idempotency_key: None,
            start: Start::Now,
            max_attempts: 3,
            timeout: None,
            labels: BTreeMap::new(),
            retention: Retention::default(),
            parent_id: None,
            payload: None,
            key_id: None,
            webhook: None,
        }
    }

    /// A submission under a key.
    pub fn keyed(&self, key: &str) -> NewJob {
        NewJob { idempotency_key: Some(key.to_owned()), ..self.job() }
    }

    /// A submission of another tenant.
    pub fn job_of(&self, tenant: &TenantId) -> NewJob {
        NewJob { tenant: tenant.clone(), ..self.job() }
    }

    /// Submits one job.
    pub async fn submit(&self, job: NewJob) -> Result<SubmitResult, StoreError> {
        let mut answers = self.store().submit(vec![job]).await;
        assert_eq!(answers.len(), 1, "one answer for each submission");
        answers.remove(0)
    }

    /// Submits one job that must be accepted as a new one.
    pub async fn accept(&self, job: NewJob) -> Job {
        let submitted = self.submit(job).await.unwrap();
        assert!(submitted.created, "a new job");
        submitted.record.job
    }

    /// A pending job.
    pub async fn pending(&self) -> Job {
        self.accept(self.job()).await
    }

    /// A job that a replica holds.
    pub async fn running(&self) -> Lease {
        self.running_as(self.job()).await
    }

    /// This job, held by a replica.
    pub async fn running_as(&self, job: NewJob) -> Lease {
        let id = self.accept(job).await.id;
        let lease = self.claim_one().await;
        assert_eq!(lease.job.id, id, "nothing else is due");
        lease
    }

    /// A job that ended like this.
    pub async fn ended(&self, outcome: Outcome) -> Job {
        let lease = self.running().await;
        self.settle(&lease, outcome).await.unwrap();
        self.record(lease.job.id).await.job
    }

    /// What the store knows of a job of the default tenant.
    pub async fn record(&self, id: JobId) -> Record {
        self.try_record(id).await.unwrap()
    }

    /// What the store says when asked for a job of the default tenant.
    pub async fn try_record(&self, id: JobId) -> Result<Record, StoreError> {
        self.store().job(&TenantId::default(), id).await
    }

    // --- for workers ---

    /// What a replica asks for that has room for `limit` demo jobs.
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

    /// Claims up to `limit` demo jobs and returns the whole answer.
    pub async fn claimed(&self, limit: usize) -> ClaimResult {
        self.store().claim(&self.want(limit)).await.unwrap()
    }

    /// Claims the one job that must be due.
    pub async fn claim_one(&self) -> Lease {
        let mut leases = self.claim(1).await;
        assert_eq!(leases.len(), 1, "a job should be due");
        leases.remove(0)
    }

    /// Lets a lease run out and ends its attempt.
    pub async fn lose(&self, lease: &Lease) -> Job {
        self.advance(LEASE + TICK);
        let mut swept = self.store().rescue(100).await.unwrap();
        swept.retain(|job| job.id == lease.job.id);
        assert_eq!(swept.len(), 1, "the sweep should end this attempt, once");
        swept.remove(0)
    }

    /// A lease whose worker slept through it, and the lease of its successor.
    pub async fn superseded(&self) -> (Lease, Lease) {
        let late = self.running().await;
        self.lose(&late).await;
        let current = self.claim_one().await;
        assert_eq!(late.job.id, current.job.id);
        (late, current)
    }

    /// Ends an attempt.
    pub async fn settle(
        &self,
        lease: &Lease,
        outcome: Outcome,
    ) -> Result<SettleResult, StoreError> {
        self.settle_as(settlement(lease, outcome)).await
    }

    /// Ends an attempt with last words.
    pub async fn settle_as(&self, settlement: Settlement) -> Result<SettleResult, StoreError> {
        let mut answers = self.store().settle(vec![settlement]).await;
        assert_eq!(answers.len(), 1, "one answer for each settlement");
        answers.remove(0)
    }

    /// Reports one phase.
    pub async fn phase(&self, lease: &Lease, phase: &str) -> Result<(), StoreError> {
        let (lease, phases) = (lease.to_ref(), vec![phase.to_owned()]);
        let mut answers = self.store().report(vec![Report { lease, phases, progress: None }]).await;
        assert_eq!(answers.len(), 1, "one answer for each report");
        answers.remove(0)
    }

    /// Stores a step's output.
    pub async fn step(
        &self,
        lease: &Lease,
        position: u32,
        name: &str,
        output: &str,
    ) -> Result<(), StoreError> {
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

/// The end of an attempt, with no last words.
pub fn settlement(lease: &Lease, outcome: Outcome) -> Settlement {
    Settlement {
        lease: lease.to_ref(),
        outcome,
        phases: Vec::new(),
        progress: None,
        artifacts: Vec::new(),
        tokens: crate::job::Tokens::default(),
    }
}

/// The kind that jobs on the harness have.
pub fn demo() -> Name {
    name("demo")
}

/// A name.
pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A tenant that is not the default one.
pub fn tenant(text: &str) -> TenantId {
    TenantId::new(text).unwrap()
}

/// A JSON text.
pub fn json(text: &str) -> Json {
    Json::from_text(text).unwrap()
}

/// A good end.
pub fn done() -> Outcome {
    Outcome::Completed(json(r#"{"pages":12}"#))
}

/// An end that is tried again at once, while attempts are left.
pub fn failed() -> Outcome {
    Outcome::Failed { error: JobError::retryable("line cut"), retry_in: Duration::ZERO }
}

/// An end that is never tried again.
pub fn failed_for_good() -> Outcome {
    Outcome::Failed { error: JobError::fatal("no such page"), retry_in: Duration::ZERO }
}
