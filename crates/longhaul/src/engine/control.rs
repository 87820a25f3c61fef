//! Reading and controlling jobs.

mod list_permits;

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

pub(super) use self::list_permits::ListPermits;
use super::Engine;
use crate::failpoint::{self, Failpoint};
use crate::job::{
    Command, Job, JobId, Json, Name, Record, Status, Step, Timestamp, Transition, UsageRow,
};
use crate::store::{Filter, Page, PageRequest, QueueState, QueueTotal, ReplicaState, StoreError};

/// Jobs that a bulk command reads and changes at a time.
const BULK_PAGE: usize = 500;
/// Jobs that a stream reads at a time.
const STREAM_PAGE: usize = 100;

impl Engine {
    /// Returns a job with its result and history.
    pub async fn job(&self, id: JobId) -> Result<Record, StoreError> {
        self.shared.store.job(&self.tenant, id).await
    }

    /// Returns the job with this idempotency key.
    pub async fn job_by_key(&self, key: &str) -> Result<Record, StoreError> {
        self.shared.store.job_by_key(&self.tenant, key).await
    }

    /// Lists jobs that match, newest first, as a stream that reads page by page.
    ///
    /// Jobs that are submitted while the stream is read are not included.
    pub fn jobs(&self, filter: Filter) -> BoxStream<'static, Result<Job, StoreError>> {
        self.jobs_by(filter, STREAM_PAGE)
    }

    fn jobs_by(
        &self,
        filter: Filter,
        page_size: usize,
    ) -> BoxStream<'static, Result<Job, StoreError>> {
        let first = Some(PageRequest::new(page_size, None));
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
    ///
    /// A page examines up to [`PageRequest::examined_max`] jobs. So it may be short or empty although there is a next one:
    /// continue until [`Page::next`] is `None`. Few lists run at a time, and one of each tenant, so that lists do not slow
    /// down other calls. [`StoreError::Unavailable`] if many lists of the tenant wait already.
    pub async fn jobs_page(&self, filter: &Filter, page: &PageRequest) -> Result<Page, StoreError> {
        let (filter, page) = (filter.clone(), *page);
        self.list(async move |engine| {
            engine.shared.store.jobs(&engine.tenant, &filter, &page).await
        })
        .await
    }

    /// Runs a list when it gets a permit, and to its end even if the caller is dropped, because the store would continue
    /// without the permit.
    async fn list<T, F>(&self, list: impl FnOnce(Self) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let permit = self.shared.list_permits.acquire(&self.tenant).await?;
        let list = list(self.clone());
        self.run_to_completion(async move |_| {
            let started = Instant::now();
            let listed = list.await;
            permit.end(started.elapsed());
            listed
        })
        .await
    }

    /// Returns a job's input.
    pub async fn input(&self, id: JobId) -> Result<Json, StoreError> {
        self.shared.store.input(&self.tenant, id).await
    }

    /// Returns a job's finished steps, in order.
    pub async fn steps(&self, id: JobId) -> Result<Vec<Step>, StoreError> {
        self.shared.store.steps(&self.tenant, id).await
    }

    /// Returns the usage of finished jobs by hour, kind and API key, from the hour of `from` up to
    /// the last hour that began before `to`. Each job counts once.
    pub async fn usage(&self, from: Timestamp, to: Timestamp) -> Result<Vec<UsageRow>, StoreError> {
        self.list(async move |engine| engine.shared.store.usage(&engine.tenant, from, to).await)
            .await
    }

    /// Cancels a job: at once if it is pending. A running job starts no further step, and its
    /// handler is dropped after the grace period.
    pub async fn cancel(&self, id: JobId) -> Result<Job, StoreError> {
        self.run_to_completion(async move |engine| {
            let job = engine.shared.store.cancel(&engine.tenant, id).await?;
            if job.status == Status::Running {
                engine.workers.cancel(id, job.version);
            } else if job.has_payload {
                engine.shared.blob_gc_wake.notify_one();
            }
            engine.shared.watchers.changed(&job.tenant, id, job.status, Some(job.version));
            Ok(job)
        })
        .await
    }

    /// Returns a failed or cancelled job to its queue. Its finished steps are reused.
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

    /// Runs `work` to its end even if the caller is dropped, for example because a client
    /// disconnects: watchers and workers must learn of what the store has changed.
    async fn run_to_completion<T, F>(&self, work: impl FnOnce(Self) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let done = tokio::spawn(work(self.clone())).await;
        done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    /// Creates a job with the same input and the finished steps before `from_step`; with all of
    /// them if it is `None`.
    pub async fn fork(&self, id: JobId, from_step: Option<&str>) -> Result<Job, StoreError> {
        let new_id = self.shared.new_id();
        let job = self.shared.store.fork(&self.tenant, id, new_id, from_step).await?;
        self.shared.admission.record_pending(&self.tenant, &job.queue);
        self.shared.wake_for(&self.tenant);
        Ok(job)
    }

    /// Deletes a finished job with its artifacts and delivered webhooks. Pending deliveries are
    /// made first.
    pub async fn purge(&self, id: JobId) -> Result<(), StoreError> {
        // Watchers need no notification: a job can only be purged after its end.
        self.shared.store.purge(&self.tenant, id).await?;
        failpoint::reach(Failpoint::Purged).await;
        self.shared.blob_gc_wake.notify_one();
        if !self.tenant.is_outbox()
            && let Err(error) = self.for_tenant(self.tenant.outbox()).purge_deliveries_of(id).await
        {
            // Remaining deliveries are pruned by their own retention.
            tracing::warn!(%error, job.id = %id, "cannot delete the deliveries of a deleted job");
        }
        Ok(())
    }

    /// Deletes finished deliveries of a job, because they contain the job and its result.
    async fn purge_deliveries_of(&self, id: JobId) -> Result<(), StoreError> {
        let mut deliveries =
            self.jobs_by(Filter { parent: Some(id), ..Filter::default() }, BULK_PAGE);
        while let Some(delivery) = deliveries.try_next().await? {
            if !BulkCommand::Purge.changes(delivery.status) {
                continue;
            }
            match self.shared.store.purge(&self.tenant, delivery.id).await {
                // It was sent again, or another caller deleted it.
                Ok(()) | Err(StoreError::WrongStatus { .. } | StoreError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Cancels, resumes or purges every job that matches and whose status allows it. Returns how
    /// many changed.
    ///
    /// Not one transaction: each job is checked with its status at that moment.
    pub async fn bulk(&self, filter: &Filter, command: BulkCommand) -> Result<u64, StoreError> {
        let mut done = 0;
        let mut jobs = self.jobs_by(filter.clone(), BULK_PAGE).try_ready_chunks(BULK_PAGE);
        while let Some(chunk) = jobs.try_next().await.map_err(|error| error.1)? {
            // Concurrently, so that the writes of a chunk share their syncs.
            let mut results = JoinSet::new();
            for job in chunk.into_iter().filter(|job| command.changes(job.status)) {
                let engine = self.clone();
                results.spawn(async move { engine.run_command(job.id, command).await });
            }
            while let Some(result) = results.join_next().await {
                let lost = |error: JoinError| Err(StoreError::Unavailable(error.to_string()));
                match result.unwrap_or_else(lost) {
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
        }
        Ok(done)
    }

    async fn run_command(&self, id: JobId, command: BulkCommand) -> Result<(), StoreError> {
        match command {
            BulkCommand::Cancel => self.cancel(id).await.map(|_| ()),
            BulkCommand::Resume => self.resume(id).await.map(|_| ()),
            BulkCommand::Purge => self.purge(id).await,
        }
    }

    /// Returns the replicas that share the store and have sent a heartbeat lately, sorted by name.
    pub async fn replicas(&self) -> Result<Vec<ReplicaState>, StoreError> {
        self.shared.store.replicas().await
    }

    /// Returns the tenant's queues that have unfinished jobs or are paused.
    pub async fn queues(&self) -> Result<Vec<QueueState>, StoreError> {
        self.list(async |engine| engine.shared.store.queues(&engine.tenant).await).await
    }

    /// Returns the totals of up to `limit` queues over all tenants, the longest first. For operators: no
    /// tenant's request should be answered with them.
    pub async fn queue_totals(&self, limit: usize) -> Result<Vec<QueueTotal>, StoreError> {
        self.shared.store.queue_totals(limit).await
    }

    /// Stops claims from one of the tenant's queues. Running jobs continue.
    pub async fn pause_queue(&self, queue: &Name) -> Result<(), StoreError> {
        self.shared.store.pause_queue(&self.tenant, queue, true).await
    }

    /// Allows claims from a paused queue again.
    pub async fn resume_queue(&self, queue: &Name) -> Result<(), StoreError> {
        self.shared.store.pause_queue(&self.tenant, queue, false).await?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Estimates when a client should poll an unfinished job again, from the run times of its kind
    /// and the jobs queued before it: 1 to 30 s, 10 s without data.
    pub fn retry_after(&self, job: &Job) -> Duration {
        let kind = self.shared.kinds.get(&job.kind);
        if let Some(fixed) = kind.and_then(|kind| kind.settings().retry_after) {
            return fixed;
        }
        let now = self.shared.clock.now();
        if self.shared.retry_after_estimator.wants_count(&self.tenant, now) {
            let engine = self.clone();
            tokio::spawn(async move {
                // Without a count, the estimate uses run times only.
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

/// A command for many jobs. See [`Engine::bulk`].
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
    /// Returns whether the command changes a job with this status.
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
