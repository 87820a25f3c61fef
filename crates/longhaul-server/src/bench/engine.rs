//! Scenarios for an engine in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use longhaul::job::Limits;
use longhaul::store::Store;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Ctx, Engine, JobError, Kind};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::measure::{Stopwatch, callers};
use super::{BenchPlan, BenchReport, Scenario};
use crate::config::Database;

/// Jobs per batch.
pub(super) const BATCH: usize = 1_000;
/// Interval between jobs of the latency scenarios.
pub(super) const LATENCY_EVERY: Duration = Duration::from_millis(20);

/// Input of a generated job: time of the submission by the monotonic clock, and filler.
#[derive(Serialize, Deserialize)]
pub(super) struct LoadInput {
    submitted_ns: u64,
    filler: String,
}

pub(super) struct EngineBench<'a> {
    pub(super) plan: &'a BenchPlan,
    pub(super) store: Arc<dyn Store>,
    pub(super) began: Instant,
}

pub(super) async fn run(plan: &BenchPlan, store: &Database) -> anyhow::Result<BenchReport> {
    let store: Arc<dyn Store> = match store {
        Database::Sqlite(path) => Arc::new(SqliteStore::open(path, Clock::system())?),
        Database::Memory => Arc::new(SqliteStore::memory(Clock::system())?),
        Database::Postgres(url) => {
            Arc::new(PostgresStore::open(url.expose(), Clock::system()).await?)
        }
    };
    let bench = EngineBench { plan, store, began: Instant::now() };
    if plan.load.history > 0 {
        bench.drain(plan.load.history, "history").await?;
    }
    match plan.scenario {
        Scenario::Submit => bench.submit().await,
        Scenario::Bulk => bench.bulk().await,
        Scenario::Drain => bench.drain(plan.load.jobs, "drain").await,
        Scenario::Latency => bench.latency().await,
        Scenario::Steps => bench.steps().await,
        Scenario::Claim => bench.claim().await,
        Scenario::Fair => bench.fair().await,
    }
}

