//! Scenarios for a server, with its kind `demo`.

use std::time::{Duration, Instant};

use anyhow::Context;
use longhaul_client::wire::{BatchAnswer, BatchJob, BatchRequest, Status, SubmitRequest};
use longhaul_client::{Client, SubmitOptions};
use serde_json::{Value, json};

use super::engine::{BATCH, LATENCY_EVERY};
use super::measure::{Stopwatch, callers};
use super::{BenchLoad, BenchPlan, BenchReport, Scenario};

/// Longest wait of a call for its job.
const WAIT: Duration = Duration::from_mins(1);
/// Queue of the generated jobs, so that they do not mix with other jobs.
const QUEUE: &str = "bench";

struct ServerBench<'a> {
    plan: &'a BenchPlan,
    client: Client,
}

pub(super) async fn run(
    plan: &BenchPlan,
    url: &str,
    api_key: Option<String>,
) -> anyhow::Result<BenchReport> {
    anyhow::ensure!(plan.load.history == 0, "--history works on an engine in this process only");
    let bench = ServerBench { plan, client: Client::new(url, api_key)? };
    match plan.scenario {
        Scenario::Submit => bench.each("submit", &plan.load, &json!({}), None).await,
        Scenario::Steps => bench.each("steps", &plan.load, &json!({"steps": 3}), Some(WAIT)).await,
        Scenario::Latency => {
            let rate = Some(1.0 / LATENCY_EVERY.as_secs_f64());
            let load = BenchLoad { rate, ..plan.load.clone() };
            bench.each("latency", &load, &json!({}), Some(WAIT)).await
        }
        Scenario::Bulk => bench.bulk().await,
        Scenario::Drain => bench.drain().await,
        Scenario::Claim | Scenario::Fair => {
            anyhow::bail!("this scenario works on an engine in this process only")
        }
    }
}

impl ServerBench<'_> {
    /// Sends one call per job, which waits for the job if `wait` is set.
    async fn each(
        &self,
        label: &'static str,
        load: &BenchLoad,
        input: &Value,
        wait: Option<Duration>,
    ) -> anyhow::Result<BenchReport> {
        let request = self.request(input)?;
        let client = self.client.clone();
        let watch = self.start(label);
        callers(load, &watch, move || {
            let (client, request) = (client.clone(), request.clone());
            async move {
                let options = SubmitOptions { wait, ..SubmitOptions::default() };
                let job = client.submit(&request, &options).await?;
                anyhow::ensure!(
                    wait.is_none() || job.status == Status::Completed,
                    "job {} is {}",
                    job.job_id,
                    job.status
                );
                Ok(())
            }
        })
        .await?;
        Ok(watch.report(self.plan))
    }

    async fn bulk(&self) -> anyhow::Result<BenchReport> {
        let watch = self.start("bulk");
        self.submit_all(&watch).await?;
        Ok(watch.report(self.plan))
    }

    /// Submits to a paused queue, then resumes it and waits until it is empty.
    async fn drain(&self) -> anyhow::Result<BenchReport> {
        self.client.pause_queue(QUEUE).await?;
        self.submit_all(&self.start("submit")).await?;
        self.client.resume_queue(QUEUE).await?;
        let watch = self.start("drain");
        let mut left = u64::try_from(self.plan.load.jobs)?;
        while left > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let queues = self.client.queues().await?;
            let queue = queues.iter().find(|queue| queue.name == QUEUE);
            let now_left = queue.map_or(0, |queue| queue.pending + queue.running).min(left);
            for _ in now_left..left {
                watch.took(watch.elapsed(), 1);
            }
            left = now_left;
        }
        Ok(watch.report(self.plan))
    }

    async fn submit_all(&self, watch: &Stopwatch) -> anyhow::Result<()> {
        let request = self.request(&json!({}))?;
        let mut left = self.plan.load.jobs;
        while left > 0 {
            let size = left.min(BATCH);
            let timer = Instant::now();
            let jobs = (0..size).map(|_| BatchJob::new(None, request.clone())).collect();
            let answer = self.client.submit_batch(&BatchRequest { jobs }).await?;
            for item in answer {
                if let BatchAnswer::Problem(problem) = item {
                    anyhow::bail!("a job was refused: {}", problem.detail);
                }
            }
            watch.took(timer.elapsed(), size);
            left -= size;
        }
        Ok(())
    }

    fn start(&self, label: &'static str) -> Stopwatch {
        Stopwatch::start(self.plan, label, self.plan.load.jobs)
    }

    fn request(&self, input: &Value) -> anyhow::Result<SubmitRequest> {
        let mut input = input.clone();
        if let Some(fields) = input.as_object_mut() {
            fields.insert("result".to_owned(), "x".repeat(self.plan.load.input_bytes).into());
        }
        let mut request = SubmitRequest::new("demo", &input).context("the input")?;
        request.queue = Some(QUEUE.to_owned());
        Ok(request)
    }
}
