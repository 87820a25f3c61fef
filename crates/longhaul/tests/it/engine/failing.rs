//! The engine on a store that fails: before a commit, after it, or completely for a while.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::Store;
use longhaul::store::faulty::{FaultPlan, FaultyStore};
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Ctx, Engine, JobError, JobHandle, JobId, Kind, Status, TenantId};

use super::{Counter, START, Signal, at_once, echo, gated};

/// Signals when dropped.
pub(super) struct OnDrop(pub(super) Signal);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.send();
    }
}

fn store(clock: &Clock) -> Arc<dyn Store> {
    Arc::new(SqliteStore::memory(clock.clone()).unwrap())
}

#[tokio::test]
async fn attempt_whose_lease_cannot_be_renewed_is_dropped_and_another_replica_runs_the_job() {
    let clock = Clock::manual(START);
    let store = store(&clock);
    let line = Arc::new(FaultyStore::new(Arc::clone(&store), FaultPlan::none()));
    let (began, dropped) = (Signal::new(), Signal::new());
    let cut_off = Engine::builder()
        .clock(clock.clone())
        .store(Arc::clone(&line) as Arc<dyn Store>)
        .replica("cut-off")
        .kind("work", {
            let (began, dropped) = (began.clone(), dropped.clone());
            move |_ctx: Ctx, (): ()| {
                let (began, guard) = (began.clone(), OnDrop(dropped.clone()));
                async move {
                    began.send();
                    std::future::pending::<()>().await;
                    drop(guard);
                    Ok::<_, JobError>("cut-off")
                }
            }
        })
        .start()
        .await
        .unwrap();
    let id = cut_off.submit_raw("work", &()).await.unwrap().id();
    began.wait().await;

    // From now on every call of this replica fails, half of them after their commit.
    line.follow(FaultPlan::seeded(7, 500));
    let other = Engine::builder()
        .clock(clock.clone())
        .store(Arc::clone(&store))
        .replica("other")
        .kind("work", |ctx: Ctx, (): ()| async move { Ok::<_, JobError>(ctx.attempt()) })
        .start()
        .await
        .unwrap();
    let ended = tokio::spawn(async move {
        let mut watcher = other.watch(id, None);
        let mut last = None;
        while let Some(record) = watcher.next().await {
            last = Some(record.unwrap());
        }
        last.unwrap()
    });
    while !ended.is_finished() {
        tick(&clock, &*store, id).await;
    }
    dropped.wait().await;
    let record = ended.await.unwrap();
    assert_eq!(record.job.status, Status::Completed);
    // The disconnected replica may claim the job once more without getting the response.
    let attempts = record.attempts();
    assert_eq!(attempts.first().unwrap().replica.as_deref(), Some("cut-off"));
    assert_eq!(attempts.last().unwrap().replica.as_deref(), Some("other"));
    assert_eq!(record.result.unwrap().to::<u32>().unwrap(), attempts.last().unwrap().attempt);
}

/// Advances the clock in small steps that the store's thread can follow, so that no lease expires
/// because of the test's speed.
async fn tick(clock: &Clock, store: &dyn Store, id: JobId) {
    store.job(&TenantId::default(), id).await.unwrap();
    clock.advance(Duration::from_millis(100));
}

/// Retries until the submission is acknowledged: the key prevents a second job.
async fn submit(engine: &Engine, key: String) -> JobHandle {
    loop {
        if let Ok(job) = engine.submit_raw("count", &()).key(&key).await {
            return job;
        }
    }
}

