//! The context that a handler gets.

#[cfg(feature = "blobs")]
mod artifact;
#[cfg(feature = "server")]
mod output;
#[cfg(feature = "blobs")]
pub(crate) mod payload;
#[cfg(feature = "server")]
mod related_jobs;
mod replay;
mod sleep;
mod step;
pub(crate) mod work_dir;

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

#[cfg(feature = "blobs")]
pub use artifact::ArtifactWriter;
#[cfg(feature = "blobs")]
pub use payload::Payload;
pub use step::StepCall;

use crate::engine::EngineState;
use crate::job::{
    Job, JobError, JobId, Limits, Outcome, Progress, Retry, Status, Step, Timestamp, Tokens,
    check_limit,
};
use crate::store::{LeaseRef, NewBlob, Report, StoreError};
use crate::sync::Mutex;
use crate::worker::ProgressReporter;
use replay::Replay;

/// Backoff of an attempt's writes while the store is not available. Ends with the lease.
pub(crate) const STORE_RETRY: Retry =
    Retry { max_attempts: u32::MAX, first: Duration::from_millis(50), max: Duration::from_secs(2) };
/// Maximum length of a progress message; longer ones are truncated.
const PROGRESS_CHARS_MAX: usize = 1_024;

/// The context of a running job: steps, progress, sleep, cancellation, payload and artifacts.
/// Clones share all state.
///
/// ```
/// use std::time::Duration;
/// # use longhaul::Ctx;
/// # async fn fetch(page: u64) -> std::io::Result<String> { Ok(page.to_string()) }
///
/// async fn crawl(ctx: Ctx, pages: u64) -> longhaul::Result<usize> {
///     let mut bytes = 0;
///     for page in 0..pages {
///         bytes += ctx.step(format!("page-{page}"), || fetch(page)).await?.len();
///         ctx.progress(page + 1, pages);
///     }
///     ctx.sleep("cool down", Duration::from_secs(60)).await?;
///     Ok(bytes)
/// }
/// ```
///
/// Return the errors of its methods with `?`. Once the attempt's lease is lost, its writes do not
/// return, and the handler is dropped.
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    shared: Arc<EngineState>,
    reports: Arc<ProgressReporter>,
    lease: LeaseRef,
    /// Shared with the runner, which needs it after the handler.
    job: Arc<Job>,
    stored: Vec<Step>,
    signals: Signals,
    state: Mutex<State>,
    outputs: Mutex<AttemptOutputs>,
}

/// Blobs and directories that an attempt has created.
#[derive(Default)]
struct AttemptOutputs {
    /// Finished artifacts, in order.
    artifacts: Vec<NewBlob>,
    work_dirs: Vec<PathBuf>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    pub(crate) cancel: CancellationToken,
    /// The lease is lost: further writes of this attempt have no effect.
    pub(crate) lost: CancellationToken,
    /// The replica is stopping: start no further step.
    pub(crate) stopping: CancellationToken,
    /// End of the lease as this replica sees it.
    pub(crate) valid_until: LeaseEnd,
}

/// The end of a lease that is renewed. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseEnd(Arc<AtomicI64>);

impl LeaseEnd {
    pub(crate) fn get(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, at: Timestamp) {
        self.0.store(at.as_millis(), Ordering::Relaxed);
    }
}

struct State {
    replay: Replay,
    /// Step bodies and sleeps that are running.
    in_flight: usize,
    /// Step bodies and sleeps started so far, so that overlapping ones detect each other.
    begun: u64,
    /// End times of the handler's sleeping branches.
    sleepers: Vec<Timestamp>,
    polls: u64,
    /// The poll in which the last step returned to the handler. A step that the handler starts in
    /// the same poll follows from that result; a later one may belong to a concurrent branch.
    returned_in: u64,
    /// A step was not started because the replica is stopping.
    release: bool,
    /// An error that fails the job even if the handler ignores it.
    fault: Option<JobError>,
    tokens: Tokens,
}

impl Ctx {
    pub(crate) fn new(
        shared: Arc<EngineState>,
        reports: Arc<ProgressReporter>,
        lease: LeaseRef,
        job: Arc<Job>,
        stored: Vec<Step>,
        code_version: Option<&str>,
        signals: Signals,
    ) -> Self {
        let replay = Replay::new(&stored, job.code_version.as_deref(), code_version);
        let state = State {
            replay,
            in_flight: 0,
            begun: 0,
            sleepers: Vec::new(),
            polls: 0,
            returned_in: 0,
            release: false,
            fault: None,
            tokens: Tokens::default(),
        };
        Self(Arc::new(Inner {
            shared,
            reports,
            lease,
            job,
            stored,
            signals,
            state: Mutex::new(state),
            outputs: Mutex::default(),
        }))
    }

