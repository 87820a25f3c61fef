//! What a submission returns: a hold on one job.

use serde::de::DeserializeOwned;

use super::{Engine, Watcher};
use crate::job::{Job, JobError, JobId, JsonError, Record, Status};
use crate::store::StoreError;

/// A hold on one job of an engine.
#[derive(Debug, Clone)]
pub struct JobHandle {
    engine: Engine,
    record: Record,
    created: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The job failed.
    #[error("the job failed: {0}")]
    Failed(JobError),
    /// The job was cancelled.
    #[error("the job was cancelled")]
    Cancelled,
    /// The result is not of the type that was asked for.
    #[error("the result does not fit the type asked for: {0}")]
    Type(#[from] JsonError),
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JobHandle {
    pub(super) fn new(engine: Engine, record: Record, created: bool) -> Self {
        Self { engine, record, created }
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.record.job.id
    }

    /// Whether this submission made the job; false if its idempotency key was known.
    pub fn created(&self) -> bool {
        self.created
    }

    /// The job as it was when the submission was answered.
    pub fn submitted(&self) -> &Record {
        &self.record
    }

    /// The job as it is now.
    pub async fn record(&self) -> Result<Record, StoreError> {
        self.engine.job(self.id()).await
    }

    /// Every state of the job from now on.
    pub fn watch(&self) -> Watcher {
        self.engine.watch(self.id(), None)
    }

    /// Asks the job to stop.
    pub async fn cancel(&self) -> Result<Job, StoreError> {
        self.engine.cancel(self.id()).await
    }

    /// Waits until the job has ended.
    pub async fn ended(&self) -> Result<Record, StoreError> {
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

    /// Waits until the job has ended and reads its result.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, ResultError> {
        let Record { job, result, .. } = self.ended().await?;
        match (job.status, result, job.error) {
            (Status::Completed, Some(result), _) => Ok(result.to()?),
            (Status::Cancelled, ..) => Err(ResultError::Cancelled),
            (_, _, Some(error)) => Err(ResultError::Failed(error)),
            (_, _, None) => Err(ResultError::Failed(JobError::fatal("no reason was recorded"))),
        }
    }
}
