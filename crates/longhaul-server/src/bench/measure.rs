//! Concurrent callers and their latencies.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::{BenchLoad, BenchPlan, BenchReport, Scenario};

/// Measures a run and collects latencies. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Stopwatch {
    started: Instant,
    took: Arc<Mutex<Vec<Duration>>>,
    bar: ProgressBar,
}

impl Stopwatch {
    /// Starts a stopwatch with a progress bar.
    pub(super) fn start(plan: &BenchPlan, label: &'static str, total: usize) -> Self {
        let bar =
            if plan.progress { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        let template = "{msg:<10} [{bar:40}] {human_pos}/{human_len}  {per_sec}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(label);
        Self { started: Instant::now(), took: Arc::default(), bar }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Records a latency for `jobs` jobs.
    pub(super) fn took(&self, duration: Duration, jobs: usize) {
        self.took.lock().unwrap_or_else(PoisonError::into_inner).push(duration);
        self.bar.inc(jobs as u64);
    }

    /// Ends the run: clears the progress bar and returns the result of all jobs of the plan.
    pub(super) fn report(&self, plan: &BenchPlan) -> BenchReport {
        let seconds = self.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        let jobs = plan.load.jobs;
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 jobs")]
        let jobs_per_s = jobs as f64 / seconds;
        let steps_per_s = (plan.scenario == Scenario::Steps).then_some(jobs_per_s * 3.0);
        let (p50_ms, p99_ms) = self.p50_p99_ms();
        let round = |value: f64| (value * 1_000.0).round() / 1_000.0;
        BenchReport {
            scenario: format!("{:?}", plan.scenario).to_lowercase(),
            jobs,
            seconds: round(seconds),
            jobs_per_s: round(jobs_per_s),
            steps_per_s: steps_per_s.map(round),
            p50_ms: round(p50_ms),
            p99_ms: round(p99_ms),
        }
    }

    /// Returns the median and the 99th percentile in milliseconds.
    fn p50_p99_ms(&self) -> (f64, f64) {
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner).clone();
        took.sort_unstable();
        let at = |percent: usize| {
            let store = (took.len() * percent).div_ceil(100).saturating_sub(1);
            took.get(store).map_or(0.0, |duration| duration.as_secs_f64() * 1_000.0)
        };
        (at(50), at(99))
    }
}

/// Runs `call` once for each job, from concurrent callers. With a rate, a call that starts late
/// because others are slow is measured from its scheduled time.
pub(super) async fn callers<F, Fut>(
    load: &BenchLoad,
    watch: &Stopwatch,
    call: F,
) -> anyhow::Result<()>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let (jobs, began, next) = (load.jobs, Instant::now(), Arc::new(AtomicUsize::new(0)));
    let every = load.rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..load.concurrency {
        let (next, watch, call) = (Arc::clone(&next), watch.clone(), call.clone());
        tasks.spawn(async move {
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= jobs {
                    return anyhow::Ok(());
                }
                let mut due = Instant::now();
                if let Some(every) = every {
                    due = began + every.mul_f64(f64::from(u32::try_from(turn).unwrap_or(u32::MAX)));
                    tokio::time::sleep_until(due.into()).await;
                }
                call().await?;
                watch.took(due.elapsed(), 1);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let (jobs, concurrency, input_bytes, history, pending) = (100, 1, 0, 0, 0);
        let load = BenchLoad { jobs, concurrency, input_bytes, history, pending, rate: None };
        let plan = BenchPlan { scenario: Scenario::Submit, load, progress: false };
        let watch = Stopwatch::start(&plan, "x", 100);
        assert_eq!(watch.p50_p99_ms(), (0.0, 0.0));
        for ms in (1..=100).rev() {
            watch.took(Duration::from_millis(ms), 1);
        }
        assert_eq!(watch.p50_p99_ms(), (50.0, 99.0));
    }
}
