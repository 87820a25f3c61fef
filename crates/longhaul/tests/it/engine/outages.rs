//! Outages of the store that are longer than a lease, on both stores: they charge no attempt.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::job::{Job, Record};
use longhaul::store::conformance::{LEASE, StoreHarness, done};
use longhaul::store::faulty::{FaultPlan, FaultyStore};
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{
    Claim, ClaimResult, LeaseRef, MaintenanceStore as _, Renewal, SettleResult, Settlement, Store,
    StoreError, WorkerStore as _,
};
use longhaul::{Clock, Ctx, Engine, EngineBuilder, JobError, JobHandle, Kind, Status};
use tokio::sync::watch;

use super::failing::OnDrop;
use super::{Counter, Signal, at_once, gated};
use crate::postgres::TestDatabase;
use crate::support::on_both_stores;

const RESCUE_INTERVAL: Duration = Duration::from_secs(2);

/// A store whose line can be cut. A test can wait for some of the calls.
struct Line {
    inner: FaultyStore<dyn Store>,
    clock: Clock,
    /// Time that passes before a claim reaches the store, until one has taken jobs.
    claim_delay: Mutex<Duration>,
    rescues: watch::Sender<usize>,
    renewals: watch::Sender<usize>,
    settlements: watch::Sender<usize>,
}

impl Line {
    fn cut(&self) {
        self.inner.follow(FaultPlan::seeded(0, 1_000));
    }

    fn restore(&self) {
        self.inner.follow(FaultPlan::none());
    }

    async fn claim(&self, claim: &Claim) -> Result<ClaimResult, StoreError> {
        let delay = *self.claim_delay.lock().unwrap();
        self.clock.advance(delay);
        let claimed = self.inner.claim(claim).await?;
        if !claimed.leases.is_empty() {
            *self.claim_delay.lock().unwrap() = Duration::ZERO;
        }
        Ok(claimed)
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        let rescued = self.inner.rescue(limit).await;
        self.rescues.send_modify(|calls| *calls += 1);
        rescued
    }

    async fn renew(
        &self,
        leases: Vec<LeaseRef>,
        duration: Duration,
    ) -> Result<Vec<Renewal>, StoreError> {
        let renewed = self.inner.renew(leases, duration).await;
        self.renewals.send_modify(|calls| *calls += 1);
        renewed
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        let settled = self.inner.settle(settlements).await;
        self.settlements.send_modify(|calls| *calls += 1);
        settled
    }
}

longhaul::delegate_store!(impl for Line, to [inner], except claim rescue renew settle);

/// A store and a line to it.
struct Desk {
    harness: StoreHarness,
    clock: Clock,
    line: Arc<Line>,
}

impl Desk {
    fn sqlite() -> Self {
        let clock = StoreHarness::clock();
        let store = SqliteStore::memory(clock.clone()).unwrap();
        Self::new(StoreHarness::new(store, clock.clone()), clock)
    }

    async fn postgres() -> Self {
        let (clock, database) = (StoreHarness::clock(), TestDatabase::create().await);
        let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
        Self::new(StoreHarness::new(store, clock.clone()).keeping(database), clock)
    }

    fn new(harness: StoreHarness, clock: Clock) -> Self {
        let line = Arc::new(Line {
            inner: FaultyStore::new(harness.store(), FaultPlan::none()),
            clock: clock.clone(),
            claim_delay: Mutex::default(),
            rescues: watch::Sender::new(0),
            renewals: watch::Sender::new(0),
            settlements: watch::Sender::new(0),
        });
        Self { harness, clock, line }
    }

    /// Starts an engine at the end of the line.
    async fn engine(&self, kind: Kind) -> Engine {
        self.builder(kind).start().await.unwrap()
    }

    fn builder(&self, kind: Kind) -> EngineBuilder {
        Engine::builder()
            .clock(self.clock.clone())
            .store(Arc::clone(&self.line) as Arc<dyn Store>)
            .rescue_interval(RESCUE_INTERVAL)
            .register(kind.retry(at_once(1)))
    }

    /// Advances the clock by some rescue intervals and waits for the rescue of each.
    async fn rescues(&self, passes: usize) {
        let mut rescues = self.line.rescues.subscribe();
        for _ in 0..passes {
            let before = *rescues.borrow_and_update();
            self.clock.advance(RESCUE_INTERVAL);
            rescues.wait_for(|calls| *calls > before).await.unwrap();
        }
    }

    /// Cuts the line for a minute: four leases.
    async fn outage(&self) {
        let mut renewals = self.line.renewals.subscribe();
        let before = *renewals.borrow_and_update();
        self.line.cut();
        self.clock.advance(Duration::from_secs(5));
        renewals.wait_for(|calls| *calls > before).await.unwrap();
        self.rescues(28).await;
    }

