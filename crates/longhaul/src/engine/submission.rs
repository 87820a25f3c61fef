//! Building and checking a submission.

use std::collections::{BTreeMap, HashSet};
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use super::submit::no_payload;
use super::{Engine, EngineState, JobHandle, StagedPayload};
use crate::failpoint::{self, Failpoint};
use crate::job::{
    IntoName, JobId, Json, JsonError, LimitError, Limits, Name, NameError, Retention, Timestamp,
    Webhook, check_limit,
};
use crate::setters::setters;
use crate::store::{NewJob, Start, StoreError};

/// A submission that is being built. Await it to submit the job.
///
/// ```no_run
/// # async fn example(engine: longhaul::Engine) -> Result<(), Box<dyn std::error::Error>> {
/// let job = engine.submit_raw("ingest", "report.pdf").key("report-42").priority(5).await?;
/// println!("{} ({})", job.id(), if job.created() { "new" } else { "existing" });
/// # Ok(()) }
/// ```
#[must_use = "a submission does nothing until it is awaited"]
#[derive(Debug)]
pub struct Submission<T = Json> {
    pub(super) engine: Engine,
    kind: Result<Name, NameError>,
    input: Input,
    key: Option<String>,
    queue: Option<Result<Name, NameError>>,
    priority: i32,
    start: Start,
    max_attempts: Option<u32>,
    timeout: Option<Duration>,
    labels: BTreeMap<String, String>,
    retention_completed: Option<Duration>,
    retention_failed: Option<Duration>,
    pub(super) payload: Option<StagedPayload>,
    pub(super) webhook: Option<Webhook>,
    output: PhantomData<fn() -> T>,
}

pub(super) enum Input {
    Given(Result<Json, JsonError>),
    /// Built once the job's id is known.
    Deferred(Box<dyn FnOnce(JobId) -> Result<Json, JsonError> + Send>),
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

impl Input {
    fn of(self, id: JobId) -> Result<Json, JsonError> {
        match self {
            Self::Given(input) => input,
            Self::Deferred(make) => make(id),
        }
    }
}

/// Reasons why a submission is rejected. Nothing was stored, and its idempotency key is still free.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// No replica declares this kind.
    #[error("unknown kind {kind:?}; known kinds: {}", known.join(", "))]
    UnknownKind {
        /// The requested kind.
        kind: String,
        /// The kinds that replicas declare.
        known: Vec<String>,
    },
    /// The input cannot be serialized, or is not acceptable JSON.
    #[error("invalid input: {0}")]
    Input(#[from] JsonError),
    /// The kind or queue has an invalid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A value exceeds one of the [`Limits`].
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The tenant has the maximum number of pending jobs. Try again once some have started.
    #[error("{}", pending_limit_text(queue.as_ref(), *max))]
    PendingLimit {
        /// The queue whose quota is used up; `None` for the tenant's total.
        queue: Option<Name>,
        /// The quota.
        max: u64,
    },
    /// The request contradicts itself.
    #[error("{0}")]
    Invalid(String),
    /// The store rejected the job, or is not available.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn pending_limit_text(queue: Option<&Name>, max: u64) -> String {
    match queue {
        None => format!("the tenant has reached its limit of {max} pending jobs"),
        Some(queue) => format!("queue {queue} has reached its limit of {max} pending jobs"),
    }
}

impl<T> Submission<T> {
    pub(super) fn new(engine: Engine, kind: Result<Name, NameError>, input: Input) -> Self {
        Self {
            engine,
            kind,
            input,
            key: None,
            queue: None,
            priority: 0,
            start: Start::Now,
            max_attempts: None,
            timeout: None,
            labels: BTreeMap::new(),
            retention_completed: None,
            retention_failed: None,
            payload: None,
            webhook: None,
            output: PhantomData,
        }
    }

    setters! {
        /// Sets the idempotency key: 1 to 255 visible ASCII characters. A second submission with
        /// the same key returns the first one's job.
        key(key: impl Into<String>) { key = Some(key.into()) }

        /// Sets the queue. Defaults to the kind's queue.
        queue(queue: impl IntoName) { queue = Some(queue.into_name()) }

        /// Sets the priority. Higher runs first; each point equals one minute of waiting. Defaults
        /// to 0.
        priority(priority: i32) { priority = priority }

        /// Delays the first attempt.
        delay(delay: Duration) { start = Start::In(delay) }

        /// Sets the time of the first attempt.
        run_at(at: Timestamp) { start = Start::At(at) }

        /// Sets the maximum number of attempts. Defaults to the kind's.
        max_attempts(attempts: u32) { max_attempts = Some(attempts) }

        /// Sets the maximum duration of one attempt. Defaults to the kind's.
        timeout(timeout: Duration) { timeout = Some(timeout) }

        /// Sets how long the job is stored after it completes. Defaults to the engine's retention.
        keep_completed(retention: Duration) { retention_completed = Some(retention) }

        /// Sets how long the job is stored after it fails or is cancelled. Defaults to the engine's
        /// retention.
        keep_failed(retention: Duration) { retention_failed = Some(retention) }
    }