    /// Returns the job as it was when it was claimed.
    pub fn job(&self) -> &Job {
        &self.0.job
    }

    pub(crate) fn shared(&self) -> &EngineState {
        &self.0.shared
    }

    /// Returns the limits on jobs of this engine, for example the largest result.
    pub fn limits(&self) -> &Limits {
        &self.0.shared.limits
    }

    /// Returns the job's id.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// Returns the number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// Returns the steps that earlier attempts finished, in order.
    pub fn finished_steps(&self) -> &[Step] {
        &self.0.stored
    }

    /// Reports progress. Cheap: frequent calls are coalesced to the latest.
    pub fn progress(&self, done: u64, total: impl Into<Option<u64>>) {
        self.report(Progress { done, total: total.into(), message: None });
    }

    /// Reports progress with a message of up to 1,024 characters.
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

    /// Sets the job's phase, for example "loading" or "rendering". Watchers see every phase, in
    /// order.
    pub async fn phase(&self, phase: impl Into<String>) -> Result<(), JobError> {
        let phase = phase.into();
        let chars_max = self.0.shared.limits.phase_chars_max;
        check_limit("a phase in characters", "phase_chars_max", &phase.chars().count(), &chars_max)
            .map_err(JobError::over_limit)?;
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
            self.state().record_return();
        }
        Ok(())
    }

    /// Retries a write until the store is available or the lease is lost, which drops the attempt.
    async fn retry_until_lease_lost<T, Fut>(
        &self,
        mut write: impl FnMut() -> Fut,
    ) -> Result<T, JobError>
    where
        Fut: Future<Output = Result<T, StoreError>>,
    {
        for attempt in 1.. {
            match write().await {
                Ok(written) => return Ok(written),
                Err(StoreError::LeaseLost) => return self.halt().await,
                Err(error) if error.is_transient() => {
                    let random = self.0.shared.random.fraction();
                    tokio::time::sleep(STORE_RETRY.delay(attempt, random)).await;
                }
                Err(error) => {
                    self.0.shared.record_store_error(&error);
                    return Err(error.into());
                }
            }
        }
        self.halt().await
    }

    /// Adds tokens that a language model used in this attempt. They are metered if this attempt
    /// ends the job.
    pub fn record_tokens(&self, tokens: Tokens) {
        self.state().tokens += tokens;
    }

    pub(crate) fn used_tokens(&self) -> Tokens {
        self.state().tokens
    }

    /// Returns whether cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.signals.cancel.is_cancelled()
    }

    /// Waits until cancellation is requested.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.signals.cancel.clone().cancelled_owned()
    }

    pub(crate) fn take_artifacts(&self) -> Vec<NewBlob> {
        std::mem::take(&mut self.outputs().artifacts)
    }

    /// Deletes artifacts that no job refers to.
    pub(crate) async fn delete_artifacts(&self, artifacts: Vec<NewBlob>) {
        if let Some(encrypted_blobs) = &self.shared().encrypted_blobs {
            encrypted_blobs.delete_all(artifacts).await;
        }
    }

    /// Records that the handler is about to be polled.
    pub(crate) fn polled(&self) {
        self.state().polls += 1;
    }

    /// Returns the outcome of a handler that is suspended. Called after a poll without progress: if
    /// all running steps are sleeps, or none may start because the replica stops, the attempt ends.
    /// Work outside of steps is not seen, and runs again later.
    pub(crate) fn suspension(&self) -> Option<Outcome> {
        let state = self.state();
        let working = state.in_flight > state.sleepers.len();
        match state.sleepers.iter().min() {
            _ if working => None,
            Some(until) => Some(Outcome::Sleep { until: *until }),
            None => state.release.then_some(Outcome::Released),
        }
    }

    /// Returns the error of a run that the handler considers successful.
    pub(crate) fn fault(&self) -> Option<JobError> {
        let state = self.state();
        state.fault.clone().or_else(|| state.replay.finish().err())
    }

    /// Ends the attempt after its lease was lost: never returns, so that nothing that follows has
    /// an effect.
    async fn halt<T>(&self) -> T {
        self.0.signals.lost.cancel();
        std::future::pending().await
    }

    fn outputs(&self) -> MutexGuard<'_, AttemptOutputs> {
        self.0.outputs.lock()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl State {
    /// Returns whether a step that starts now follows directly from the last result.
    fn follows(&self) -> bool {
        self.replay.len() <= 1 || self.returned_in == self.polls
    }

    /// Records that a result is returned to the handler.
    fn record_return(&mut self) {
        self.returned_in = self.polls;
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("job", &self.0.job.id).finish_non_exhaustive()
    }
}