impl EngineBench<'_> {
    async fn submit(&self) -> anyhow::Result<BenchReport> {
        let engine = self.submitter().await?;
        let (began, filler) = (self.began, self.filler());
        let watch = self.start("submit");
        callers(&self.plan.load, &watch, move || {
            let (engine, load) = (engine.clone(), load(began, &filler));
            async move { engine.submit_raw("noop", &load).await.map(drop).context("submit") }
        })
        .await?;
        Ok(watch.report(self.plan))
    }

    async fn bulk(&self) -> anyhow::Result<BenchReport> {
        let engine = self.submitter().await?;
        let watch = self.start("bulk");
        self.submit_all(&engine, self.plan.load.jobs, Some(&watch)).await?;
        Ok(watch.report(self.plan))
    }

    /// Submits `jobs`, then measures them from the first claim to the last settlement; the latency of
    /// a job is its delay after the first claim.
    async fn drain(&self, jobs: usize, label: &'static str) -> anyhow::Result<BenchReport> {
        let submitter = self.submitter().await?;
        self.submit_all(&submitter, jobs, None).await?;
        submitter.stop().await;
        let watch = Stopwatch::start(self.plan, label, jobs);
        let (ran, mut all_ran) = mpsc::unbounded_channel();
        // Only the last job wakes this task, which would otherwise be most of a handler's cost.
        let left = AtomicUsize::new(jobs);
        let engine = self
            .worker(Kind::new("noop", {
                let watch = watch.clone();
                move |_ctx: Ctx, _load: LoadInput| {
                    watch.took(watch.elapsed(), 1);
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        // Fails only after the scenario has failed.
                        ran.send(()).ok();
                    }
                    async { Ok::<_, JobError>(()) }
                }
            }))
            .await?;
        all_ran.recv().await.context("the workers stopped")?;
        // All jobs are claimed; stopping waits for their settlement.
        engine.stop().await;
        Ok(watch.report(self.plan))
    }

    async fn latency(&self) -> anyhow::Result<BenchReport> {
        let (picked_up, pickups) = mpsc::unbounded_channel();
        let began = self.began;
        let engine = self
            .worker(Kind::new("noop", move |_ctx: Ctx, load: LoadInput| {
                picked_up.send(load.waited(began)).ok();
                async { Ok::<_, JobError>(()) }
            }))
            .await?;
        let report = self.measure_pickups("latency", &engine, pickups).await?;
        engine.stop().await;
        Ok(report)
    }

    /// Submits one job at a time; `pickups` receives the delay until each has started.
    pub(super) async fn measure_pickups(
        &self,
        label: &'static str,
        engine: &Engine,
        mut pickups: mpsc::UnboundedReceiver<Duration>,
    ) -> anyhow::Result<BenchReport> {
        let filler = self.filler();
        let mut timer = tokio::time::interval(LATENCY_EVERY);
        let watch = self.start(label);
        for _ in 0..self.plan.load.jobs {
            timer.tick().await;
            engine.submit_raw("noop", &load(self.began, &filler)).await?;
            watch.took(pickups.recv().await.context("the workers stopped")?, 1);
        }
        Ok(watch.report(self.plan))
    }

    async fn steps(&self) -> anyhow::Result<BenchReport> {
        let engine = self
            .worker(Kind::new("noop", |ctx: Ctx, _load: LoadInput| async move {
                for name in ["one", "two", "three"] {
                    ctx.step(name, || async { Ok::<_, JobError>(()) }).await?;
                }
                Ok::<_, JobError>(())
            }))
            .await?;
        let (began, filler, submitter) = (self.began, self.filler(), engine.clone());
        let watch = self.start("steps");
        callers(&self.plan.load, &watch, move || {
            let (engine, load) = (submitter.clone(), load(began, &filler));
            async move { Ok(engine.submit_raw("noop", &load).await?.result_as::<()>().await?) }
        })
        .await?;
        let report = watch.report(self.plan);
        engine.stop().await;
        Ok(report)
    }

    pub(super) async fn submit_all(
        &self,
        engine: &Engine,
        jobs: usize,
        watch: Option<&Stopwatch>,
    ) -> anyhow::Result<()> {
        let filler = self.filler();
        let mut left = jobs;
        while left > 0 {
            let size = left.min(BATCH);
            let timer = Instant::now();
            let batch =
                (0..size).map(|_| engine.submit_raw("noop", &load(self.began, &filler))).collect();
            for answer in engine.submit_all(batch).await {
                answer?;
            }
            if let Some(watch) = watch {
                watch.took(timer.elapsed(), size);
            }
            left -= size;
        }
        Ok(())
    }

    pub(super) async fn submitter(&self) -> anyhow::Result<Engine> {
        // Without limits, to measure the capacity.
        let limits = Limits { pending_per_tenant_max: u64::MAX, ..Limits::default() };
        let builder =
            Engine::builder().store(Arc::clone(&self.store)).concurrency(0).limits(limits);
        Ok(builder.register(Kind::remote("noop")).start().await?)
    }

    pub(super) async fn worker(&self, kind: Kind) -> anyhow::Result<Engine> {
        let builder = Engine::builder().store(Arc::clone(&self.store));
        Ok(builder.concurrency(self.plan.load.concurrency).register(kind).start().await?)
    }

    /// Starts the measurement of all jobs of the plan.
    pub(super) fn start(&self, label: &'static str) -> Stopwatch {
        Stopwatch::start(self.plan, label, self.plan.load.jobs)
    }

    pub(super) fn filler(&self) -> String {
        "x".repeat(self.plan.load.input_bytes)
    }
}

impl LoadInput {
    /// Returns the time since the submission.
    pub(super) fn waited(&self, began: Instant) -> Duration {
        began.elapsed().saturating_sub(Duration::from_nanos(self.submitted_ns))
    }
}

pub(super) fn load(began: Instant, filler: &str) -> LoadInput {
    let submitted_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    LoadInput { submitted_ns, filler: filler.to_owned() }
}
