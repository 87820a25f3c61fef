//! Runs one attempt of one job, from its lease to its settlement.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::lease_renewer::LeaseRenewer;
use super::slots::{Slot, Slots};
use super::{ProgressReporter, WorkerSettings};
use crate::ctx::{Ctx, Signals};
use crate::engine::{Kind, Shared};
use crate::failpoint::{self, Failpoint};
use crate::job::{Job, JobError, Json, Outcome, Retry, Status, Timestamp, check_limit};
use crate::metrics;
use crate::store::{Lease, NewBlob, SettleResult, Settlement, StoreError};

/// How soon a settlement is tried again while the store is not available. Bounded by the lease.
const SETTLE_RETRY: Retry =
    Retry { max_attempts: u32::MAX, first: Duration::from_millis(50), max: Duration::from_secs(2) };
/// How long a lease is still renewed after the handler should have been dropped.
const GIVE_UP: Duration = Duration::from_secs(30);

/// What all attempts of a replica share.
pub(super) struct Runner {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: WorkerSettings,
    pub(super) reports: Arc<ProgressReporter>,
    pub(super) lease_renewer: Arc<LeaseRenewer>,
    pub(super) slots: Arc<Slots>,
    /// Wakes the claims that fill these slots.
    pub(super) wake: Arc<Notify>,
    pub(super) stopping: CancellationToken,
    pub(super) release: CancellationToken,
}

impl Runner {
    /// Runs the attempt that `lease` grants. The claim was sent at `sent_at`. The lease is kept from
    /// this call on, whenever the future is first polled.
    pub(super) fn run(
        self: Arc<Self>,
        lease: Lease,
        sent_at: Timestamp,
        slot: Slot,
    ) -> impl Future<Output = ()> + Send {
        let kind = self.shared.kind_that_runs(&lease.job.kind);
        let timeout = lease
            .job
            .timeout
            .or(kind.as_ref().map(|kind| kind.settings().timeout))
            .unwrap_or_default();
        let signals = Signals { stopping: self.stopping.clone(), ..Signals::default() };
        if lease.job.cancel_requested_at.is_some() {
            signals.cancel.cancel();
        }
        let kept = self.lease_renewer.keep(
            lease.to_ref(),
            signals.clone(),
            sent_at.after(self.settings.lease),
            sent_at.after(timeout).after(GIVE_UP),
        );
        async move {
            let (job, lease_ref) = (lease.job.clone(), lease.to_ref());
            self.shared.watchers.changed(&job.tenant, job.id, job.status, Some(job.version));
            let (outcome, ctx) = match kind {
                Some(kind) if !self.stopping.is_cancelled() => {
                    failpoint::reach(Failpoint::Claimed).await;
                    let ctx = self.ctx(&kind, lease.clone(), &signals);
                    (self.work(&kind, &ctx, lease.input, &signals, timeout).await, Some(ctx))
                }
                // Stopping; or a kind that does not run here, which is never claimed.
                Some(_) | None => (Some(Outcome::Released), None),
            };
            let ending = slot.ending();
            self.wake.notify_one();
            failpoint::reach(Failpoint::HandlerReturned).await;
            let artifacts = match &ctx {
                Some(ctx) => self.clear_up(ctx, outcome.as_ref()).await,
                None => Vec::new(),
            };
            failpoint::reach(Failpoint::CleanedUp).await;
            if let Some(outcome) = outcome {
                let settlement = Settlement {
                    progress: self.reports.take(&lease_ref),
                    lease: lease_ref,
                    outcome,
                    phases: Vec::new(),
                    artifacts,
                    tokens: ctx.as_ref().map(Ctx::used_tokens).unwrap_or_default(),
                };
                let refused = self.settle(&job, settlement, &signals, sent_at).await;
                if let Some(ctx) = ctx {
                    ctx.delete_artifacts(refused).await;
                }
            }
            drop(kept);
            let makes_room = ending.makes_room();
            drop(ending);
            if makes_room {
                self.wake.notify_one();
            }
        }
    }

    fn ctx(&self, kind: &Kind, lease: Lease, signals: &Signals) -> Ctx {
        let (shared, reports) = (Arc::clone(&self.shared), Arc::clone(&self.reports));
        Ctx::new(shared, reports, lease, kind.settings().code_version.as_deref(), signals.clone())
    }

    /// Before anybody learns how the attempt ended, nothing is left of it in clear. What it produced is
    /// kept if it completed its job.
    async fn clear_up(&self, ctx: &Ctx, outcome: Option<&Outcome>) -> Vec<NewBlob> {
        ctx.clear_folders().await;
        let artifacts = ctx.take_artifacts();
        if matches!(outcome, Some(Outcome::Completed(_))) {
            return artifacts;
        }
        ctx.delete_artifacts(artifacts).await;
        Vec::new()
    }

