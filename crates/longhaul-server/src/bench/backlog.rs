//! Scenarios with a backlog: the cost of claims, and the latency of another tenant.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::job::{Json, Name, Outcome, TenantId};
use longhaul::store::{Claim, KindCapacity, Settlement};
use longhaul::{Ctx, JobError, Kind};
use tokio::sync::mpsc;

use super::BenchReport;
use super::engine::{EngineBench, LATENCY_EVERY, LoadInput, load};

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
        let mut left = self.plan.load.jobs;
        self.submit_all(&submitter, self.plan.load.pending + left, None).await?;
        submitter.stop().await;
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
        let watch = self.start("claim");
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
        Ok(watch.report(self.plan))
    }

    /// Measures the latency of the default tenant beside the backlog of another tenant. The backlog is
    /// refilled with every started job, so that workers are equally busy with a small and a large one.
    pub(super) async fn fair(&self) -> anyhow::Result<BenchReport> {
        let backlog = TenantId::new(BACKLOG_TENANT)?;
        let submitter = self.submitter().await?;
        self.submit_all(&submitter.for_tenant(backlog.clone()), self.plan.load.pending, None)
            .await?;
        let (picked_up, pickups) = mpsc::unbounded_channel();
        let (backlog_left, mut leaving) = mpsc::unbounded_channel();
        let began = self.began;
        let engine = self
            .worker(Kind::new("noop", move |ctx: Ctx, load: LoadInput| {
                if ctx.job().tenant.as_str() == BACKLOG_TENANT {
                    backlog_left.send(()).ok();
                } else {
                    picked_up.send(load.waited(began)).ok();
                }
                async {
                    // Keeps all workers busy.
                    tokio::time::sleep(LATENCY_EVERY).await;
                    Ok::<_, JobError>(())
                }
            }))
            .await?;
        let (backlog, filler) = (submitter.for_tenant(backlog), self.filler());
        let refill = tokio::spawn(async move {
            let mut left = Vec::new();
            while leaving.recv_many(&mut left, REFILL_MAX).await > 0 {
                let another = |()| backlog.submit_raw("noop", &load(began, &filler));
                drop(backlog.submit_all(left.drain(..).map(another).collect()).await);
            }
        });
        let report = self.measure_pickups("fair", &engine, pickups).await?;
        refill.abort();
        submitter.stop().await;
        engine.stop().await;
        Ok(report)
    }
}
