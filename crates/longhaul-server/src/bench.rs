//! Load generator: the same scenarios for an engine in this process and for a server.

mod backlog;
mod engine;
mod measure;
mod server;

use std::time::Duration;

use serde::Serialize;

use self::measure::Stopwatch;
use crate::config::Database;

/// Scenario to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// One durable submission per call.
    Submit,
    /// Submissions in batches of 1,000.
    Bulk,
    /// Existing jobs, from the first claim to the last settlement.
    Drain,
    /// One job every 20 ms on an idle engine, from the submission to the start of the handler.
    Latency,
    /// Jobs of three checkpointed no-op steps, from the submission to the result.
    Steps,
    /// Claims of up to 32 jobs with `--pending` other pending jobs.
    Claim,
    /// One job every 20 ms with `--pending` pending jobs of another tenant, from the submission to
    /// the start of the handler.
    Fair,
}

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct BenchPlan {
    pub scenario: Scenario,
    pub jobs: usize,
    /// Concurrent callers and concurrent jobs.
    pub concurrency: usize,
    pub input_bytes: usize,
    /// Finished jobs to insert first.
    pub history: usize,
    /// Pending jobs during [`Scenario::Claim`] and [`Scenario::Fair`].
    pub pending: usize,
    /// Submissions per second; unlimited if `None`.
    pub rate: Option<f64>,
    /// Shows a progress bar.
    pub progress: bool,
}

/// System under test.
#[derive(Debug, Clone)]
pub enum BenchSubject {
    Engine(Database),
    Server { url: String, api_key: Option<String> },
}

/// Result of a run, one line of JSON.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchReport {
    pub scenario: String,
    pub jobs: usize,
    pub seconds: f64,
    pub jobs_per_s: f64,
    /// Only in [`Scenario::Steps`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_per_s: Option<f64>,
    /// Median latency.
    pub p50_ms: f64,
    /// 99th percentile of the latency.
    pub p99_ms: f64,
}

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