    /// Lets the handler work until it returns or something ends the attempt. `None`: the lease is
    /// lost, and there is nothing left to say.
    async fn work(
        &self,
        kind: &Kind,
        ctx: &Ctx,
        input: Json,
        signals: &Signals,
        timeout: Duration,
    ) -> Option<Outcome> {
        let clock = &self.shared.clock;
        let attempt = ctx.attempt();
        let handler = kind.handler()?;
        let work = run_handler(ctx, || handler(ctx.clone(), input));
        let grace_over = async {
            signals.cancel.cancelled().await;
            clock.sleep(self.settings.cancel_grace).await;
        };
        tokio::select! {
            biased;
            () = signals.lost.cancelled() => None,
            ended = work => Some(match ended {
                Ended::Suspended(outcome) => outcome,
                Ended::Returned(result) => {
                    match result.and_then(|result| self.checked(ctx, result)) {
                        Ok(result) => Outcome::Completed(result),
                        Err(error) => failed(error, kind, attempt),
                    }
                }
            }),
            () = self.release.cancelled() => Some(Outcome::Released),
            () = grace_over => Some(Outcome::Cancelled),
            () = clock.sleep(timeout) => {
                let message = format!("the attempt took longer than {timeout:?}");
                Some(failed(JobError::new("timeout", message, true), kind, attempt))
            }
        }
    }

    /// What the handler believes to be a result, if it may be one.
    fn checked(&self, ctx: &Ctx, result: Json) -> Result<Json, JobError> {
        if let Some(fault) = ctx.fault() {
            return Err(fault);
        }
        let bytes_max = self.shared.limits.result_bytes_max;
        let bytes = result.as_str().len();
        check_limit("the result in bytes", "result_bytes_max", &bytes, &bytes_max)
            .map_err(|error| JobError::new("limit", error, false))?;
        Ok(result)
    }

    /// Tells the store how the attempt ended, until it knows or the lease is lost. Returns artifacts that
    /// the store does not know, for sure.
    async fn settle(
        &self,
        job: &Job,
        settlement: Settlement,
        signals: &Signals,
        began_at: Timestamp,
    ) -> Vec<NewBlob> {
        for attempt in 1.. {
            let answer = self.shared.store.settle(vec![settlement.clone()]).await.pop();
            match answer {
                Some(Ok(settled)) => {
                    failpoint::reach(Failpoint::Settled).await;
                    self.settled(job, settled, began_at);
                    // A cancel may have come before it.
                    let completed = settled.status == Status::Completed;
                    return if completed { Vec::new() } else { settlement.artifacts };
                }
                Some(Err(StoreError::LeaseLost)) | None => {
                    tracing::warn!(job.id = %job.id, "the lease was lost before the attempt ended");
                    return settlement.artifacts;
                }
                Some(Err(error)) if error.is_transient() => {
                    tracing::warn!(%error, job.id = %job.id, "cannot settle yet");
                    tokio::select! {
                        () = signals.lost.cancelled() => break,
                        () = tokio::time::sleep(SETTLE_RETRY.delay(attempt, rand::random())) => {}
                    }
                }
                Some(Err(error)) => {
                    self.shared.record_store_error(&error);
                    tracing::error!(%error, job.id = %job.id, "cannot settle");
                    break;
                }
            }
        }
        // Whether the store knows them is not known here: what it does not know is swept as a stray.
        Vec::new()
    }

    fn settled(&self, job: &Job, settled: SettleResult, began_at: Timestamp) {
        let took = self.shared.clock.now().since(began_at);
        tracing::debug!(
            job.id = %job.id, job.kind = %job.kind, tenant.id = %job.tenant,
            job.status = %settled.status, job.attempt = job.attempt,
            "attempt ended",
        );
        metrics::attempt_ended(&job.kind, settled.status, took);
        if settled.status == Status::Completed {
            self.shared.retry_after_estimator.ran(&job.kind, took);
        }
        if !settled.status.is_terminal() {
            // It is in line again, and may be due before anything that claims know of.
            self.wake.notify_one();
        } else if job.has_payload {
            self.shared.blob_gc_wake.notify_one();
        }
        self.shared.watchers.changed(&job.tenant, job.id, settled.status, Some(settled.version));
    }
}

fn failed(error: JobError, kind: &Kind, attempt: u32) -> Outcome {
    let mut error = error.bounded();
    // What is stored of it does not say it: the due time does.
    let asked = error.retry_in.take();
    let retry_in = asked.unwrap_or_else(|| kind.settings().retry.delay(attempt, rand::random()));
    Outcome::Failed { error, retry_in }
}

/// How a handler's run ended.
enum Ended {
    /// It returned.
    Returned(Result<Json, JobError>),
    /// All that is left of it waits, and it goes on in a later run.
    Suspended(Outcome),
}

/// Runs a handler until it returns or sleeps. Its panic becomes an error of its job.
async fn run_handler<Fut>(ctx: &Ctx, start: impl FnOnce() -> Fut) -> Ended
where
    Fut: Future<Output = Result<Json, JobError>>,
{
    let work = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(work) => work,
        Err(panic) => return Ended::Returned(Err(panicked(&*panic))),
    };
    let mut work = pin!(work);
    poll_fn(|cx| {
        ctx.polled();
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Ready(result)) => Poll::Ready(Ended::Returned(result)),
            Ok(Poll::Pending) => {
                ctx.suspension().map(Ended::Suspended).map_or(Poll::Pending, Poll::Ready)
            }
            Err(panic) => Poll::Ready(Ended::Returned(Err(panicked(&*panic)))),
        }
    })
    .await
}

fn panicked(panic: &(dyn Any + Send)) -> JobError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    JobError::new("panic", format!("the handler panicked: {text}"), true)
}
