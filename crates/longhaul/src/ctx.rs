//! What a handler holds while it runs a job.

mod artifact;
pub(crate) mod payload;
mod replay;
mod sleep;
mod step;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use artifact::ArtifactWriter;
use artifact::AttemptOutputs;
pub use payload::Payload;
pub use step::StepCall;

use crate::engine::Shared;
use crate::job::{
    Job, JobError, JobId, Outcome, Progress, Retry, Status, Step, Timestamp, Tokens, check_limit,
};
use crate::store::{Lease, LeaseRef, Report, StoreError};
use crate::worker::ProgressReporter;
use replay::Replay;

/// How soon a write of a handler is tried again while the store is not available.
const STORE_RETRY: Retry =
    Retry { max_attempts: u32::MAX, first: Duration::from_millis(50), max: Duration::from_secs(2) };
/// The longest message of a progress report; what is beyond it is cut.
const PROGRESS_CHARS_MAX: usize = 1_024;

/// A handler's hold on its job: steps, progress, sleep, cancellation. Clones share everything.
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    reports: Arc<ProgressReporter>,
    lease: LeaseRef,
    job: Job,
    stored: Vec<Step>,
    signals: Signals,
    /// A std mutex: held for a few field writes, never across an await.
    state: Mutex<State>,
    /// A std mutex: the same.
    made: Mutex<AttemptOutputs>,
}

/// How the outside tells a running attempt what to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    /// Somebody asked the job to stop.
    pub(crate) cancel: CancellationToken,
    /// The lease is lost: whatever this attempt still does counts for nothing.
    pub(crate) lost: CancellationToken,
    /// The replica is stopping: start nothing new.
    pub(crate) stopping: CancellationToken,
}

struct State {
    replay: Replay,
    /// Step bodies and sleeps that go on right now.
    in_flight: usize,
    /// Step bodies and sleeps begun so far: two that overlap see each other by it.
    begun: u64,
    /// When sleeping branches of the handler want to go on.
    sleepers: Vec<Timestamp>,
    /// How often the handler was polled.
    polls: u64,
    /// The poll in which the handler got the last answer of ours. What it asks for in the same
    /// poll follows from that answer; what it asks for later may come from elsewhere.
    answered_in: u64,
    /// A step was not begun because the replica is stopping.
    release: bool,
    /// An error that stands even if the handler swallows it.
    fault: Option<JobError>,
    /// What the handler said that it used of a language model.
    tokens: Tokens,
}

impl Ctx {
    pub(crate) fn new(
        shared: Arc<Shared>,
        reports: Arc<ProgressReporter>,
        lease: Lease,
        code_version: Option<&str>,
        signals: Signals,
    ) -> Self {
        let replay = Replay::new(&lease.steps, lease.job.code_version.as_deref(), code_version);
        let state = State {
            replay,
            in_flight: 0,
            begun: 0,
            sleepers: Vec::new(),
            polls: 0,
            answered_in: 0,
            release: false,
            fault: None,
            tokens: Tokens::default(),
        };
        Self(Arc::new(Inner {
            shared,
            reports,
            lease: lease.to_ref(),
            job: lease.job,
            stored: lease.steps,
            signals,
            state: Mutex::new(state),
            made: Mutex::default(),
        }))
    }

