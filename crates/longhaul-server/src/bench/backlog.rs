//! Scenarios with a backlog: the cost of claims, and the latency of another tenant.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use longhaul::job::{Json, Name, Outcome, TenantId};
use longhaul::store::{Claim, KindCapacity, Settlement};
use longhaul::{Ctx, JobError, Kind};
use tokio::sync::mpsc;

use super::BenchReport;
use super::engine::{EngineBench, LATENCY_EVERY, LoadInput, load};
use super::measure::Stopwatch;

/// Jobs per claim.
const CLAIM_SIZE: usize = 32;
const LEASE: Duration = Duration::from_mins(1);
/// Tenant of the backlog.
const BACKLOG_TENANT: &str = "backlog";
/// Jobs that are added to the backlog at once.
const REFILL_MAX: usize = 1_000;

impl EngineBench<'_> {
    /// Claims and settles `jobs` of the backlog, and times the claims.
    pub(super) async fn claim(&self) -> anyhow::Result<BenchReport> {
        let submitter = self.submitter().await?;
        self.submit_all(&submitter, self.plan.pending + self.plan.jobs, None).await?;
        submitter.stop().await;
        let watch = Stopwatch::new(self.plan, "claim", self.plan.jobs);
        let kind =
            KindCapacity { kind: Name::new("noop")?, capacity: CLAIM_SIZE, code_version: None };
        let want = Claim {
            replica: "bench".to_owned(),
            limit: CLAIM_SIZE,
            lease: LEASE,
            kinds: vec![kind],
            limits: Arc::default(),
            queue_capacity: None,
        };
        let (mut left, timer) = (self.plan.jobs, Instant::now());
        while left > 0 {
            let claiming = Instant::now();
            let leases = self.store.claim(&want).await?.leases;
            watch.took(claiming.elapsed(), leases.len());
            anyhow::ensure!(!leases.is_empty(), "no jobs are due");
            left = left.saturating_sub(leases.len());
            let settle = |lease: &longhaul::store::Lease| Settlement {
                lease: lease.to_ref(),
                outcome: Outcome::Completed(Json::null()),
                phases: Vec::new(),
                progress: None,
                artifacts: Vec::new(),
                tokens: longhaul::job::Tokens::default(),
            };
            for settled in self.store.settle(leases.iter().map(settle).collect()).await {
                settled?;
            }
        }
        watch.done();
        Ok(BenchReport::new(self.plan, timer.elapsed(), &watch))
    }

    /// Measures the latency of the default tenant beside the backlog of another tenant. The backlog is
    /// refilled with every started job, so that workers are equally busy with a small and a large one.
    pub(super) async fn fair(&self) -> anyhow::Result<BenchReport> {
        let backlog = TenantId::new(BACKLOG_TENANT)?;
        let submitter = self.submitter().await?;
        self.submit_all(&submitter.for_tenant(backlog.clone()), self.plan.pending, None).await?;
        let (picked_up, mut pickups) = mpsc::unbounded_channel();
        let (backlog_left, mut leaving) = mpsc::unbounded_channel();
        let began = self.began;
        let engine = self
            .worker(Kind::new("noop", move |ctx: Ctx, load: LoadInput| {
                let waited =
                    began.elapsed().saturating_sub(Duration::from_nanos(load.submitted_ns));
                if ctx.job().tenant.as_str() == BACKLOG_TENANT {
                    backlog_left.send(()).ok();
                } else {
                    picked_up.send(waited).ok();
                }
                async {
                    // Keeps all workers busy.
                    tokio::time::sleep(LATENCY_EVERY).await;
                    Ok::<_, JobError>(())
                }
            }))
            .await?;
        let watch = Stopwatch::new(self.plan, "fair", self.plan.jobs);
        let filler = self.filler();
        let (backlog, backlog_filler) = (submitter.for_tenant(backlog), filler.clone());
        let refill = tokio::spawn(async move {
            let mut left = Vec::new();
            while leaving.recv_many(&mut left, REFILL_MAX).await > 0 {
                let another = |()| backlog.submit_raw("noop", &load(began, &backlog_filler));
                drop(backlog.submit_all(left.drain(..).map(another).collect()).await);
            }
        });
        let mut timer = tokio::time::interval(LATENCY_EVERY);
        let start = Instant::now();
        for _ in 0..self.plan.jobs {
            timer.tick().await;
            engine.submit_raw("noop", &load(began, &filler)).await?;
            watch.took(pickups.recv().await.context("the workers stopped")?, 1);
        }
        watch.done();
        let took = start.elapsed();
        refill.abort();
        submitter.stop().await;
        engine.stop().await;
        Ok(BenchReport::new(self.plan, took, &watch))
    }
}
