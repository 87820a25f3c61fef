//! Load generator: the same scenarios for an engine in this process and for a server.

mod backlog;
mod engine;
mod measure;
mod server;

use serde::Serialize;

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
    pub load: BenchLoad,
    /// Shows a progress bar.
    pub progress: bool,
}

/// Size of a run. The comments are the help of the options.
#[derive(Debug, Clone, clap::Args)]
pub struct BenchLoad {
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub jobs: usize,
    /// Concurrent callers, and concurrent jobs
    #[arg(long, value_name = "C", default_value_t = 256)]
    pub concurrency: usize,
    /// Bytes of each job's input
    #[arg(long, value_name = "B", default_value_t = 100)]
    pub input_bytes: usize,
    /// Finished jobs to insert first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub history: usize,
    /// Pending jobs during the scenarios claim and fair
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub pending: usize,
    /// Submissions per second [default: unlimited]
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,
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
    match target {
        BenchSubject::Engine(store) => engine::run(plan, &store).await,
        BenchSubject::Server { url, api_key } => server::run(plan, &url, api_key).await,
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
