//! From what a caller asks for to a job that may be accepted.

use std::collections::{BTreeMap, HashSet};
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::admission::{QuotaExceeded, Reservation};
use super::{Engine, JobHandle, Kind, Shared, StagedPayload};
use crate::failpoint::{self, Failpoint};
use crate::job::{
    JobId, Json, JsonError, LimitError, Limits, Name, NameError, Retention, TenantId, Timestamp,
    Webhook, check_limit,
};
use crate::store::{NewJob, Start, StoreError, SubmitResult};

/// A submission in the making. Await it to submit.
///
/// ```no_run
/// # async fn example(engine: longhaul::Engine) -> Result<(), Box<dyn std::error::Error>> {
/// let job = engine.submit_raw("ingest", &"report.pdf").key("report-42").priority(5).await?;
/// println!("{} ({})", job.id(), if job.created() { "new" } else { "known" });
/// # Ok(()) }
/// ```
#[must_use = "a submission does nothing until it is awaited"]
#[derive(Debug)]
pub struct Submission {
    engine: Engine,
    kind: String,
    input: Input,
    key: Option<String>,
    queue: Option<String>,
    priority: i32,
    start: Start,
    max_attempts: Option<u32>,
    timeout: Option<Duration>,
    labels: BTreeMap<String, String>,
    retention_completed: Option<Duration>,
    retention_failed: Option<Duration>,
    payload: Option<StagedPayload>,
    webhook: Option<Webhook>,
}

