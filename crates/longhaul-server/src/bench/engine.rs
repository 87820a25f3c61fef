//! Scenarios for an engine in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use longhaul::job::Limits;
use longhaul::store::Store;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Ctx, Engine, JobError, Kind};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::measure::{Stopwatch, Turns, callers};
use super::{BenchPlan, BenchReport, Scenario};
use crate::config::Database;

/// Jobs per batch.
pub(super) const BATCH: usize = 1_000;
/// Interval between jobs of the latency scenarios.
pub(super) const LATENCY_EVERY: Duration = Duration::from_millis(20);

/// Input of a generated job: time of the submission by the monotonic clock, and filler.
#[derive(Serialize, Deserialize)]
pub(super) struct LoadInput {
    pub(super) submitted_ns: u64,
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
    if plan.history > 0 {
        bench.drain(plan.history, "history").await?;
    }
    match plan.scenario {
        Scenario::Submit => bench.submit().await,
        Scenario::Bulk => bench.bulk().await,
        Scenario::Drain => {
            let (took, watch) = bench.drain(plan.jobs, "drain").await?;
            Ok(BenchReport::new(plan, took, &watch))
        }
        Scenario::Latency => bench.latency().await,
        Scenario::Steps => bench.steps().await,
        Scenario::Claim => bench.claim().await,
        Scenario::Fair => bench.fair().await,
    }
}

impl EngineBench<'_> {
    async fn submit(&self) -> anyhow::Result<BenchReport> {
        let engine = self.submitter().await?;
        let watch = Stopwatch::new(self.plan, "submit", self.plan.jobs);
        let (began, filler) = (self.began, self.filler());
        let timer = Instant::now();
        let turns = Turns::new(self.plan.jobs, self.plan.rate);
        callers(self.plan.concurrency, turns, &watch, move |_| {
            let (engine, load) = (engine.clone(), load(began, &filler));
            async move { engine.submit_raw("noop", &load).await.map(drop).context("submit") }
        })
        .await?;
        watch.done();
        Ok(BenchReport::new(self.plan, timer.elapsed(), &watch))
    }

    async fn bulk(&self) -> anyhow::Result<BenchReport> {
        let engine = self.submitter().await?;
        let watch = Stopwatch::new(self.plan, "bulk", self.plan.jobs);
        let timer = Instant::now();
        self.submit_all(&engine, self.plan.jobs, Some(&watch)).await?;
        watch.done();
        Ok(BenchReport::new(self.plan, timer.elapsed(), &watch))
    }

    /// Submits `jobs`, then runs them. Returns the time from the first claim to the last settlement;
    /// the stopwatch holds the delay of each job after the first claim.
    async fn drain(
        &self,
        jobs: usize,
        label: &'static str,
    ) -> anyhow::Result<(Duration, Stopwatch)> {
        let submitter = self.submitter().await?;
        self.submit_all(&submitter, jobs, None).await?;
        submitter.stop().await;
        let watch = Stopwatch::new(self.plan, label, jobs);
        let timer = Instant::now();
        let (ran, mut all_ran) = mpsc::unbounded_channel();
        let engine = self
            .worker(Kind::new("noop", {
                let watch = watch.clone();
                move |_ctx: Ctx, _load: LoadInput| {
                    watch.took(timer.elapsed(), 1);
                    // Fails only after the scenario has failed.
                    ran.send(()).ok();
                    async { Ok::<_, JobError>(()) }
                }
            }))
            .await?;
        for _ in 0..jobs {
            all_ran.recv().await.context("the workers stopped")?;
        }
        // All jobs are claimed; stopping waits for their settlement.
        engine.stop().await;
        let took = timer.elapsed();
        watch.done();
        Ok((took, watch))
    }

    async fn latency(&self) -> anyhow::Result<BenchReport> {
        let (picked_up, mut pickups) = mpsc::unbounded_channel();
        let began = self.began;
        let engine = self
            .worker(Kind::new("noop", move |_ctx: Ctx, load: LoadInput| {
                picked_up
                    .send(began.elapsed().saturating_sub(Duration::from_nanos(load.submitted_ns)))
                    .ok();
                async { Ok::<_, JobError>(()) }
            }))
            .await?;
        let watch = Stopwatch::new(self.plan, "latency", self.plan.jobs);
        let filler = self.filler();
        let mut timer = tokio::time::interval(LATENCY_EVERY);
        let start = Instant::now();
        for _ in 0..self.plan.jobs {
            timer.tick().await;
            engine.submit_raw("noop", &load(began, &filler)).await?;
            watch.took(pickups.recv().await.context("the workers stopped")?, 1);
        }
        watch.done();
        let took = start.elapsed();
        engine.stop().await;
        Ok(BenchReport::new(self.plan, took, &watch))
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
        let watch = Stopwatch::new(self.plan, "steps", self.plan.jobs);
        let (began, filler) = (self.began, self.filler());
        let timer = Instant::now();
        let turns = Turns::new(self.plan.jobs, self.plan.rate);
        let submitter = engine.clone();
        callers(self.plan.concurrency, turns, &watch, move |_| {
            let (engine, load) = (submitter.clone(), load(began, &filler));
            async move { Ok(engine.submit_raw("noop", &load).await?.result_as::<()>().await?) }
        })
        .await?;
        let took = timer.elapsed();
        watch.done();
        engine.stop().await;
        Ok(BenchReport::new(self.plan, took, &watch))
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
        Ok(builder.concurrency(self.plan.concurrency).register(kind).start().await?)
    }

    pub(super) fn filler(&self) -> String {
        "x".repeat(self.plan.input_bytes)
    }
}

pub(super) fn load(began: Instant, filler: &str) -> LoadInput {
    let submitted_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    LoadInput { submitted_ns, filler: filler.to_owned() }
}