    /// Adds a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    async fn submit(mut self) -> Result<JobHandle<T>, SubmitError> {
        let engine = self.engine.clone();
        let payload = self.payload.take();
        let job = self.check_with(payload.as_ref()).await?;
        let (job, reservation) = engine.admit(job, &mut HashSet::new()).await?;
        let result = engine.store_one(job).await;
        failpoint::reach(Failpoint::Submitted).await;
        let (result, has_started) = match result {
            Ok((submitted, has_started)) => (Ok(submitted), has_started),
            Err(error) => (Err(error), false),
        };
        engine.settle_reservation(reservation, &result);
        if let Some(payload) = payload {
            payload.settle(&result);
        }
        let submitted = result?;
        if submitted.created && !has_started {
            engine.shared.wake_for(&engine.tenant);
        }
        Ok(engine.accepted(submitted))
    }

    /// Checks a submission that must not have a payload: batches and SQL transactions cannot store one.
    pub(super) async fn check(self) -> Result<NewJob, SubmitError> {
        if self.payload.is_some() {
            let why = "a job with a payload must be submitted individually";
            return Err(SubmitError::Invalid(why.to_owned()));
        }
        self.check_with(None).await
    }

    async fn check_with(self, payload: Option<&StagedPayload>) -> Result<NewJob, SubmitError> {
        let shared = &*self.engine.shared;
        let id = payload.map_or_else(|| shared.new_id(), |payload| payload.id);
        let input = self.input.of(id)?;
        let kind_name = self.kind?;
        let kind = self.engine.kind(&kind_name).await?;
        if payload.is_some() && !kind.settings().accepts_payload {
            return Err(no_payload(&kind_name));
        }
        let retention = Retention {
            completed: self.retention_completed.unwrap_or(shared.retention.completed),
            failed: self.retention_failed.unwrap_or(shared.retention.failed),
        };
        let job = NewJob {
            tenant: self.engine.tenant.clone(),
            id,
            queue: self.queue.transpose()?.unwrap_or_else(|| kind.settings().queue.clone()),
            priority: self.priority,
            fingerprint: kind.fingerprint(
                &kind_name,
                &input,
                payload.map(StagedPayload::digest),
            )?,
            kind: kind_name,
            input,
            idempotency_key: self.key,
            start: self.start,
            max_attempts: self.max_attempts.unwrap_or(kind.settings().retry.max_attempts),
            timeout: self.timeout,
            labels: self.labels,
            retention,
            parent_id: None,
            payload: payload.map(|payload| payload.blob.clone()),
            key_id: self.engine.key.as_deref().map(ToOwned::to_owned),
            webhook: self.webhook.map(Box::new),
        };
        if payload.is_some_and(|payload| payload.tenant != job.tenant) {
            let why = "the payload was uploaded for another tenant";
            return Err(SubmitError::Invalid(why.to_owned()));
        }
        let input_bytes_max = self.engine.input_bytes_max(kind.settings().input_bytes_max);
        let limits = Limits { input_bytes_max, ..*self.engine.limits() };
        check_limits(&job, &limits, shared)?;
        Ok(job)
    }
}

fn check_limits(job: &NewJob, limits: &Limits, shared: &EngineState) -> Result<(), SubmitError> {
    let input_bytes = job.input.as_str().len();
    check_limit("the input in bytes", "input_bytes_max", &input_bytes, &limits.input_bytes_max)?;
    let priority = i64::from(job.priority).abs();
    check_limit("the priority", "priority_max", &priority, &i64::from(limits.priority_max))?;
    check_limit("maxAttempts", "max_attempts_max", &job.max_attempts, &limits.max_attempts_max)?;
    if job.max_attempts == 0 {
        return Err(SubmitError::Invalid("maxAttempts must be at least 1".to_owned()));
    }
    if let Some(timeout) = job.timeout {
        check_limit("the timeout", "timeout_max", &timeout, &limits.timeout_max)?;
        if timeout.is_zero() {
            return Err(SubmitError::Invalid("the timeout must be longer than zero".to_owned()));
        }
    }
    let now = shared.clock.now();
    let delay = job.start.run_at(now).since(now);
    check_limit("the delay", "delay_max", &delay, &limits.delay_max)?;
    if job.payload.is_some() && delay >= shared.payload_retention {
        let kept = shared.payload_retention;
        let why = format!("the delay exceeds the payload retention ({kept:?})");
        return Err(SubmitError::Invalid(why));
    }
    let kept = job.retention.completed.max(job.retention.failed);
    check_limit("the retention", "retention_max", &kept, &limits.retention_max)?;
    check_limit("the number of labels", "labels_max", &job.labels.len(), &limits.labels_max)?;
    for (name, value) in &job.labels {
        let longest = name.chars().count().max(value.chars().count());
        check_limit("a label in characters", "label_chars_max", &longest, &limits.label_chars_max)?;
        if name.is_empty() {
            return Err(SubmitError::Invalid("a label must have a name".to_owned()));
        }
        if name.chars().chain(value.chars()).any(char::is_control) {
            let why = format!("the label {name:?} has a control character");
            return Err(SubmitError::Invalid(why));
        }
    }
    if let Some(id) = &job.key_id {
        Name::new(id)?;
    }
    if let Some(key) = &job.idempotency_key {
        check_key(key, limits.idempotency_key_chars_max).map_err(SubmitError::Invalid)?;
    }
    Ok(())
}

fn check_key(key: &str, chars_max: usize) -> Result<(), String> {
    let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    if visible && (1..=chars_max).contains(&key.len()) {
        return Ok(());
    }
    Err(format!("an idempotency key has 1 to {chars_max} visible ASCII characters"))
}

impl<T: 'static> IntoFuture for Submission<T> {
    type Output = Result<JobHandle<T>, SubmitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.submit())
    }
}
