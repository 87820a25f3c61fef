//! Steps: work whose output is stored.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Ctx;
use super::replay::StepLookup;
use crate::job::{JobError, Json, Retry, Timestamp, check_limit};
use crate::store::Checkpoint;

/// A step that is being built. Await it to run it, or to get its stored output.
#[must_use = "a step does nothing until it is awaited"]
pub struct StepCall<'a, F> {
    ctx: &'a Ctx,
    name: String,
    body: F,
    retry: Retry,
    timeout: Option<Duration>,
    unstored_if: Option<Box<dyn Fn() -> bool + Send + Sync + 'a>>,
}

impl Ctx {
    /// Runs `body` and stores its output under `name`. If an earlier attempt has stored it, returns
    /// the stored output and runs nothing.
    ///
    /// The body may run more than once (a crash before its checkpoint, a retry): make its effects
    /// idempotent, for example with the idempotency key `"{job id}/{step name}"`. See the
    /// [guide](crate::guide).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use longhaul::{Ctx, Retry};
    /// # async fn fetch(url: &str) -> std::io::Result<String> { Ok(url.to_owned()) }
    /// async fn handler(ctx: Ctx, url: String) -> longhaul::Result<usize> {
    ///     let page = ctx
    ///         .step("fetch", || fetch(&url))
    ///         .retry(Retry::times(5))
    ///         .timeout(Duration::from_secs(30))
    ///         .await?;
    ///     ctx.step_value("count", async || page.len()).await
    /// }
    /// ```
    pub fn step<'a, F>(&'a self, name: impl Into<String>, body: F) -> StepCall<'a, F>
    where
        F: 'a,
    {
        let name = name.into();
        StepCall { ctx: self, name, body, retry: Retry::NEVER, timeout: None, unstored_if: None }
    }

    /// Runs a step whose body cannot fail, and stores its value. See [`Ctx::step`].
    pub async fn step_value<T, Fut>(
        &self,
        name: impl Into<String>,
        mut body: impl FnMut() -> Fut + Send,
    ) -> Result<T, JobError>
    where
        T: Serialize + DeserializeOwned + Send + Sync,
        Fut: Future<Output = T> + Send,
    {
        self.step(name, || {
            let value = body();
            async move { Ok::<T, JobError>(value.await) }
        })
        .await
    }

    /// Looks up a step. An error is recorded, so that it fails the job even if the handler ignores
    /// it.
    pub(super) fn lookup(&self, name: &str) -> Result<StepLookup, JobError> {
        let mut state = self.state();
        let steps = state.replay.len().saturating_add(1);
        let steps_max = self.0.shared.limits.steps_max;
        let found = check_limit("the number of steps", "steps_max", &steps, &steps_max)
            .map_err(JobError::over_limit)
            .and_then(|()| state.replay.lookup(name));
        if let Err(error) = &found {
            state.fault.get_or_insert_with(|| error.clone());
        }
        found
    }

    /// Stores a checkpoint. If cancellation was requested, no further step starts.
    pub(super) async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), JobError> {
        let store = &self.0.shared.store;
        let stored = self.retry_until_lease_lost(|| store.checkpoint(checkpoint.clone())).await?;
        if stored.cancel_requested {
            self.0.signals.cancel.cancel();
        }
        Ok(())
    }

    /// Returns an error if the job is cancelled; suspends if the replica is stopping.
    async fn ensure_may_start(&self) -> Result<(), JobError> {
        if self.is_cancelled() {
            return Err(cancelled());
        }
        if self.0.signals.stopping.is_cancelled() {
            self.state().release = true;
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// Ends the attempt if its lease has run out. After a pause of the process, a step may be about to start
    /// before the lease renewer runs and drops the attempt, although another replica has the job by now.
    async fn ensure_leased(&self) {
        if self.0.signals.valid_until.get() <= self.0.shared.clock.now() {
            self.halt::<()>().await;
        }
    }
}

pub(super) fn cancelled() -> JobError {
    JobError::new("cancelled", "the job was cancelled", false)
}

impl<'a, F> StepCall<'a, F> {
    /// Retries the body inside this attempt when it returns a retryable error. Defaults to no
    /// retry.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Drops the body after this time, which is a retryable error. No timeout by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Does not store the output if this holds when the body has returned: a later attempt runs the step again. For the last
    /// step of a handler, if it creates artifacts, because these are stored only with the end of the job.
    pub fn unstored_if(mut self, condition: impl Fn() -> bool + Send + Sync + 'a) -> Self {
        self.unstored_if = Some(Box::new(condition));
        self
    }

    async fn replay_or_run<Fut, T, E>(&mut self) -> Result<T, JobError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
    {
        let position = match self.ctx.lookup(&self.name)? {
            StepLookup::Stored(output) => return stored(&self.name, &output),
            StepLookup::Fresh { position } => position,
        };
        self.ctx.ensure_may_start().await?;
        let flight = RunningStep::begin(self.ctx);
        let (value, started_at) = self.tries().await?;
        if self.unstored_if.as_ref().is_some_and(|condition| condition()) {
            return Ok(value);
        }
        let output = Json::from_value(&value)?;
        let bytes_max = self.ctx.0.shared.limits.step_bytes_max;
        let bytes = output.as_str().len();
        check_limit("the output of a step in bytes", "step_bytes_max", &bytes, &bytes_max)
            .map_err(|error| JobError::over_limit(format!("step {:?}: {error}", self.name)))?;
        let (lease, name) = (self.ctx.0.lease.clone(), self.name.clone());
        let alone = flight.alone();
        let checkpoint = Checkpoint { lease, name, position, output, alone, started_at };
        self.ctx.checkpoint(checkpoint).await?;
        Ok(value)
    }

    async fn tries<Fut, T, E>(&mut self) -> Result<(T, Timestamp), JobError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<JobError>,
    {
        let clock = &self.ctx.0.shared.clock;
        let mut attempt = 1;
        loop {
            self.ctx.ensure_leased().await;
            let started_at = clock.now();
            let error = match self.once().await {
                Ok(value) => return Ok((value, started_at)),
                Err(error) => error,
            };
            if !error.retryable || attempt >= self.retry.max_attempts {
                return Err(error);
            }
            let random = self.ctx.0.shared.random.fraction();
            let pause = clock.sleep(self.retry.delay(attempt, random));
            tokio::select! {
                biased;
                () = pause => attempt += 1,
                () = self.ctx.cancelled() => return Err(cancelled()),
            }
        }
    }

    async fn once<Fut, T, E>(&mut self) -> Result<T, JobError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<JobError>,
    {
        let clock = &self.ctx.0.shared.clock;
        let timeout = self.timeout;
        let timed_out = async {
            match timeout {
                Some(timeout) => clock.sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = (self.body)() => result.map_err(Into::into),
            () = self.ctx.cancelled() => Err(cancelled()),
            () = timed_out => {
                let after = timeout.unwrap_or_default();
                let message = format!("step {:?} took longer than {after:?}", self.name);
                Err(JobError::new("timeout", message, true))
            }
        }
    }
}

fn stored<T: DeserializeOwned>(name: &str, output: &Json) -> Result<T, JobError> {
    output.to().map_err(|error| {
        let message = format!("the stored output of step {name:?} does not fit this code: {error}");
        JobError::new("code-changed", message, false)
    })
}

/// A running step body or sleep. Detects whether other work of the handler may have run
/// concurrently.
pub(super) struct RunningStep<'a> {
    ctx: &'a Ctx,
    follows: bool,
    begun: u64,
}

impl<'a> RunningStep<'a> {
    pub(super) fn begin(ctx: &'a Ctx) -> Self {
        let mut state = ctx.state();
        let follows = state.in_flight == 0 && state.follows();
        state.in_flight += 1;
        state.begun += 1;
        Self { ctx, follows, begun: state.begun }
    }

    /// Returns whether the step follows directly from the previous one and nothing has started
    /// since.
    pub(super) fn alone(&self) -> bool {
        self.follows && self.ctx.state().begun == self.begun
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        self.ctx.state().in_flight -= 1;
    }
}

impl<'a, F, Fut, T, E> IntoFuture for StepCall<'a, F>
where
    F: FnMut() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
    T: Serialize + DeserializeOwned + Send + Sync + 'a,
    E: Into<JobError> + Send + 'a,
{
    type Output = Result<T, JobError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let result = self.replay_or_run().await;
            self.ctx.state().record_return();
            result
        })
    }
}