#[tokio::test]
async fn store_that_fails_at_random_loses_no_job_and_repeats_no_finished_step() {
    for seed in 0..5 {
        let clock = Clock::manual(START);
        let faulty = Arc::new(FaultyStore::new(store(&clock), FaultPlan::seeded(seed, 100)));
        let bodies = Counter::default();
        let kind = Kind::new("count", {
            let bodies = bodies.clone();
            move |ctx: Ctx, (): ()| {
                let bodies = bodies.clone();
                async move {
                    for name in ["one", "two", "three"] {
                        let finished = ctx.finished_steps().iter().any(|step| step.name == name);
                        let body = || async {
                            assert!(!finished, "{name} runs again");
                            Ok::<_, JobError>(bodies.up())
                        };
                        ctx.step(name, body).await?;
                    }
                    Ok::<_, JobError>("counted")
                }
            }
        });
        let engine = Engine::builder()
            .clock(clock.clone())
            .store(Arc::clone(&faulty) as Arc<dyn Store>)
            .register(kind.retry(at_once(50)))
            .start()
            .await
            .unwrap();
        let mut jobs = Vec::new();
        for number in 0..20 {
            jobs.push(submit(&engine, format!("job-{number}")).await);
        }
        // Claims whose responses were lost leave leases without an attempt, which must expire.
        let all_ended = async {
            for job in &jobs {
                while job.wait().await.is_err() {}
            }
        };
        let time = async {
            loop {
                tick(&clock, faulty.inner(), jobs[0].id()).await;
                // Running jobs need no time; only leases without an attempt do.
                while engine.running() > 0 {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::select! {
            () = all_ended => {}
            () = time => {}
        }
        faulty.follow(FaultPlan::none());
        for job in &jobs {
            assert_eq!(job.result_as::<String>().await.unwrap(), "counted", "seed {seed}");
            assert_eq!(engine.steps(job.id()).await.unwrap().len(), 3, "seed {seed}");
        }
        assert!(bodies.get() >= 60, "seed {seed}");
    }
}

/// Simulates a pause of the whole process: the rescue comes before the renewal, and the same
/// replica claims the job again.
#[tokio::test]
async fn attempt_that_outlived_its_lease_is_dropped_when_its_successor_starts() {
    let clock = Clock::manual(START);
    let (began, dropped) = (Signal::new(), Signal::new());
    let engine = Engine::builder()
        .clock(clock.clone())
        // Renewals are so rare that only the successor can end the first attempt.
        .lease(Duration::from_secs(61), Duration::from_secs(30))
        .kind("work", {
            let (began, dropped) = (began.clone(), dropped.clone());
            move |ctx: Ctx, (): ()| {
                let (began, guard) = (began.clone(), OnDrop(dropped.clone()));
                async move {
                    began.send();
                    if ctx.attempt() == 1 {
                        std::future::pending::<()>().await;
                    }
                    drop(guard);
                    Ok::<_, JobError>(ctx.attempt())
                }
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("work", &()).await.unwrap();
    began.wait().await;
    clock.advance(Duration::from_mins(5));
    assert_eq!(job.result_as::<u32>().await.unwrap(), 2);
    dropped.wait().await;
    dropped.wait().await;
}

#[tokio::test]
async fn cancellation_by_a_dropped_caller_still_notifies_watchers() {
    let clock = Clock::manual(START);
    let engine = Engine::builder().clock(clock.clone()).register(echo()).start().await.unwrap();
    for _ in 0..50 {
        let job = engine.submit_raw("echo", "x").delay(Duration::from_hours(1)).await.unwrap();
        let ended = tokio::spawn({
            let job = job.clone();
            async move { job.wait().await.unwrap().job.status }
        });
        tokio::task::yield_now().await;
        {
            // Polled once, so that the store has the request, then dropped.
            let mut cancel = std::pin::pin!(engine.cancel(job.id()));
            let waker = std::task::Waker::noop();
            let _pending = cancel.as_mut().poll(&mut std::task::Context::from_waker(waker));
        }
        assert_eq!(ended.await.unwrap(), Status::Cancelled);
    }
}

/// An engine that could not reach its store for minutes, so that its claim loop backs off for 30 s, and a job that waits
/// for it.
struct LongOutage {
    clock: Clock,
    engine: Engine,
    began: Signal,
}

impl LongOutage {
    async fn new() -> Self {
        let clock = Clock::manual(START);
        let store = store(&clock);
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), FaultPlan::none()));
        let (began, go) = (Signal::new(), Signal::new());
        let builder =
            || Engine::builder().clock(clock.clone()).register(gated("work", &began, &go));
        let engine = builder().store(Arc::clone(&faulty) as Arc<dyn Store>).replica("cut-off");
        let engine = engine.start().await.unwrap();
        let api = builder().store(store).replica("api").concurrency(0).start().await.unwrap();
        faulty.follow(FaultPlan::seeded(0, 1_000));
        api.submit_raw("work", &()).await.unwrap();
        // The last second is the one that a backoff lasts in any case.
        for seconds in [30; 10].into_iter().chain([1]) {
            clock.advance(Duration::from_secs(seconds));
            // Lets all tasks run until they wait.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        faulty.follow(FaultPlan::none());
        Self { clock, engine, began }
    }
}

#[tokio::test]
async fn claims_resume_with_the_first_heartbeat_after_a_long_outage() {
    let outage = LongOutage::new().await;
    let mut began = std::pin::pin!(outage.began.wait());
    // Heartbeats run on another thread, which may be late: each turn gives it time. All turns are shorter than the backoff.
    for _ in 0..20 {
        outage.clock.advance(Duration::from_secs(1));
        for _ in 0..10_000 {
            if futures_util::poll!(&mut began).is_ready() {
                return;
            }
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
    }
    panic!("claims wait for the end of the backoff");
}

#[tokio::test]
async fn claims_resume_with_the_first_submission_after_a_long_outage() {
    let outage = LongOutage::new().await;
    // Its own job may start without a claim, which leaves the other one. The clock stands still.
    outage.engine.submit_raw("work", &()).await.unwrap();
    outage.began.wait().await;
    outage.began.wait().await;
}
