//! A handle on one job.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use serde::de::DeserializeOwned;

use super::{Engine, Watcher};
use crate::job::{Job, JobError, JobId, Json, JsonError, Record, Status};
use crate::store::StoreError;

/// A handle on a submitted job, with the type of its result.
///
/// Awaiting the handle waits for the result, like [`JobHandle::result`]. Dropping it has no effect
/// on the job.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use longhaul::{Ctx, Engine, ResultError, JobError};
/// # let engine = Engine::builder()
/// #     .kind("fail", |_: Ctx, (): ()| async { Err::<(), _>(JobError::fatal("no paper")) })
/// #     .start().await?;
/// let job = engine.submit_raw("fail", &()).await?;
/// match job.result().await {
///     Ok(result) => println!("{}: {}", job.id(), result.as_str()),
///     Err(ResultError::Failed(error)) => assert_eq!(error.message, "no paper"),
///     Err(error) => return Err(error.into()),
/// }
/// # engine.stop().await; Ok(()) }
/// ```
#[derive(Debug)]
pub struct JobHandle<T = Json> {
    engine: Engine,
    record: Record,
    created: bool,
    output: PhantomData<fn() -> T>,
}

impl<T> Clone for JobHandle<T> {
    fn clone(&self) -> Self {
        let (engine, record) = (self.engine.clone(), self.record.clone());
        Self { engine, record, created: self.created, output: PhantomData }
    }
}

/// Reasons why a job has no result.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The job failed.
    #[error("the job failed: {0}")]
    Failed(JobError),
    /// The job was cancelled.
    #[error("the job was cancelled")]
    Cancelled,
    /// The result cannot be deserialized as the requested type.
    #[error("the result is of another type: {0}")]
    Type(#[from] JsonError),
    /// The store cannot be read, or the job was deleted.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<T> JobHandle<T> {
    pub(super) fn new(engine: Engine, record: Record, created: bool) -> Self {
        Self { engine, record, created, output: PhantomData }
    }

    /// Returns the job's id.
    pub fn id(&self) -> JobId {
        self.record.job.id
    }

    /// Returns whether this submission created the job. False if a job with the same idempotency
    /// key existed.
    pub fn created(&self) -> bool {
        self.created
    }

    /// Returns the job as it was when the submission was acknowledged.
    pub fn submitted(&self) -> &Record {
        &self.record
    }

    /// Reads the current state of the job.
    pub async fn record(&self) -> Result<Record, StoreError> {
        self.engine.job(self.id()).await
    }

    /// Watches the job from its current state on.
    pub fn watch(&self) -> Watcher {
        self.engine.watch(self.id(), None)
    }

    /// Cancels the job. See [`Engine::cancel`].
    pub async fn cancel(&self) -> Result<Job, StoreError> {
        self.engine.cancel(self.id()).await
    }

    /// Waits until the job is completed, failed or cancelled.
    pub async fn wait(&self) -> Result<Record, StoreError> {
        let mut subscription =
            self.engine.shared.watchers.subscribe(self.engine.tenant(), self.id());
        loop {
            let record = self.record().await?;
            if record.job.status.is_terminal() {
                return Ok(record);
            }
            self.engine.wait_or_poll(subscription.ended()).await;
        }
    }

    /// Waits for the job and deserializes its result as `R`.
    pub async fn result_as<R: DeserializeOwned>(&self) -> Result<R, ResultError> {
        result_of(self.wait().await?)
    }
}

/// Returns the result of a finished job.
pub(crate) fn result_of<R: DeserializeOwned>(record: Record) -> Result<R, ResultError> {
    let Record { job, result, .. } = record;
    match (job.status, result, job.error) {
        (Status::Completed, Some(result), _) => Ok(result.to()?),
        (Status::Cancelled, ..) => Err(ResultError::Cancelled),
        (_, _, Some(error)) => Err(ResultError::Failed(error)),
        (_, _, None) => Err(ResultError::Failed(JobError::fatal("no reason was recorded"))),
    }
}

impl<T: DeserializeOwned> JobHandle<T> {
    /// Waits for the job and returns its result.
    pub async fn result(&self) -> Result<T, ResultError> {
        self.result_as().await
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for JobHandle<T> {
    type Output = Result<T, ResultError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.result().await })
    }
}