    /// The job as it was claimed.
    pub fn job(&self) -> &Job {
        &self.0.job
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    fn lease(&self) -> &LeaseRef {
        &self.0.lease
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// The steps that earlier attempts finished, in order.
    pub fn finished_steps(&self) -> &[Step] {
        &self.0.stored
    }

    /// Tells how far the job is. Cheap: calls in quick succession are coalesced to the latest.
    pub fn progress(&self, done: u64, total: impl Into<Option<u64>>) {
        self.report(Progress { done, total: total.into(), message: None });
    }

    /// Tells how far the job is, and in words.
    pub fn progress_with(
        &self,
        done: u64,
        total: impl Into<Option<u64>>,
        message: impl Into<String>,
    ) {
        self.report(Progress { done, total: total.into(), message: Some(message.into()) });
    }

    fn report(&self, mut progress: Progress) {
        if let Some(message) = &mut progress.message
            && let Some((cut, _)) = message.char_indices().nth(PROGRESS_CHARS_MAX)
        {
            message.truncate(cut);
        }
        self.0.reports.put(&self.0.lease, progress);
    }

    /// Names what the job is doing now ("loading", "rendering"). Everybody who watches learns of
    /// each phase, in order.
    pub async fn phase(&self, phase: impl Into<String>) -> Result<(), JobError> {
        let phase = phase.into();
        let chars_max = self.0.shared.limits.phase_chars_max;
        check_limit("a phase in characters", "phase_chars_max", &phase.chars().count(), &chars_max)
            .map_err(|error| JobError::new("limit", error, false))?;
        let follows = self.state().follows();
        self.retry_until_lease_lost(|| async {
            let (lease, phases) = (self.0.lease.clone(), vec![phase.clone()]);
            let report = Report { lease, phases, progress: None };
            self.0.shared.store.report(vec![report]).await.pop().unwrap_or(Ok(()))
        })
        .await?;
        let LeaseRef { tenant, job, .. } = &self.0.lease;
        self.0.shared.watchers.changed(tenant, *job, Status::Running, None);
        if follows {
            self.state().answered();
        }
        Ok(())
    }

    /// Writes to the store, however long it is away: when the lease runs out the attempt is dropped.
    async fn retry_until_lease_lost<Fut>(
        &self,
        mut write: impl FnMut() -> Fut,
    ) -> Result<(), JobError>
    where
        Fut: Future<Output = Result<(), StoreError>>,
    {
        for attempt in 1.. {
            match write().await {
                Ok(()) => return Ok(()),
                Err(StoreError::LeaseLost) => return self.stop_here().await,
                Err(error) if error.is_transient() => {
                    tokio::time::sleep(STORE_RETRY.delay(attempt, rand::random())).await;
                }
                Err(error) => {
                    self.0.shared.record_store_error(&error);
                    return Err(error.into());
                }
            }
        }
        self.stop_here().await
    }

    /// Tells what a language model read and wrote in this attempt, once more or for the first time. It is
    /// metered with the job if this attempt ends it.
    pub fn record_tokens(&self, tokens: Tokens) {
        self.state().tokens += tokens;
    }

    pub(crate) fn used_tokens(&self) -> Tokens {
        self.state().tokens
    }

    /// Whether somebody asked the job to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.signals.cancel.is_cancelled()
    }

    /// Returns when somebody asks the job to stop.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.signals.cancel.clone().cancelled_owned()
    }

    /// The handler is about to be polled.
    pub(crate) fn polled(&self) {
        self.state().polls += 1;
    }

    /// How the attempt ends early, if it does. Asked after a poll in which the handler could have
    /// gone on and did not: all that is left of it waits for a sleep to end or a stop to pass. What
    /// it does outside of steps is not seen, and runs again later.
    pub(crate) fn suspension(&self) -> Option<Outcome> {
        let state = self.state();
        let working = state.in_flight > state.sleepers.len();
        match state.sleepers.iter().min() {
            _ if working => None,
            Some(until) => Some(Outcome::Sleep { until: *until }),
            None => state.release.then_some(Outcome::Released),
        }
    }

    /// What is wrong with a run that the handler believes to be fine.
    pub(crate) fn fault(&self) -> Option<JobError> {
        let state = self.state();
        state.fault.clone().or_else(|| state.replay.finish().err())
    }

    /// The lease is lost. Nothing that follows may have an effect: the attempt is being dropped.
    async fn stop_here<T>(&self) -> T {
        self.0.signals.lost.cancel();
        std::future::pending().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether what the handler asks for now follows directly from our last answer to it.
    fn follows(&self) -> bool {
        self.replay.len() <= 1 || self.answered_in == self.polls
    }

    /// The handler gets an answer of ours.
    fn answered(&mut self) {
        self.answered_in = self.polls;
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("job", &self.0.job.id).finish_non_exhaustive()
    }
}
