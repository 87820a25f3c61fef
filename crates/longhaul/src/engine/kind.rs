//! Kinds: a name, a handler, and how its jobs are run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::JobArgs;
use crate::ctx::Ctx;
use crate::job::{Fingerprint, IntoName, JobError, Json, JsonError, Name, NameError, Retry};
use crate::setters::setters;

type HandlerFuture = Pin<Box<dyn Future<Output = Result<Json, JobError>> + Send>>;

/// Extracts the part of an input that identifies a submission. See [`Kind::idempotency_fields`].
pub type FingerprintFn = fn(&Json) -> Json;

/// A handler with its types erased.
type Handler = Arc<dyn Fn(Ctx, Json) -> HandlerFuture + Send + Sync>;

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// A kind of job: its handler and its settings.
///
/// ```
/// # use std::time::Duration;
/// # use longhaul::{Ctx, Kind, Retry};
/// let kind = Kind::new("resize", |_ctx: Ctx, width: u32| async move { Ok(width / 2) })
///     .queue("images")
///     .concurrency(4)
///     .timeout(Duration::from_mins(1))
///     .retry(Retry::times(5));
/// assert_eq!(kind.settings().concurrency, Some(4));
/// ```
#[must_use = "a kind has no effect until it is registered with an engine"]
#[derive(Clone)]
pub struct Kind {
    name: Result<Name, NameError>,
    handler: Option<Handler>,
    settings: KindSettings,
    fingerprint_fn: Option<FingerprintFn>,
    invalid_queue: Option<NameError>,
}

/// Settings of a [`Kind`]. Each field has a setter of the same name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KindSettings {
    /// Queue of jobs that are submitted without one. Defaults to `default`.
    pub queue: Name,
    /// Maximum of jobs that run at the same time in this process. Defaults to the engine's limit.
    pub concurrency: Option<usize>,
    /// Maximum of jobs that run at the same time on all replicas. Unlimited by default.
    pub running_max: Option<u32>,
    /// Maximum duration of one attempt. Defaults to 30 minutes.
    pub timeout: Duration,
    /// Number of attempts and backoff between them. Defaults to [`Retry::JOB`].
    pub retry: Retry,
    /// Version of the handler's code, recorded on jobs that it starts.
    pub code_version: Option<String>,
    /// Fixed value for [`Engine::retry_after`](crate::Engine::retry_after), instead of an estimate.
    pub retry_after: Option<Duration>,
    /// True if jobs may have a payload. Defaults to true.
    pub accepts_payload: bool,
    /// Maximum size of the input, instead of
    /// [`Limits::input_bytes_max`](crate::job::Limits::input_bytes_max).
    pub input_bytes_max: Option<usize>,
    /// One line for people who list the kinds.
    pub description: String,
    /// JSON Schema of the input, as text. Used for forms; inputs are not validated against it.
    pub input_schema: Option<String>,
}

impl Kind {
    /// Creates a kind that `handler` runs in this process.
    ///
    /// Input that cannot be deserialized as `I` fails the job at once with the code `bad-input`.
    /// A name that is not valid is reported when the engine starts.
    pub fn new<I, O, F, Fut>(name: impl IntoName, handler: F) -> Self
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
        Self::build(name, Some(handler))
    }

    /// Creates the kind of a typed handler, named by its [`JobArgs::KIND`].
    pub fn from_handler<A, F, Fut>(handler: F) -> Self
    where
        A: JobArgs,
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<A::Output, JobError>> + Send + 'static,
    {
        Self::new(A::KIND, handler)
    }

    /// Creates a kind that other replicas run: this process accepts its jobs and never claims them.
    pub fn remote(name: impl IntoName) -> Self {
        Self::build(name, None)
    }

    fn build(name: impl IntoName, handler: Option<Handler>) -> Self {
        let settings = KindSettings {
            queue: Name::default_queue(),
            concurrency: None,
            running_max: None,
            timeout: DEFAULT_TIMEOUT,
            retry: Retry::JOB,
            code_version: None,
            retry_after: None,
            accepts_payload: true,
            input_bytes_max: None,
            description: String::new(),
            input_schema: None,
        };
        let name = name.into_name();
        Self { name, handler, settings, fingerprint_fn: None, invalid_queue: None }
    }

    /// Sets the queue of jobs that are submitted without one.
    pub fn queue(mut self, queue: impl IntoName) -> Self {
        match queue.into_name() {
            Ok(queue) => self.settings.queue = queue,
            Err(error) => self.invalid_queue = Some(error),
        }
        self
    }

    setters! {
        /// Limits how many of its jobs run at the same time in this process.
        concurrency(jobs: usize) { settings.concurrency = Some(jobs) }

        /// Limits how many of its jobs run at the same time on all replicas. Every replica that runs
        /// the kind must set the same limit, because each applies it to its own claims.
        running_max(jobs: u32) { settings.running_max = Some(jobs) }

        /// Sets the maximum duration of one attempt. Defaults to 30 minutes.
        timeout(timeout: Duration) { settings.timeout = timeout }

        /// Sets the number of attempts and the backoff between them. Defaults to [`Retry::JOB`].
        retry(retry: Retry) { settings.retry = retry }

        /// Sets the version of the handler's code. A job records the version that first claimed it,
        /// and the error for changed steps names both versions.
        code_version(version: impl Into<String>) { settings.code_version = Some(version.into()) }

        /// Sets a fixed value for [`Engine::retry_after`](crate::Engine::retry_after).
        retry_after(retry_after: Duration) { settings.retry_after = Some(retry_after) }

        /// Sets whether jobs may have a payload. Defaults to true.
        accepts_payload(accepts: bool) { settings.accepts_payload = accepts }

        /// Sets the maximum size of the input, instead of that of all kinds.
        input_bytes_max(bytes: usize) { settings.input_bytes_max = Some(bytes) }

        /// Sets the part of an input that is compared when an idempotency key is used again.
        /// Defaults to the whole input. Every replica that accepts the kind must use the same
        /// function.
        idempotency_fields(fields: FingerprintFn) { fingerprint_fn = Some(fields) }

        /// Sets a one-line description.
        description(text: impl Into<String>) { settings.description = text.into() }

        /// Sets the JSON Schema of the input.
        input_schema(schema: impl Into<String>) { settings.input_schema = Some(schema.into()) }
    }

    /// Returns the name, or an empty string if it is not valid.
    pub fn name(&self) -> &str {
        match &self.name {
            Ok(name) => name.as_str(),
            Err(_) => "",
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &KindSettings {
        &self.settings
    }

    /// Returns whether this process has a handler for the kind.
    pub fn runs_here(&self) -> bool {
        self.handler.is_some()
    }

    pub(super) fn fingerprint(
        &self,
        name: &Name,
        input: &Json,
        payload_sha256: Option<&[u8; 32]>,
    ) -> Result<Fingerprint, JsonError> {
        match self.fingerprint_fn {
            Some(fields) => Fingerprint::of(name, &fields(input), payload_sha256),
            None => Fingerprint::of(name, input, payload_sha256),
        }
    }

    pub(crate) fn checked_name(&self) -> Result<Name, NameError> {
        match &self.invalid_queue {
            Some(error) => Err(error.clone()),
            None => self.name.clone(),
        }
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
