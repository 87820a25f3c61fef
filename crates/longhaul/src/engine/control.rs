//! What callers may ask about jobs and do to them.

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::task::{JoinError, JoinSet};

use super::Engine;
use crate::failpoint::{self, Failpoint};
use crate::job::{
    Command, Job, JobId, Json, Name, Record, Status, Step, Timestamp, Transition, UsageRow,
};
use crate::store::{Filter, Page, PageRequest, QueueState, ReplicaState, StoreError};

/// How many jobs a bulk command handles between two looks at the list.
const BULK_PAGE: usize = 500;
/// Jobs that a stream reads at a time.
const STREAM_PAGE: usize = 100;

impl Engine {
    /// A job with its result and history.
    pub async fn job(&self, id: JobId) -> Result<Record, StoreError> {
        self.shared.store.job(&self.tenant, id).await
    }

    /// The job that was submitted under this idempotency key.
    pub async fn job_by_key(&self, key: &str) -> Result<Record, StoreError> {
        self.shared.store.job_by_key(&self.tenant, key).await
    }

    /// Lists jobs that match, newest first, as a stream that reads page by page.
    ///
    /// Jobs that are submitted while the stream is read are not included.
    pub fn jobs(&self, filter: Filter) -> BoxStream<'static, Result<Job, StoreError>> {
        let first = Some(PageRequest { limit: STREAM_PAGE, before: None });
        let engine = self.clone();
        let pages = stream::try_unfold(first, move |page| {
            let (engine, filter) = (engine.clone(), filter.clone());
            async move {
                let Some(mut page) = page else { return Ok(None) };
                let Page { jobs, next } = engine.jobs_page(&filter, &page).await?;
                page.before = next;
                let rest = page.before.is_some().then_some(page);
                Ok(Some((stream::iter(jobs.into_iter().map(Ok)), rest)))
            }
        });
        pages.try_flatten().boxed()
    }

    /// Reads one page of the jobs that match, newest first.
    pub async fn jobs_page(&self, filter: &Filter, page: &PageRequest) -> Result<Page, StoreError> {
        self.shared.store.jobs(&self.tenant, filter, page).await
    }

    /// A job's input.
    pub async fn input(&self, id: JobId) -> Result<Json, StoreError> {
        self.shared.store.input(&self.tenant, id).await
    }

    /// A job's finished steps, in their order.
    pub async fn steps(&self, id: JobId) -> Result<Vec<Step>, StoreError> {
        self.shared.store.steps(&self.tenant, id).await
    }

    /// What finished jobs used, by hour, kind and API key: each job once, from the hour that `from` is in to
    /// the last one that began before `to`.
    pub async fn usage(&self, from: Timestamp, to: Timestamp) -> Result<Vec<UsageRow>, StoreError> {
        self.shared.store.usage(&self.tenant, from, to).await
    }

    /// Stops a job: at once if it waits; a running one is asked to, starts no further step, and is
    /// dropped after the grace period.
    pub async fn cancel(&self, id: JobId) -> Result<Job, StoreError> {
        self.run_to_completion(async move |engine| {
            let job = engine.shared.store.cancel(&engine.tenant, id).await?;
            if job.status == Status::Running {
                engine.workers.cancel(id);
            } else if job.has_payload {
                engine.shared.blob_gc_wake.notify_one();
            }
            engine.shared.watchers.changed(&job.tenant, id, job.status, Some(job.version));
            Ok(job)
        })
        .await
    }

    /// Puts a failed or cancelled job back in line. Its finished steps are kept.
    pub async fn resume(&self, id: JobId) -> Result<Job, StoreError> {
        self.run_to_completion(async move |engine| {
            let job = engine.shared.store.resume(&engine.tenant, id).await?;
            engine.shared.watchers.changed(&job.tenant, id, job.status, Some(job.version));
            engine.shared.admission.record_pending(&job.tenant, &job.queue);
            engine.shared.wake_for(&job.tenant);
            Ok(job)
        })
        .await
    }

    /// Does all of `work` even if the caller goes away in the middle, as a client that disconnects
    /// does: what the store has changed, watchers and workers must hear of.
    async fn run_to_completion<T, F>(&self, work: impl FnOnce(Self) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let done = tokio::spawn(work(self.clone())).await;
        done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    /// Makes a new job with the same input and the finished steps before `from_step`, or all of
    /// them if none is named.
    pub async fn fork(&self, id: JobId, from_step: Option<&str>) -> Result<Job, StoreError> {
        let new_id = self.shared.new_id();
        let job = self.shared.store.fork(&self.tenant, id, new_id, from_step).await?;
        self.shared.admission.record_pending(&self.tenant, &job.queue);
        self.shared.wake_for(&self.tenant);
        Ok(job)
    }

    /// Deletes a finished job with all that belongs to it, deliveries included. What is still owed for it is
    /// delivered first.
    pub async fn purge(&self, id: JobId) -> Result<(), StoreError> {
        // Only what has ended can be purged, and whoever watched it has been told.
        self.shared.store.purge(&self.tenant, id).await?;
        failpoint::reach(Failpoint::Purged).await;
        self.shared.blob_gc_wake.notify_one();
        if !self.tenant.is_outbox()
            && let Err(error) = self.outbox().purge_deliveries_of(id).await
        {
            // The job is gone, and what is left goes with its own retention.
            tracing::warn!(%error, job.id = %id, "deliveries of a deleted job are left");
        }
        Ok(())
    }

    /// Deletes what was delivered of a job: it has the job and its result inside.
    async fn purge_deliveries_of(&self, id: JobId) -> Result<(), StoreError> {
        let filter = Filter { parent: Some(id), ..Filter::default() };
        let mut page = PageRequest { limit: BULK_PAGE, before: None };
        loop {
            let Page { jobs, next } = self.jobs_page(&filter, &page).await?;
            for delivery in
                jobs.iter().filter(|delivery| BulkCommand::Purge.changes(delivery.status))
            {
                match self.shared.store.purge(&self.tenant, delivery.id).await {
                    // It was resent, or deleted by somebody else.
                    Ok(()) | Err(StoreError::WrongStatus { .. } | StoreError::Gone) => {}
                    Err(error) => return Err(error),
                }
            }
            match next {
                Some(next) => page.before = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Cancels, resumes or purges every job that matches and allows it. Returns how many it was.
    ///
    /// Not one transaction: jobs that change meanwhile are judged by what they are when their
    /// turn comes.
    pub async fn bulk(&self, filter: &Filter, command: BulkCommand) -> Result<u64, StoreError> {
        let mut done = 0;
        let mut page = PageRequest { limit: BULK_PAGE, before: None };
        loop {
            let Page { jobs, next } = self.jobs_page(filter, &page).await?;
            // Side by side, so that a page shares its syncs.
            let mut answers = JoinSet::new();
            for job in jobs.into_iter().filter(|job| command.changes(job.status)) {
                let engine = self.clone();
                answers.spawn(async move { engine.do_to(job.id, command).await });
            }
            while let Some(answer) = answers.join_next().await {
                let lost = |error: JoinError| Err(StoreError::Unavailable(error.to_string()));
                match answer.unwrap_or_else(lost) {
                    Ok(()) => done += 1,
                    Err(
                        StoreError::WrongStatus { .. }
                        | StoreError::PayloadPurged
                        | StoreError::NotFound
                        | StoreError::Gone,
                    ) => {}
                    Err(error) => return Err(error),
                }
            }
            match next {
                Some(next) => page.before = Some(next),
                None => return Ok(done),
            }
        }
    }

    async fn do_to(&self, id: JobId, command: BulkCommand) -> Result<(), StoreError> {
        match command {
            BulkCommand::Cancel => self.cancel(id).await.map(|_| ()),
            BulkCommand::Resume => self.resume(id).await.map(|_| ()),
            BulkCommand::Purge => self.purge(id).await,
        }
    }

    /// The processes that share the store and were heard of lately, by name.
    pub async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        self.shared.store.replicas().await
    }

    /// The tenant's queues.
    pub async fn queues(&self) -> Result<Vec<QueueState>, StoreError> {
        self.shared.store.queues(&self.tenant).await
    }

    /// Stops claims from one of the tenant's queues. Running jobs go on.
    pub async fn pause_queue(&self, queue: &Name) -> Result<(), StoreError> {
        self.shared.store.pause_queue(&self.tenant, queue, true).await
    }

    /// Starts claims from a paused queue again.
    pub async fn resume_queue(&self, queue: &Name) -> Result<(), StoreError> {
        self.shared.store.pause_queue(&self.tenant, queue, false).await?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// When it is worth asking for an unfinished job again: from what its kind's recent jobs took
    /// and how many wait before it, 1 to 30 s, 10 s if nothing is known.
    pub fn retry_after(&self, job: &Job) -> Duration {
        let kind = self.shared.kinds.get(&job.kind);
        if let Some(fixed) = kind.and_then(|kind| kind.settings().retry_after) {
            return fixed;
        }
        let now = self.shared.clock.now();
        if self.shared.retry_after_estimator.wants_count(&self.tenant, now) {
            let engine = self.clone();
            tokio::spawn(async move {
                // Only an estimate: without a count it is made from the run times alone.
                if let Ok(queues) = engine.queues().await {
                    engine.shared.retry_after_estimator.counted(
                        &engine.tenant,
                        &queues,
                        engine.shared.clock.now(),
                    );
                }
            });
        }
        let here = self.workers.concurrency();
        let side_by_side =
            kind.and_then(|kind| kind.settings().concurrency).map_or(here, |kind| kind.min(here));
        self.shared.retry_after_estimator.retry_after(job, side_by_side, now)
    }
}

/// What can be done to many jobs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkCommand {
    /// [`Engine::cancel`]
    Cancel,
    /// [`Engine::resume`]
    Resume,
    /// [`Engine::purge`]
    Purge,
}

impl BulkCommand {
    /// Whether it would do anything to a job that stands here.
    fn changes(self, status: Status) -> bool {
        let command = match self {
            Self::Cancel => Command::Cancel,
            Self::Resume => Command::Resume,
            Self::Purge => Command::Purge,
        };
        match status.on(command) {
            Transition::Move(_) | Transition::RequestStop | Transition::Delete => true,
            Transition::Unchanged | Transition::Reject => false,
        }
    }
}
