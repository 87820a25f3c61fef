//! Jobs of a simulation: several steps of planned durations, some of which fail.

use std::sync::Arc;
use std::time::Duration;

use longhaul::{Ctx, JobError, JobId, Kind, Retry};
use rand::RngExt;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use super::ledger::{Event, StepEnd};
use super::link::Link;

pub(super) const KIND: &str = "work";
/// Message of the errors of steps.
pub(super) const PLANNED_ERROR: &str = "planned";
/// Maximum duration of a step that begins after all faults.
const HEALED_STEP: Duration = Duration::from_secs(1);

/// Input of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Work {
    /// Durations of its steps, in milliseconds.
    steps_ms: Vec<u64>,
    /// The step that fails.
    failing: usize,
    /// Number of attempts in which it fails.
    failures: u32,
    /// Time between the first two steps in which the job is pending, in milliseconds. 0 for none.
    sleep_ms: u64,
}

impl Work {
    pub(super) fn draw(random: &mut StdRng) -> Self {
        let longest = [200, 1_000, 5_000, 25_000][random.random_range(0..4)];
        let steps = random.random_range(1..=8);
        Self {
            steps_ms: (0..steps).map(|_| random.random_range(1..longest)).collect(),
            failing: random.random_range(0..steps),
            failures: [0, 0, 0, 1, 2][random.random_range(0..5)],
            sleep_ms: [0, 0, 0, 3_000][random.random_range(0..4)],
        }
    }
}

/// Returns the kind as one engine runs it.
pub(super) fn kind(link: &Arc<Link>) -> Kind {
    let link = Arc::clone(link);
    Kind::new(KIND, move |ctx: Ctx, work: Work| {
        let link = Arc::clone(&link);
        async move {
            let (run, job, attempt) = (link.world().next_run(), ctx.id(), ctx.attempt());
            link.record(Event::HandlerBegan { run, job, attempt });
            let mut outputs = Vec::new();
            for (index, ms) in work.steps_ms.iter().enumerate() {
                let fails = index == work.failing && attempt <= work.failures;
                let (step, lasts) = (format!("step-{index}"), Duration::from_millis(*ms));
                let run_step = || run_step(&link, run, job, &step, lasts, fails);
                let output: String = ctx.step(step.clone(), run_step).await?;
                outputs.push(output);
                if index == 0 && work.sleep_ms > 0 {
                    ctx.sleep("sleep", Duration::from_millis(work.sleep_ms)).await?;
                }
            }
            Ok::<_, JobError>(outputs)
        }
    })
    .retry(Retry::times(3).first(Duration::from_millis(500)).max(Duration::from_secs(3)))
}

async fn run_step(
    link: &Link,
    run: u64,
    job: JobId,
    step: &str,
    lasts: Duration,
    fails: bool,
) -> Result<String, JobError> {
    let body = StepBody { link, run, job, step, end: StepEnd::Dropped };
    link.record(Event::StepBegan { run, job, step: step.to_owned() });
    let is_healed = link.world().is_healed();
    link.world().clock.sleep(if is_healed { lasts.min(HEALED_STEP) } else { lasts }).await;
    if fails {
        body.ended(StepEnd::Failed);
        return Err(JobError::retryable(PLANNED_ERROR));
    }
    body.ended(StepEnd::Finished);
    // Every run has other outputs, so that a mix of two is noticed.
    Ok(format!("{step} of run {run}"))
}

/// Records the end of a step's body, also when it is dropped.
struct StepBody<'a> {
    link: &'a Link,
    run: u64,
    job: JobId,
    step: &'a str,
    end: StepEnd,
}

impl StepBody<'_> {
    fn ended(mut self, end: StepEnd) {
        self.end = end;
    }
}

impl Drop for StepBody<'_> {
    fn drop(&mut self) {
        let (run, job, step) = (self.run, self.job, self.step.to_owned());
        self.link.record(Event::StepEnded { run, job, step, end: self.end });
    }
}
