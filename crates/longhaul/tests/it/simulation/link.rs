//! The connections of one engine to the shared store: calls take time, fail, and fall silent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::job::{Job, TenantId};
use longhaul::store::{
    ChangeNotifications, Checkpoint, CheckpointResult, Claim, ClaimResult, JobStore as _,
    JobVersion, Lease, LeaseRef, MaintenanceStore as _, NewJob, Renewal, SettleResult, Settlement,
    StoreError, SubmitResult, WorkerStore as _,
};
use longhaul::{JobId, Timestamp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ledger::Event;
use super::plan::{Loss, derive};
use super::planted::Bug;
use super::world::World;
use crate::model_store::ModelStore;

/// Time after which a store gives a silent connection up, as on Postgres. Only renewals and heartbeats are tested
/// without: their connection dies for good, and the engine itself has to give them up.
const SILENCE_MAX: Duration = Duration::from_secs(12);
/// Minimum time between faults of renewals on one link: a lease survives one of them.
const RENEWAL_FAULT_INTERVAL: Duration = Duration::from_secs(30);
/// Latency that counts as a fault of the link for an engine that is about to stop.
const SLOW: Duration = Duration::from_millis(700);

pub(super) struct Link {
    world: Arc<World>,
    pub(super) replica: usize,
    /// Name of the engine.
    pub(super) name: String,
    /// Distinguishes the engines of one replica.
    start: u64,
    calls: Mutex<BTreeMap<&'static str, u64>>,
    renewal_fault_at: Mutex<Option<Timestamp>>,
    faults: AtomicU64,
    killed: CancellationToken,
    ready: watch::Sender<u64>,
    jobs: watch::Sender<u64>,
    cancellations: watch::Sender<u64>,
}

/// Fate of one call. A function of the seed, the link, the method and the number of the call, so that the order of calls
/// to different methods has no influence.
struct Fate {
    request: Duration,
    response: Duration,
    request_loss: Option<Loss>,
    response_loss: Option<Loss>,
    /// Percentile for losses in outages.
    percentile: u32,
    /// True if a request that is on its way arrives although its sender was killed.
    outlives_its_sender: bool,
}

impl Link {
    pub(super) fn new(world: &Arc<World>, replica: usize, start: u64) -> Self {
        Self {
            world: Arc::clone(world),
            replica,
            name: format!("r{replica}.{start}"),
            start,
            calls: Mutex::default(),
            renewal_fault_at: Mutex::default(),
            faults: AtomicU64::new(0),
            killed: CancellationToken::new(),
            ready: watch::Sender::new(0),
            jobs: watch::Sender::new(0),
            cancellations: watch::Sender::new(0),
        }
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// Records an event of this engine, unless its process was killed: what it does from then on does not happen.
    pub(super) fn record(&self, event: Event) {
        if !self.killed.is_cancelled() {
            self.world.ledger.record(&self.name, event);
        }
    }

    /// Ends the process of the engine: from now on no call reaches the store or returns.
    pub(super) fn kill(&self) {
        self.killed.cancel();
    }

    pub(super) async fn killed(&self) {
        self.killed.cancelled().await;
    }

    pub(super) fn is_killed(&self) -> bool {
        self.killed.is_cancelled()
    }

    /// Returns the number of slow and lost calls so far.
    pub(super) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// Delivers a notification of another engine.
    pub(super) fn notify_of_cancellation(&self) {
        self.record(Event::CancellationNotified);
        self.cancellations.send_modify(|count| *count += 1);
    }

    pub(super) fn notify_of_ready_jobs(&self) {
        self.ready.send_modify(|count| *count += 1);
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Carries a call to the store and its result back.
    async fn carry<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let (sent_at, fate) = (self.now(), self.draw(method));
        if fate.request + fate.response >= SLOW {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
        self.world.clock.sleep(fate.request).await;
        if self.is_killed() && !fate.outlives_its_sender {
            return std::future::pending().await;
        }
        let lost = |from| self.world.plan.loss(self.replica, from, self.now(), fate.percentile);
        if let Some(loss) = fate.request_loss.or_else(|| lost(sent_at)) {
            return Err(self.lose(method, loss, "request", sent_at).await);
        }
        let result = call.await;
        let committed_at = self.now();
        self.world.clock.sleep(fate.response).await;
        if self.is_killed() {
            return std::future::pending().await;
        }
        if let Some(loss) = fate.response_loss.or_else(|| lost(committed_at)) {
            return Err(self.lose(method, loss, "response", sent_at).await);
        }
        Ok(result)
    }

    /// Returns the error of a lost call when its caller gets one.
    async fn lose(
        &self,
        method: &'static str,
        loss: Loss,
        part: &'static str,
        sent_at: Timestamp,
    ) -> StoreError {
        let has_no_limit = matches!(method, "renew" | "heartbeat");
        let fault = match (part, loss) {
            ("request", Loss::Error) => "request failed",
            ("request", Loss::Silence) => "request silent",
            (_, Loss::Error) => "response failed",
            (_, Loss::Silence) => "response silent",
        };
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.record(Event::CallLost { call: method, fault });
        match loss {
            Loss::Error => {}
            Loss::Silence if has_no_limit => std::future::pending().await,
            Loss::Silence => self.world.clock.sleep_until(sent_at.after(SILENCE_MAX)).await,
        }
        if self.is_killed() {
            std::future::pending::<()>().await;
        }
        StoreError::Unavailable(fault.to_owned())
    }

    fn draw(&self, method: &'static str) -> Fate {
        let number = {
            let mut calls = self.calls.lock().unwrap();
            let number = calls.entry(method).or_default();
            *number += 1;
            *number
        };
        let name = method.bytes().fold(0, |hash, byte| derive(hash, &[u64::from(byte)]));
        let replica = u64::try_from(self.replica).unwrap();
        let seed = derive(self.world.plan.seed, &[1, replica, self.start, name, number]);
        let (mut random, traffic) = (StdRng::seed_from_u64(seed), &self.world.plan.traffic);
        let mut latency = || Duration::from_millis(random.random_range(1..=traffic.latency_ms));
        let (mut request, response) = (latency(), latency());
        let mut happens = |per_mille: u32| random.random_range(0..1_000) < per_mille;
        let is_slow = happens(traffic.slow_per_mille);
        let has_failed = happens(traffic.errors_per_mille);
        let is_silent = happens(traffic.silences_per_mille);
        let outlives_its_sender = happens(500);
        let is_request = happens(500);
        let loss = match (is_silent, has_failed) {
            (true, _) => Some(Loss::Silence),
            (false, true) => Some(Loss::Error),
            (false, false) => None,
        };
        let extra = Duration::from_millis(random.random_range(0..2_000));
        let percentile = random.random_range(0..100);
        let has_faults = self.has_faults(method, loss.is_some());
        if is_slow && has_faults {
            request += extra;
        }
        let loss = loss.filter(|_| has_faults);
        Fate {
            request,
            response,
            request_loss: loss.filter(|_| is_request),
            response_loss: loss.filter(|_| !is_request),
            percentile,
            outlives_its_sender,
        }
    }

    /// Returns whether a single call may be slow or lost now.
    fn has_faults(&self, method: &str, is_lost: bool) -> bool {
        let now = self.now();
        if self.world.is_healed() || !self.world.plan.is_calm(self.replica, now) {
            return false;
        }
        if method == "renew" && is_lost {
            let mut last = self.renewal_fault_at.lock().unwrap();
            if last.is_some_and(|last| now.since(last) < RENEWAL_FAULT_INTERVAL) {
                return false;
            }
            *last = Some(now);
        }
        true
    }

    fn has(&self, bug: Bug) -> bool {
        self.world.bug == bug
    }

    async fn one<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.carry(method, call).await?
    }

    async fn batch<T>(
        &self,
        method: &'static str,
        items: usize,
        call: impl Future<Output = Vec<Result<T, StoreError>>>,
    ) -> Vec<Result<T, StoreError>> {
        let carried = self.carry(method, call).await;
        carried.unwrap_or_else(|error| (0..items).map(|_| Err(error.clone())).collect())
    }
}

/// Calls that the ledger records, or that a planted bug changes.
impl Link {
    fn store(&self) -> &ModelStore {
        &self.world.store
    }

    async fn submit(&self, mut jobs: Vec<NewJob>) -> Vec<Result<SubmitResult, StoreError>> {
        for job in jobs.iter_mut().filter(|_| self.has(Bug::KeyIgnored)) {
            job.idempotency_key = None;
        }
        let committed = async {
            let submitted = self.store().submit(jobs).await;
            self.world.notify_of_ready_jobs(self);
            submitted
        };
        self.batch("submit", 1, committed).await
    }

    async fn submit_and_claim(
        &self,
        mut job: NewJob,
        want: &Claim,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError> {
        if self.has(Bug::KeyIgnored) {
            job.idempotency_key = None;
        }
        let mut leased = Vec::new();
        let call = async {
            let (submitted, lease) = self.store().submit_and_claim(job, want).await?;
            leased.extend(lease.as_ref().map(|lease| lease.job.id));
            self.record_all("submit_and_claim", &leased);
            Ok((submitted, lease))
        };
        let submitted = self.one("submit_and_claim", call).await;
        if submitted.is_err() {
            self.record_unknown(&leased);
        }
        submitted
    }

    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let mut leased = Vec::new();
        let call = async {
            let mut claimed = self.store().claim(want).await?;
            for lease in claimed.leases.iter_mut().filter(|_| self.has(Bug::ClaimHidesSteps)) {
                lease.steps.clear();
            }
            leased.extend(claimed.leases.iter().map(|lease| lease.job.id));
            self.record_all("claim", &leased);
            Ok(claimed)
        };
        let claimed = self.one("claim", call).await;
        if claimed.is_err() {
            self.record_unknown(&leased);
        }
        claimed
    }

    /// Records what the store committed, even for an engine that was killed meanwhile.
    fn record_all(&self, call: &'static str, jobs: &[JobId]) {
        for job in jobs {
            self.world.ledger.record(&self.name, Event::Committed { call, job: *job });
        }
    }

    fn record_unknown(&self, leased: &[JobId]) {
        for job in leased {
            self.record(Event::LeaseUnknown { job: *job });
        }
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<CheckpointResult, StoreError> {
        let call = async {
            let LeaseRef { job, epoch, .. } = checkpoint.lease;
            let (step, output) = (checkpoint.name.clone(), checkpoint.output.as_str().to_owned());
            let mut stored = self.store().checkpoint(checkpoint).await?;
            let committed = Event::CheckpointCommitted { job, epoch, step, output };
            self.world.ledger.record(&self.name, committed);
            stored.cancel_requested &= !self.has(Bug::CancellationHidden);
            Ok(stored)
        };
        self.one("checkpoint", call).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        let (items, job) = (settlements.len(), settlements.first().map(|end| end.lease.job));
        let call = async {
            let settled = self.store().settle(settlements).await;
            if settled.iter().all(Result::is_ok) {
                self.record_all("settle", job.as_slice());
            }
            settled
        };
        self.batch("settle", items, call).await
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        let was_silent = self.renewal_fault_at.lock().unwrap().is_some();
        if self.has(Bug::SilentConnectionKept) && was_silent {
            return std::future::pending().await;
        }
        self.one("renew", self.store().renew(leases, duration)).await
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        if self.has(Bug::OutageHidden)
            && self.world.plan.loss(self.replica, self.now(), self.now(), 0).is_some()
        {
            return Ok(Vec::new());
        }
        let call = async {
            let rescued = self.store().rescue(limit).await?;
            self.record_all("rescue", &rescued.iter().map(|job| job.id).collect::<Vec<_>>());
            Ok(rescued)
        };
        self.one("rescue", call).await
    }

    async fn cancel(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        let call = async {
            let job = self.store().cancel(tenant, id).await?;
            self.record_all("cancel", &[id]);
            if !self.has(Bug::CancellationHidden) {
                self.world.notify_of_cancellation(self);
            }
            Ok(job)
        };
        self.one("cancel", call).await
    }

    async fn resume(&self, tenant: &TenantId, id: JobId) -> Result<Job, StoreError> {
        let call = async {
            let job = self.store().resume(tenant, id).await?;
            self.record_all("resume", &[id]);
            self.world.notify_of_ready_jobs(self);
            Ok(job)
        };
        self.one("resume", call).await
    }

    async fn versions(
        &self,
        jobs: &[(TenantId, JobId)],
    ) -> Result<Vec<Option<JobVersion>>, StoreError> {
        self.one("versions", self.store().versions(jobs)).await
    }

    #[expect(clippy::unnecessary_wraps, reason = "the trait's signature")]
    fn notifications(&self) -> Option<ChangeNotifications> {
        Some(ChangeNotifications {
            ready: self.ready.subscribe(),
            jobs: self.jobs.subscribe(),
            cancellations: self.cancellations.subscribe(),
        })
    }
}

macro_rules! call {
    ($this:ident, now) => { $this.store().now() };
    ($this:ident, change_notifications) => { $this.notifications() };
    ($this:ident, output_streams) => { $this.store().output_streams() };
    ($this:ident, outbox_notify) => { $this.store().outbox_notify() };
    ($this:ident, submit, $jobs:ident) => { $this.submit($jobs) };
    ($this:ident, submit_and_claim, $job:ident, $want:ident) => { $this.submit_and_claim($job, $want) };
    ($this:ident, claim, $want:ident) => { $this.claim($want) };
    ($this:ident, renew, $leases:ident, $duration:ident) => { $this.renew($leases, $duration) };
    ($this:ident, checkpoint, $checkpoint:ident) => { $this.checkpoint($checkpoint) };
    ($this:ident, settle, $settlements:ident) => { $this.settle($settlements) };
    ($this:ident, report, $reports:ident) => { $this.batch("report", $reports.len(), $this.store().report($reports)) };
    ($this:ident, rescue, $limit:ident) => { $this.rescue($limit) };
    ($this:ident, cancel, $tenant:ident, $id:ident) => { $this.cancel($tenant, $id) };
    ($this:ident, resume, $tenant:ident, $id:ident) => { $this.resume($tenant, $id) };
    ($this:ident, versions, $jobs:ident) => { $this.versions($jobs) };
    ($this:ident, $method:ident $(, $argument:ident)*) => {
        $this.one(stringify!($method), $this.store().$method($($argument),*))
    };
}

longhaul::delegate_store!(impl[] for Link, call);
