//! Simulation of clients and replicas, driven by a seed and verified by a checker.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use longhaul::clock::Clock;
use longhaul::job::{IdSource, JobId, Name, Status, TenantId, Timestamp};
use longhaul::store::conformance::{LEASE, StoreHarness, name, tenant};
use longhaul::store::faulty::{FaultPlan, FaultyStore};
use longhaul::store::{FlowLimit, FlowLimits, Lease, Store, StoreError};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::checker::{Cause, CheckResult, TrackedJob, Violation, ensure};
use super::usage::Sums;

/// Opens, restarts and inspects the store under test.
pub(crate) trait StoreFactory: Send {
    fn open(&mut self, clock: &Clock) -> Arc<dyn Store>;

    /// Ends the store's process, by a clean shutdown or an immediate kill, and starts another.
    fn restart(&mut self, store: Arc<dyn Store>, _clock: &Clock, _kill: bool) -> Arc<dyn Store> {
        store
    }

    /// Returns true if every rescue takes all expired leases. A smaller batch may take any of the
    /// leases that expire at the same instant, so stores would differ.
    fn sweeps_all(&self) -> bool {
        false
    }

    /// Looks for rows without a job, after every job is deleted and the store is closed.
    fn find_orphans(&mut self) -> Result<(), String> {
        Ok(())
    }
}

pub(crate) struct Simulation {
    pub(crate) random: StdRng,
    pub(crate) clock: Clock,
    pub(crate) store: Option<FaultyStore<dyn Store>>,
    pub(crate) house: Box<dyn StoreFactory>,
    /// Limits passed with every claim of the run.
    pub(crate) limits: Arc<FlowLimits>,
    pub(crate) ids: IdSource,
    pub(crate) jobs: BTreeMap<JobId, TrackedJob>,
    /// Stored job of each idempotency key.
    pub(crate) keys: HashMap<(TenantId, String), JobId>,
    pub(crate) paused: BTreeSet<(TenantId, Name)>,
    /// Every lease that a worker received and did not forget, including lost ones.
    pub(crate) leases: Vec<Lease>,
    /// Expected usage.
    pub(crate) usage: Sums,
    /// Calls so far, printed with a violation.
    pub(crate) trace: Vec<String>,
}

const STEPS: usize = 250;

/// Returns flow limits for every second seed, and none for the others.
fn limits(seed: u64) -> FlowLimits {
    if seed.is_multiple_of(2) {
        return FlowLimits::default();
    }
    let queues = vec![(name("slow"), FlowLimit::running(2))];
    FlowLimits { queues, tenants: FlowLimit::running(3), ..FlowLimits::default() }
}

/// Runs one seed to its end.
pub(crate) async fn play(seed: u64, house: Box<dyn StoreFactory>) -> CheckResult {
    let mut world = Simulation::new(seed, house);
    let result = world.run(seed).await;
    let last = world.trace.len().saturating_sub(25);
    result.map_err(|Violation(why)| {
        Violation(format!("{why}\n  after:\n    {}", world.trace[last..].join("\n    ")))
    })
}

impl Simulation {
    fn new(seed: u64, mut house: Box<dyn StoreFactory>) -> Self {
        let clock = StoreHarness::clock();
        // A third of the runs have no faults, so that their violations are easy to read.
        let per_mille = [0, 20, 60][usize::try_from(seed % 3).unwrap()];
        let store = FaultyStore::new(house.open(&clock), FaultPlan::seeded(seed, per_mille));
        Self {
            random: StdRng::seed_from_u64(seed),
            clock,
            store: Some(store),
            house,
            limits: Arc::new(limits(seed)),
            ids: IdSource::default(),
            jobs: BTreeMap::new(),
            keys: HashMap::new(),
            paused: BTreeSet::new(),
            leases: Vec::new(),
            usage: Sums::new(),
            trace: Vec::new(),
        }
    }

    async fn run(&mut self, seed: u64) -> CheckResult {
        for step in 0..STEPS {
            self.act().await?;
            if step % 25 == 0 {
                self.look_at_all(Cause::Nothing).await?;
                self.look_at_lists().await?;
                self.glimpse_all().await?;
                self.look_at_usage().await?;
            }
            if self.random.random_bool(0.01) {
                self.restart(seed, step).await?;
            }
        }
        self.heal_and_end().await
    }

