//! Concurrent callers and their latencies.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::BenchPlan;

/// Collects latencies. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Stopwatch {
    took: Arc<Mutex<Vec<Duration>>>,
    bar: ProgressBar,
}

impl Stopwatch {
    /// Creates a stopwatch with a progress bar.
    pub(super) fn new(plan: &BenchPlan, label: &'static str, total: usize) -> Self {
        let bar =
            if plan.progress { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        let template = "{msg:<10} [{bar:40}] {human_pos}/{human_len}  {per_sec}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(label);
        Self { took: Arc::default(), bar }
    }

    /// Records a latency for `jobs` jobs.
    pub(super) fn took(&self, duration: Duration, jobs: usize) {
        self.took.lock().unwrap_or_else(PoisonError::into_inner).push(duration);
        self.bar.inc(jobs as u64);
    }

    /// Clears the progress bar.
    pub(super) fn done(&self) {
        self.bar.finish_and_clear();
    }

    /// Returns the median and the 99th percentile in milliseconds.
    pub(super) fn p50_p99_ms(&self) -> (f64, f64) {
        let mut took = self.took.lock().unwrap_or_else(PoisonError::into_inner).clone();
        took.sort_unstable();
        let at = |percent: usize| {
            let store = (took.len() * percent).div_ceil(100).saturating_sub(1);
            took.get(store).map_or(0.0, |duration| duration.as_secs_f64() * 1_000.0)
        };
        (at(50), at(99))
    }
}

/// Issues 0, 1, 2, … to callers, optionally at a fixed rate.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    next: Arc<AtomicUsize>,
    total: usize,
    every: Option<Duration>,
    began: Instant,
}

impl Turns {
    pub(super) fn new(total: usize, rate: Option<f64>) -> Self {
        let every = rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
        Self { next: Arc::default(), total, every, began: Instant::now() }
    }

    /// Returns the next number with its scheduled time, so that a call that starts late because others
    /// are slow is measured from its scheduled time.
    pub(super) async fn next(&self) -> Option<(usize, Instant)> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        if turn >= self.total {
            return None;
        }
        let Some(every) = self.every else { return Some((turn, Instant::now())) };
        let due = self.began + every.mul_f64(f64::from(u32::try_from(turn).unwrap_or(u32::MAX)));
        tokio::time::sleep_until(due.into()).await;
        Some((turn, due))
    }
}

/// Runs `call` from `concurrency` callers until all numbers are issued.
pub(super) async fn callers<F, Fut>(
    concurrency: usize,
    turns: Turns,
    watch: &Stopwatch,
    call: F,
) -> anyhow::Result<()>
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let (turns, watch, call) = (turns.clone(), watch.clone(), call.clone());
        tasks.spawn(async move {
            while let Some((turn, due)) = turns.next().await {
                call(turn).await?;
                watch.took(due.elapsed(), 1);
            }
            anyhow::Ok(())
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
        let plan = super::super::BenchPlan {
            scenario: super::super::Scenario::Submit,
            jobs: 100,
            concurrency: 1,
            input_bytes: 0,
            history: 0,
            pending: 0,
            rate: None,
            progress: false,
        };
        let watch = Stopwatch::new(&plan, "x", 100);
        assert_eq!(watch.p50_p99_ms(), (0.0, 0.0));
        for ms in (1..=100).rev() {
            watch.took(Duration::from_millis(ms), 1);
        }
        assert_eq!(watch.p50_p99_ms(), (50.0, 99.0));
    }
}
