//! Kinds: a name, a handler, and how its jobs are run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::job::{Fingerprint, JobError, Json, JsonError, Name, NameError, Retry};

type Work = Pin<Box<dyn Future<Output = Result<Json, JobError>> + Send>>;

/// What of an input makes two submissions under one idempotency key the same one.
pub type FingerprintFn = fn(&Json) -> Json;

/// A handler with its types erased.
pub type Handler = Arc<dyn Fn(Ctx, Json) -> Work + Send + Sync>;

/// How long an attempt may take when neither the kind nor the job says.
const TIMEOUT: Duration = Duration::from_mins(30);

/// Which handler runs a job, and how.
///
/// ```
/// # use std::time::Duration;
/// # use longhaul::{Ctx, JobError, Kind, Retry};
/// let kind = Kind::new("resize", |_ctx: Ctx, width: u32| async move { Ok::<_, JobError>(width / 2) })
///     .concurrency(4)
///     .timeout(Duration::from_mins(1))
///     .retry(Retry::times(5));
/// ```
#[derive(Clone)]
pub struct Kind {
    name: Result<Name, NameError>,
    handler: Option<Handler>,
    pub(crate) queue: Option<Name>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) running_max: Option<u32>,
    pub(crate) timeout: Duration,
    pub(crate) retry: Retry,
    pub(crate) code_version: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    takes_payload: bool,
    idempotency_fields: Option<FingerprintFn>,
    description: String,
    input_schema: Option<String>,
}

impl Kind {
    /// A kind that `handler` runs in this process.
    ///
    /// Input that does not fit `I` fails the job at once, with the reason.
    pub fn new<I, O, F, Fut>(name: &str, handler: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, JobError>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |ctx, input: Json| match input.to::<I>() {
            Ok(input) => {
                let work = handler(ctx, input);
                Box::pin(async move { Ok(Json::from_value(&work.await?)?) })
            }
            Err(error) => Box::pin(async move {
                let message = format!("the input does not fit this kind: {error}");
                Err(JobError::new("bad-input", message, false))
            }),
        });
        Self::with(name, Some(handler))
    }

    /// A kind that is run by other processes: this one accepts its jobs and never claims them.
    pub fn remote(name: &str) -> Self {
        Self::with(name, None)
    }

    fn with(name: &str, handler: Option<Handler>) -> Self {
        Self {
            name: Name::new(name),
            handler,
            queue: None,
            concurrency: None,
            running_max: None,
            timeout: TIMEOUT,
            retry: Retry::JOB,
            code_version: None,
            retry_after: None,
            takes_payload: true,
            idempotency_fields: None,
            description: String::new(),
            input_schema: None,
        }
    }

    /// The queue of jobs whose submitter names none.
    #[must_use]
    pub fn queue(mut self, queue: Name) -> Self {
        self.queue = Some(queue);
        self
    }

    /// At most so many at once in this process; otherwise only the engine's own bound counts.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// At most so many at once over all processes that share a store, each of which has to say so.
    #[must_use]
    pub fn running_max(mut self, jobs: u32) -> Self {
        self.running_max = Some(jobs);
        self
    }

    /// How long one attempt may take; 30 minutes if nobody says.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often and how soon a failed attempt is tried again.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Names the version of the handler's code. A job remembers the one that first claimed it, and
    /// says it when the code no longer fits.
    #[must_use]
    pub fn code_version(mut self, version: impl Into<String>) -> Self {
        self.code_version = Some(version.into());
        self
    }

    /// Replaces the estimate of when to ask again.
    #[must_use]
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Whether its jobs may bring a payload; they may, if nobody says.
    #[must_use]
    pub fn payload(mut self, takes_payload: bool) -> Self {
        self.takes_payload = takes_payload;
        self
    }

    /// Says what of an input counts when a repeated submission is held against the first; all of it, if
    /// nobody says. Every process that accepts its jobs has to say the same.
    #[must_use]
    pub fn idempotency_fields(mut self, idempotency_fields: FingerprintFn) -> Self {
        self.idempotency_fields = Some(idempotency_fields);
        self
    }

    /// One line for people who list the kinds.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// What an input may look like, as the text of a JSON Schema: for people who fill in a form. Inputs are
    /// not held to it.
    #[must_use]
    pub fn input_schema(mut self, schema: impl Into<String>) -> Self {
        self.input_schema = Some(schema.into());
        self
    }

    /// Its name; a name that cannot be used is found out when the engine starts.
    pub fn name(&self) -> &str {
        match &self.name {
            Ok(name) => name.as_str(),
            Err(_) => "",
        }
    }

    /// The queue of jobs whose submitter names none.
    pub fn default_queue(&self) -> Name {
        self.queue.clone().unwrap_or_else(Name::default_queue)
    }

    /// At most so many at once in this process, if it says.
    pub fn max_concurrency(&self) -> Option<usize> {
        self.concurrency
    }

    /// How long one attempt may take.
    pub fn attempt_timeout(&self) -> Duration {
        self.timeout
    }

    /// How often and how soon a failed attempt is tried again.
    pub fn retry_policy(&self) -> Retry {
        self.retry
    }

    /// Whether its jobs may bring a payload.
    pub fn takes_payload(&self) -> bool {
        self.takes_payload
    }

    /// The fingerprint of a submission of this kind.
    pub(super) fn fingerprint(
        &self,
        name: &Name,
        input: &Json,
        payload_sha256: Option<&[u8; 32]>,
    ) -> Result<Fingerprint, JsonError> {
        match self.idempotency_fields {
            Some(idempotency_fields) => {
                Fingerprint::of(name, &idempotency_fields(input), payload_sha256)
            }
            None => Fingerprint::of(name, input, payload_sha256),
        }
    }

    /// One line for people.
    pub fn about(&self) -> &str {
        &self.description
    }

    /// What an input may look like, if it says.
    pub fn schema(&self) -> Option<&str> {
        self.input_schema.as_deref()
    }

    /// Whether this process runs it.
    pub fn runs_here(&self) -> bool {
        self.handler.is_some()
    }

    pub(crate) fn checked_name(&self) -> Result<Name, NameError> {
        self.name.clone()
    }

    pub(crate) fn handler(&self) -> Option<&Handler> {
        self.handler.as_ref()
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("name", &self.name()).finish_non_exhaustive()
    }
}