/// What goes in, or how it is made.
enum Input {
    Given(Result<Json, JsonError>),
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

/// Why a submission was not accepted. Nothing was written, and its key is not used up.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// No replica declares this kind.
    #[error("there is no kind {kind:?}; known: {}", known.join(", "))]
    UnknownKind {
        /// What was asked for.
        kind: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The input is not JSON that we take.
    #[error("the input: {0}")]
    Input(#[from] JsonError),
    /// The kind or queue cannot have this name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Something is over its limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The tenant has as many pending jobs as it may have: try again once some have started.
    #[error("{}", over_pending_limit(queue.as_ref(), *max))]
    PendingLimit {
        /// In this queue; in all of them together if none is named.
        queue: Option<Name>,
        /// How many it may have.
        max: u64,
    },
    /// Something else is wrong with the request.
    #[error("{0}")]
    Invalid(String),
    /// The store refused it, or could not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Submits a job with this input. Await what it returns.
    pub fn submit_raw(&self, kind: &str, input: &(impl Serialize + ?Sized)) -> Submission {
        self.submission(kind, Input::Given(Json::from_value(input)))
    }

    /// Submits a job whose input is made once its id is known: for what is sealed for one job alone.
    pub fn submit_with(
        &self,
        kind: &str,
        make: impl FnOnce(JobId) -> Result<Json, JsonError> + Send + 'static,
    ) -> Submission {
        self.submission(kind, Input::Deferred(Box::new(make)))
    }

    fn submission(&self, kind: &str, input: Input) -> Submission {
        Submission {
            engine: self.clone(),
            kind: kind.to_owned(),
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
        }
    }

    /// Submits many at once, in one transaction. Each is accepted or refused on its own; the
    /// answers are in the order of the submissions.
    pub async fn submit_all(
        &self,
        submissions: Vec<Submission>,
    ) -> Vec<Result<JobHandle, SubmitError>> {
        let (mut jobs, mut reservations, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
        let mut keys = HashSet::new();
        for submission in submissions {
            let admitted = match submission.check().await {
                Ok(job) => self.admit(job, &mut keys).await,
                Err(refusal) => Err(refusal),
            };
            refusals.push(admitted.map(|(job, reservation)| {
                jobs.push(job);
                reservations.push(reservation);
            }));
        }
        let answers = self.shared.store.submit(jobs).await;
        self.shared.wake_for(&self.tenant);
        let mut answers = answers.into_iter().zip(reservations);
        let answer = |refusal: Result<(), SubmitError>| {
            refusal?;
            let (answer, reservation) = answers.next().unwrap_or_else(|| (Err(no_answer()), None));
            self.settle_reservation(reservation, &answer);
            Ok(self.accepted(answer?))
        };
        refusals.into_iter().map(answer).collect()
    }

    /// Finds a reservation for a job that is as it should be. Where there is none, a key that is known
    /// is still answered with its job: whoever repeats a submission asks for nothing new. `keys`
    /// are those of the same batch, which are not stored yet.
    pub(super) async fn admit(
        &self,
        job: NewJob,
        keys: &mut HashSet<(TenantId, String)>,
    ) -> Result<(NewJob, Option<Reservation>), SubmitError> {
        let key = job.idempotency_key.clone().map(|key| (job.tenant.clone(), key));
        if key.as_ref().is_some_and(|key| keys.contains(key)) {
            return Ok((job, None));
        }
        let max = self.limits().pending_per_tenant_max;
        let reservation =
            match self.shared.admission.reserve(&job.tenant, &job.queue, max, &self.shared).await {
                Ok(reservation) => Some(reservation),
                Err(QuotaExceeded::Store(error)) => return Err(error.into()),
                Err(QuotaExceeded::Full { queue, max }) => {
                    let known = match &job.idempotency_key {
                        Some(key) => match self.shared.store.job_by_key(&job.tenant, key).await {
                            Ok(_) => true,
                            Err(StoreError::NotFound) => false,
                            Err(error) => return Err(error.into()),
                        },
                        None => false,
                    };
                    if !known {
                        return Err(SubmitError::PendingLimit { queue, max });
                    }
                    None
                }
            };
        keys.extend(key);
        Ok((job, reservation))
    }

    pub(super) async fn kind(&self, name: &Name) -> Result<Arc<Kind>, SubmitError> {
        match self.shared.kinds.get(name) {
            Some(kind) => Ok(Arc::clone(kind)),
            None => Ok(Arc::new(self.remote_kind(name.as_str()).await?)),
        }
    }

    fn settle_reservation(
        &self,
        reservation: Option<Reservation>,
        answer: &Result<SubmitResult, StoreError>,
    ) {
        match (answer, reservation) {
            (Ok(SubmitResult { created: true, .. }), Some(taken)) => drop(taken),
            // Its key became free in the meantime.
            (Ok(SubmitResult { created: true, record }), None) => {
                self.shared.admission.record_pending(&record.job.tenant, &record.job.queue);
            }
            // Nobody knows: it counts as taken until the next count says otherwise.
            (Err(StoreError::Unavailable(_)), reservation) => drop(reservation),
            (Ok(_) | Err(_), Some(reservation)) => reservation.release(),
            (Ok(_) | Err(_), None) => {}
        }
    }

    fn accepted(&self, SubmitResult { record, created }: SubmitResult) -> JobHandle {
        if created {
            metrics::counter!("longhaul_jobs_submitted_total", "kind" => record.job.kind.to_string())
                .increment(1);
        }
        JobHandle::new(self.clone(), record, created)
    }
}

fn over_pending_limit(queue: Option<&Name>, max: u64) -> String {
    match queue {
        None => {
            format!("there are as many pending jobs as allowed: {max} (pending_per_tenant_max)")
        }
        Some(queue) => format!(
            "the queue {queue} has as many pending jobs as allowed: {max} (queues.{queue}.pending_max)"
        ),
    }
}

pub(super) fn no_payload(kind: &Name) -> SubmitError {
    SubmitError::Invalid(format!("the kind {kind} takes no payload"))
}

/// A payload that did not make a job is not needed; one that may have is left to the sweep of strays.
fn keep_or_delete(payload: Option<StagedPayload>, answer: &Result<SubmitResult, StoreError>) {
    let may_be_kept = match answer {
        Ok(submitted) => submitted.created,
        Err(error) => matches!(error, StoreError::Unavailable(_) | StoreError::Broken(_)),
    };
    if let (true, Some(payload)) = (may_be_kept, payload) {
        payload.keep();
    }
}

fn no_answer() -> StoreError {
    StoreError::Broken("the store answered fewer submissions than it was given".to_owned())
}

impl Submission {
    /// Submits at most once under this key: 1 to 255 visible ASCII characters.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Waits in this queue instead of the kind's own.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Higher goes first; each point is worth a minute of waiting.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Is due this much later.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.start = Start::In(delay);
        self
    }

    /// Is due at this time.
    pub fn run_at(mut self, at: Timestamp) -> Self {
        self.start = Start::At(at);
        self
    }

    /// Attempts allowed, instead of the kind's own number.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long one attempt may take, instead of the kind's own timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Adds a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// How long the job is kept after completing, instead of the engine's own retention.
    pub fn keep_completed(mut self, retention: Duration) -> Self {
        self.retention_completed = Some(retention);
        self
    }

    /// How long the job is kept after failing, instead of the engine's own retention.
    pub fn keep_failed(mut self, retention: Duration) -> Self {
        self.retention_failed = Some(retention);
        self
    }

    /// Tells somebody of what happens to the job, besides the tenant's endpoints. Where nothing delivers, see
    /// [`EngineBuilder::delivery_worker`](crate::EngineBuilder::delivery_worker), it waits.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhook = Some(webhook);
        self
    }

    /// Brings what was uploaded before, by [`Engine::upload`] of the same tenant.
    pub fn payload(mut self, payload: StagedPayload) -> Self {
        self.payload = Some(payload);
        self
    }

    #[cfg(feature = "postgres")]
    pub(super) fn engine(&self) -> Engine {
        self.engine.clone()
    }

    async fn submit(mut self) -> Result<JobHandle, SubmitError> {
        let engine = self.engine.clone();
        let payload = self.payload.take();
        let job = self.check_with(payload.as_ref()).await?;
        let (job, reservation) = engine.admit(job, &mut HashSet::new()).await?;
        let answer = engine.shared.store.submit(vec![job]).await.pop();
        failpoint::reach(Failpoint::Submitted).await;
        let answer = answer.unwrap_or_else(|| Err(no_answer()));
        engine.settle_reservation(reservation, &answer);
        keep_or_delete(payload, &answer);
        let submitted = answer?;
        if submitted.created {
            engine.shared.wake_for(&engine.tenant);
        }
        Ok(engine.accepted(submitted))
    }

    /// A job without a payload: where it is submitted nothing could be stored with it.
    pub(super) async fn check(self) -> Result<NewJob, SubmitError> {
        if self.payload.is_some() {
            let why = "a job with a payload is submitted on its own";
            return Err(SubmitError::Invalid(why.to_owned()));
        }
        self.check_with(None).await
    }

    async fn check_with(self, payload: Option<&StagedPayload>) -> Result<NewJob, SubmitError> {
        let shared = &*self.engine.shared;
        let id = payload.map_or_else(|| shared.new_id(), |payload| payload.id);
        let input = self.input.of(id)?;
        let kind_name = Name::new(&self.kind)?;
        let kind = self.engine.kind(&kind_name).await?;
        if payload.is_some() && !kind.takes_payload() {
            return Err(no_payload(&kind_name));
        }
        let retention = Retention {
            completed: self.retention_completed.unwrap_or(shared.retention.completed),
            failed: self.retention_failed.unwrap_or(shared.retention.failed),
        };
        let job = NewJob {
            tenant: self.engine.tenant.clone(),
            id,
            queue: self.queue.map(Name::new).transpose()?.unwrap_or_else(|| kind.default_queue()),
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
            max_attempts: self.max_attempts.unwrap_or(kind.retry.max_attempts),
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
        check_limits(&job, self.engine.limits(), shared)?;
        Ok(job)
    }
}

fn check_limits(job: &NewJob, limits: &Limits, shared: &Shared) -> Result<(), SubmitError> {
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
        let why = format!("the delay is longer than a payload is kept for ({kept:?})");
        return Err(SubmitError::Invalid(why));
    }
    let kept = job.retention.completed.max(job.retention.failed);
    check_limit("the retention", "retention_max", &kept, &limits.retention_max)?;
    check_limit("the number of labels", "labels_max", &job.labels.len(), &limits.labels_max)?;
    for (name, value) in &job.labels {
        let longest = name.chars().count().max(value.chars().count());
        check_limit("a label in characters", "label_chars_max", &longest, &limits.label_chars_max)?;
        if name.is_empty() {
            return Err(SubmitError::Invalid("a label needs a name".to_owned()));
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

impl IntoFuture for Submission {
    type Output = Result<JobHandle, SubmitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.submit())
    }
}
