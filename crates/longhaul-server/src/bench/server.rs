//! Scenarios for a server, with its kind `demo`.

use std::time::{Duration, Instant};

use anyhow::Context;
use longhaul_client::wire::{BatchAnswer, BatchJob, BatchRequest, Status, SubmitRequest};
use longhaul_client::{Client, SubmitOptions};
use serde_json::{Value, json};

use super::engine::{BATCH, LATENCY_EVERY};
use super::measure::{Stopwatch, Turns, callers};
use super::{BenchPlan, BenchReport, Scenario};

/// Longest wait of a call for its job.
const WAIT: Duration = Duration::from_mins(1);
/// Queue of the generated jobs, so that they do not mix with other jobs.
const QUEUE: &str = "bench";

struct EngineBench<'a> {
    plan: &'a BenchPlan,
    client: Client,
}

pub(super) async fn run(
    plan: &BenchPlan,
    url: &str,
    api_key: Option<String>,
) -> anyhow::Result<BenchReport> {
    anyhow::ensure!(plan.history == 0, "--history works on an engine in this process only");
    let bench = EngineBench { plan, client: Client::new(url, api_key)? };
    match plan.scenario {
        Scenario::Submit => bench.each("submit", plan.rate, &json!({}), None).await,
        Scenario::Steps => bench.each("steps", plan.rate, &json!({"steps": 3}), Some(WAIT)).await,
        Scenario::Latency => {
            let rate = Some(1.0 / LATENCY_EVERY.as_secs_f64());
            bench.each("latency", rate, &json!({}), Some(WAIT)).await
        }
        Scenario::Bulk => bench.bulk().await,
        Scenario::Drain => bench.drain().await,
        Scenario::Claim | Scenario::Fair => {
            anyhow::bail!("this scenario works on an engine in this process only")
        }
    }
}

impl EngineBench<'_> {
    /// Sends one call per job, which waits for the job if `wait` is set.
    async fn each(
        &self,
        label: &'static str,
        rate: Option<f64>,
        input: &Value,
        wait: Option<Duration>,
    ) -> anyhow::Result<BenchReport> {
        let request = self.request(input)?;
        let watch = Stopwatch::new(self.plan, label, self.plan.jobs);
        let timer = Instant::now();
        let turns = Turns::new(self.plan.jobs, rate);
        let client = self.client.clone();
        callers(self.plan.concurrency, turns, &watch, move |_| {
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
        watch.done();
        Ok(BenchReport::new(self.plan, timer.elapsed(), &watch))
    }

    async fn bulk(&self) -> anyhow::Result<BenchReport> {
        let watch = Stopwatch::new(self.plan, "bulk", self.plan.jobs);
        let timer = Instant::now();
        self.submit_all(&watch).await?;
        watch.done();
        Ok(BenchReport::new(self.plan, timer.elapsed(), &watch))
    }

    /// Submits to a paused queue, then resumes it and waits until it is empty.
    async fn drain(&self) -> anyhow::Result<BenchReport> {
        self.client.pause_queue(QUEUE).await?;
        self.submit_all(&Stopwatch::new(self.plan, "submit", self.plan.jobs)).await?;
        self.client.resume_queue(QUEUE).await?;
        let watch = Stopwatch::new(self.plan, "drain", self.plan.jobs);
        let timer = Instant::now();
        let mut left = u64::try_from(self.plan.jobs)?;
        while left > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let queues = self.client.queues().await?;
            let queue = queues.iter().find(|queue| queue.name == QUEUE);
            let now_left = queue.map_or(0, |queue| queue.pending + queue.running).min(left);
            for _ in now_left..left {
                watch.took(timer.elapsed(), 1);
            }
            left = now_left;
        }
        watch.done();
        Ok(BenchReport::new(self.plan, timer.elapsed(), &watch))
    }

    async fn submit_all(&self, watch: &Stopwatch) -> anyhow::Result<()> {
        let request = self.request(&json!({}))?;
        let mut left = self.plan.jobs;
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

    fn request(&self, input: &Value) -> anyhow::Result<SubmitRequest> {
        let mut input = input.clone();
        if let Some(fields) = input.as_object_mut() {
            fields.insert("result".to_owned(), "x".repeat(self.plan.input_bytes).into());
        }
        let mut request = SubmitRequest::new("demo", &input).context("the input")?;
        request.queue = Some(QUEUE.to_owned());
        Ok(request)
    }
}
