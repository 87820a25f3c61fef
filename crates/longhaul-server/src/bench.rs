//! The load generator: the same scenarios on an engine in this process or against a server.

mod backlog;
mod engine;
mod measure;
mod server;

use std::time::Duration;

use serde::Serialize;

pub use engine::BenchStore;
use measure::Stopwatch;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// One durable submit per call, awaited.
    Submit,
    /// Submits in batches of 1,000.
    BulkCommand,
    /// Jobs submitted first, then timed from the first claim to the last one settled.
    Drain,
    /// One job every 20 ms on an idle engine: from the submit call to the handler's start.
    Latency,
    /// Jobs of three checkpointed no-op steps: each caller submits one and waits for its result.
    Steps,
    /// Claims of up to 32 jobs while `--pending` others wait: how long each takes.
    Claim,
    /// One tenant's job every 20 ms while `--pending` jobs of another tenant wait: from the submit
    /// call to the handler's start.
    Fair,
}

/// How much of it.
#[derive(Debug, Clone)]
pub struct BenchPlan {
    /// What is measured.
    pub scenario: Scenario,
    /// How many jobs.
    pub jobs: usize,
    /// How many callers submit at once, and how many jobs run at once.
    pub concurrency: usize,
    /// Bytes of each job's input.
    pub input_bytes: usize,
    /// Finished jobs to put into the store first.
    pub history: usize,
    /// Jobs that wait in line meanwhile, where that is the question.
    pub pending: usize,
    /// Submits per second; as fast as they go if there is none.
    pub rate: Option<f64>,
    /// Show a progress bar.
    pub progress: bool,
}

/// Where the load goes.
#[derive(Debug, Clone)]
pub enum BenchSubject {
    /// An engine in this process.
    Engine(BenchStore),
    /// A server.
    Server {
        /// Its address.
        url: String,
        /// A key for it.
        api_key: Option<String>,
    },
}

/// What came out, one JSON line.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchReport {
    /// What was measured.
    pub scenario: String,
    /// How many jobs.
    pub jobs: usize,
    /// How long it took.
    pub seconds: f64,
    /// Jobs per second.
    pub jobs_per_s: f64,
    /// Steps per second, where there are steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_per_s: Option<f64>,
    /// Half of the calls (or pickups) took at most this long.
    pub p50_ms: f64,
    /// 99 of 100 took at most this long.
    pub p99_ms: f64,
}

/// Runs the plan.
pub async fn run(plan: &BenchPlan, target: BenchSubject) -> anyhow::Result<BenchReport> {
    anyhow::ensure!(plan.jobs > 0, "--jobs must be at least 1");
    anyhow::ensure!(plan.concurrency > 0, "--concurrency must be at least 1");
    match target {
        BenchSubject::Engine(store) => engine::run(plan, &store).await,
        BenchSubject::Server { url, api_key } => server::run(plan, &url, api_key).await,
    }
}

impl BenchReport {
    fn new(plan: &BenchPlan, took: Duration, watch: &Stopwatch) -> Self {
        let seconds = took.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 jobs")]
        let jobs_per_s = plan.jobs as f64 / seconds;
        let steps_per_s = (plan.scenario == Scenario::Steps).then_some(jobs_per_s * 3.0);
        let (p50_ms, p99_ms) = watch.p50_p99_ms();
        let scenario = format!("{:?}", plan.scenario).to_lowercase();
        let round = |value: f64| (value * 1_000.0).round() / 1_000.0;
        Self {
            scenario,
            jobs: plan.jobs,
            seconds: round(seconds),
            jobs_per_s: round(jobs_per_s),
            steps_per_s: steps_per_s.map(round),
            p50_ms: round(p50_ms),
            p99_ms: round(p99_ms),
        }
    }
}

impl std::fmt::Display for BenchReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:<8} {:>9} jobs in {:>8.2} s  {:>9.0} jobs/s",
            self.scenario, self.jobs, self.seconds, self.jobs_per_s
        )?;
        if let Some(steps) = self.steps_per_s {
            write!(f, "  {steps:>9.0} steps/s")?;
        }
        write!(f, "  p50 {:>8.2} ms  p99 {:>8.2} ms", self.p50_ms, self.p99_ms)
    }
}