    async fn act(&mut self) -> CheckResult {
        match self.random.random_range(0..100) {
            0..12 => self.submit().await,
            12..18 => self.submit_and_claim().await,
            18..36 => self.claim().await,
            36..40 => self.renew().await,
            40..50 => self.checkpoint().await,
            50..56 => self.report().await,
            56..70 => self.settle().await,
            70..74 => self.cancel().await,
            74..78 => self.resume().await,
            78..80 => self.fork().await,
            80..82 => self.purge().await,
            82..84 => self.pause().await,
            84..86 => self.ask_as_another_tenant().await,
            86..89 => self.rescue().await,
            89..90 => self.expire().await,
            other => {
                match other {
                    90 => self.forget(),
                    91..97 => self.pass(1, 2_000),
                    97..99 => self.pass(10_000, 40_000),
                    _ => self.pass(0, 400_000),
                }
                Ok(())
            }
        }
    }

    /// Returns the store with injected faults, as clients and replicas see it.
    pub(crate) fn store(&self) -> &FaultyStore<dyn Store> {
        self.store.as_ref().expect("the store is open")
    }

    /// Returns the store without faults, as the checker sees it.
    pub(crate) fn truth(&self) -> &dyn Store {
        self.store().inner()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn log(&mut self, line: &str) {
        let at = self.now().as_millis() % 10_000_000;
        self.trace.push(format!("{at:>7} {line}"));
    }

    pub(crate) fn new_id(&mut self) -> JobId {
        let random = u128::from(self.random.random::<u64>());
        self.ids.next(self.now(), random)
    }

    pub(crate) fn some_tenant(&mut self) -> TenantId {
        tenant(["acme", "bolt", "core"].choose(&mut self.random).unwrap())
    }

    pub(crate) fn some_queue(&mut self) -> Name {
        name(["default", "slow"].choose(&mut self.random).unwrap())
    }

    /// Picks a job, usually one that is still stored.
    pub(crate) fn some_job(&mut self) -> Option<JobId> {
        let any = self.random.random_bool(0.1);
        let jobs: Vec<JobId> =
            self.jobs.values().filter(|job| any || !job.gone).map(TrackedJob::id).collect();
        jobs.choose(&mut self.random).copied()
    }

    /// Picks a job with one of these statuses, if there is one.
    pub(crate) fn some_job_that_is(&mut self, statuses: &[Status]) -> Option<JobId> {
        let jobs = self.jobs.values();
        let jobs = jobs.filter(|job| !job.gone && statuses.contains(&job.status()));
        jobs.map(TrackedJob::id).collect::<Vec<_>>().choose(&mut self.random).copied()
    }

    fn pass(&mut self, from_ms: u64, to_ms: u64) {
        let by = Duration::from_millis(self.random.random_range(from_ms..to_ms));
        self.clock.advance(by);
        self.log(&format!("{by:?} pass"));
    }

    /// Reads one job after `cause` and returns its new events.
    pub(crate) async fn look(
        &mut self,
        id: JobId,
        cause: Cause,
    ) -> CheckResult<Vec<longhaul::job::Event>> {
        let job = &self.jobs[&id];
        let answer = self.truth().job(&job.tenant, id).await;
        let now = self.now();
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(Vec::new()) };
        match answer {
            Ok(record) => {
                ensure!(!job.gone, "[1] {id} came back");
                let news = job.observe(record, cause)?;
                self.meter(id, &news, cause);
                Ok(news)
            }
            Err(error @ (StoreError::Gone | StoreError::NotFound)) => {
                let ended = job.status().is_terminal();
                let outlived = job.record.job.expires_at.is_some_and(|at| at <= now);
                let deleted = job.gone
                    || (cause == Cause::Purge && ended)
                    || (cause == Cause::Expire && outlived);
                ensure!(deleted, "[1] {id} was acknowledged and is {error} after {cause:?}");
                job.gone = true;
                if let Some(key) = &job.key {
                    let key = (job.tenant.clone(), key.clone());
                    if self.keys.get(&key) == Some(&id) {
                        self.keys.remove(&key);
                    }
                }
                Ok(Vec::new())
            }
            Err(error) => Err(Violation(format!("[1] {id} cannot be read: {error}"))),
        }
    }

    pub(crate) async fn look_at_all(&mut self, cause: Cause) -> CheckResult {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            self.look(id, cause).await?;
        }
        Ok(())
    }

    pub(crate) async fn look_at_steps(&mut self, id: JobId) -> CheckResult {
        let job = &self.jobs[&id];
        if job.gone {
            return Ok(());
        }
        let steps = self.truth().steps(&job.tenant, id).await;
        let steps = steps.map_err(|error| Violation(format!("[4] steps of {id}: {error}")))?;
        self.jobs[&id].check_steps(&steps)
    }

    /// Advances the clock until every lease has expired.
    pub(crate) fn outlast_leases(&mut self) {
        self.clock.advance(LEASE + Duration::from_secs(1));
    }
}