    /// Waits until the job has ended. The clock stands still until its first attempt has been settled.
    async fn ended(&self, job: &JobHandle) -> Record {
        loop {
            let record = self.harness.record(job.id()).await;
            if record.job.status.is_terminal() {
                return record;
            }
            if record.job.status == Status::Pending {
                self.clock.advance(Duration::from_millis(100));
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn job_with_one_attempt_completes_after_a_long_outage(desk: Desk) {
    let (began, dropped, runs) = (Signal::new(), Signal::new(), Counter::default());
    let engine = desk
        .engine(Kind::new("work", {
            let (began, dropped, runs) = (began.clone(), dropped.clone(), runs.clone());
            move |ctx: Ctx, (): ()| {
                let (run, began, guard) = (runs.up(), began.clone(), OnDrop(dropped.clone()));
                async move {
                    began.send();
                    if run == 1 {
                        std::future::pending::<()>().await;
                    }
                    drop(guard);
                    Ok::<_, JobError>(ctx.attempt())
                }
            }
        }))
        .await;
    let job = engine.submit_raw("work", &()).await.unwrap();
    began.wait().await;

    desk.outage().await;
    dropped.wait().await;
    desk.line.restore();
    // The store has the expired lease for as long as the attempt is not released.
    desk.rescues(7).await;
    let record = desk.ended(&job).await;
    assert_eq!((record.job.status, record.job.attempt), (Status::Completed, 1), "{record:?}");
    assert_eq!(record.result.unwrap().to::<u32>().unwrap(), 1);
    assert!(record.history.iter().all(|event| event.error.is_none()), "{:?}", record.history);
    assert_eq!(runs.get(), 2);
    engine.stop().await;
}

async fn result_from_an_outage_is_settled_after_it(desk: Desk) {
    let (began, go) = (Signal::new(), Signal::new());
    let engine = desk.engine(gated("work", &began, &go)).await;
    let job = engine.submit_raw("work", &()).await.unwrap();
    began.wait().await;
    desk.line.cut();
    go.send();
    desk.line.settlements.subscribe().wait_for(|calls| *calls > 0).await.unwrap();
    desk.outage().await;
    desk.line.restore();
    desk.rescues(7).await;
    let record = desk.ended(&job).await;
    assert_eq!((record.job.status, record.attempts().len()), (Status::Completed, 1));
    assert_eq!(record.result.unwrap().to::<String>().unwrap(), "done");
    engine.stop().await;
}

async fn replica_rescues_nothing_for_one_lease_after_an_outage(desk: Desk) {
    let idle = Kind::new("idle", |_ctx: Ctx, (): ()| async move { Ok::<_, JobError>(()) });
    let engine = desk.engine(idle).await;
    // Jobs of another replica, which cannot reach the store either.
    let others = &desk.harness;
    let (alive, dead) = (others.running().await, others.running().await);
    desk.line.cut();
    desk.rescues(30).await;
    desk.line.restore();
    desk.rescues(7).await;
    let renewed = others.store().renew(vec![alive.to_ref()], LEASE).await.unwrap();
    assert_eq!(renewed, [Renewal::Kept { cancel_requested: false }]);
    desk.rescues(4).await;
    others.settle(&alive, done()).await.unwrap();
    let rescued = others.record(dead.job.id).await;
    assert_eq!(rescued.job.status, Status::Pending, "one lease after the outage");
    assert_eq!(rescued.job.error.unwrap().code, "worker-lost");
    engine.stop().await;
}

async fn job_whose_claim_outlasts_its_lease_is_released_without_a_charge(desk: Desk) {
    let runs = Counter::default();
    let work = Kind::new("work", {
        let runs = runs.clone();
        move |ctx: Ctx, (): ()| {
            runs.up();
            async move { Ok::<_, JobError>(ctx.attempt()) }
        }
    });
    let engine = desk.engine(work).await;
    *desk.line.claim_delay.lock().unwrap() = LEASE + Duration::from_secs(1);
    let job = engine.submit_raw("work", &()).delay(Duration::from_millis(1)).await.unwrap();
    let record = desk.ended(&job).await;
    assert_eq!((record.job.status, record.job.attempt), (Status::Completed, 1), "{record:?}");
    let statuses: Vec<_> = record.history.iter().map(|event| event.status).collect();
    let (pending, running) = (Status::Pending, Status::Running);
    assert_eq!(statuses, [pending, running, pending, running, Status::Completed]);
    assert_eq!(runs.get(), 1);
    engine.stop().await;
}

async fn replica_that_starts_after_an_outage_rescues_nothing_for_one_lease(desk: Desk) {
    let others = &desk.harness;
    let (alive, dead) = (others.running().await, others.running().await);
    desk.clock.advance(LEASE * 4);
    let idle = Kind::new("idle", |_ctx: Ctx, (): ()| async move { Ok::<_, JobError>(()) });
    let engine = desk.builder(idle).after_outage(true).start().await.unwrap();
    desk.rescues(7).await;
    others.settle(&alive, done()).await.unwrap();
    desk.rescues(4).await;
    assert_eq!(others.record(dead.job.id).await.job.error.unwrap().code, "worker-lost");
    engine.stop().await;
}

on_both_stores! {
    replica_that_starts_after_an_outage_rescues_nothing_for_one_lease,
    job_whose_claim_outlasts_its_lease_is_released_without_a_charge,
    job_with_one_attempt_completes_after_a_long_outage,
    result_from_an_outage_is_settled_after_it,
    replica_rescues_nothing_for_one_lease_after_an_outage,
}
