//! Runs one attempt of a job, from its lease to its settlement.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::lease_renewer::{LeaseGuard, LeaseRenewer};
use super::slots::{Slot, Slots};
use super::{ProgressReporter, WorkerSettings};
use crate::ctx::{Ctx, STORE_RETRY, Signals};
use crate::engine::{EngineState, Kind};
use crate::failpoint::{self, Failpoint};
use crate::job::{Job, JobError, Json, Outcome, Status, Timestamp, check_limit};
use crate::metrics;
use crate::store::{Lease, NewBlob, SettleResult, Settlement, StoreError};

/// Grace period after the timeout during which the lease is still renewed.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Shared context of all attempts of a replica.
pub(super) struct Runner {
    pub(super) shared: Arc<EngineState>,
    pub(super) settings: WorkerSettings,
    pub(super) reports: Arc<ProgressReporter>,
    pub(super) lease_renewer: Arc<LeaseRenewer>,
    pub(super) slots: Arc<Slots>,
    /// Wakes the claim loop that fills these slots.
    pub(super) wake: Arc<Notify>,
    pub(super) stopping: CancellationToken,
    pub(super) release: CancellationToken,
}

impl Runner {
    /// Runs the attempt of a lease whose claim was sent at `sent_at`. The lease is renewed from
    /// this call on, even before the future is polled.
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
        let leased_until = sent_at.after(self.settings.lease);
        let kept = self.lease_renewer.keep(
            &lease,
            signals.clone(),
            leased_until,
            sent_at.after(timeout).after(GIVE_UP),
        );
        // The reply came too late for a renewal. No handler has run, so the attempt is released without a charge, unless
        // another replica has rescued the job.
        let is_too_late = leased_until <= self.shared.clock.now();
        async move {
            let lease_ref = lease.to_ref();
            let Lease { job, input, steps, .. } = lease;
            let job = Arc::new(job);
            self.shared.watchers.changed(&job.tenant, job.id, job.status, Some(job.version));
            let (outcome, ctx) = match kind {
                Some(kind) if !self.stopping.is_cancelled() && !is_too_late => {
                    failpoint::reach(Failpoint::Claimed).await;
                    let (shared, reports) = (Arc::clone(&self.shared), Arc::clone(&self.reports));
                    let code_version = kind.settings().code_version.as_deref();
                    let (lease, job) = (lease_ref.clone(), Arc::clone(&job));
                    let ctx =
                        Ctx::new(shared, reports, lease, job, steps, code_version, signals.clone());
                    (self.work(&kind, &ctx, input, &signals, timeout).await, Some(ctx))
                }
                // A kind without a handler here is never claimed.
                Some(_) | None => (Some(Outcome::Released), None),
            };
            // The handler has ended with its lease. The job goes on later, without a charge.
            let released = || self.ran_out_in_outage(&kept).then_some(Outcome::Released);
            let outcome = outcome.or_else(released);
            let ending = slot.ending();
            if self.slots.are_awaited() {
                self.wake.notify_one();
            }
            failpoint::reach(Failpoint::HandlerReturned).await;
            let artifacts = match &ctx {
                Some(ctx) => self.clean_up(ctx, outcome.as_ref()).await,
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
                let refused = self.settle(&job, settlement, &signals, &kept, sent_at).await;
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

    /// Deletes decrypted files before the attempt is settled. Returns the artifacts to keep: those
    /// of a completed job.
    async fn clean_up(&self, ctx: &Ctx, outcome: Option<&Outcome>) -> Vec<NewBlob> {
        ctx.delete_work_dirs().await;
        let artifacts = ctx.take_artifacts();
        if matches!(outcome, Some(Outcome::Completed(_))) {
            return artifacts;
        }
        ctx.delete_artifacts(artifacts).await;
        Vec::new()
    }

    /// Runs the handler until it returns or a signal ends the attempt. Returns `None` if the lease
    /// is lost.
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
                HandlerEnd::Suspended(outcome) => outcome,
                HandlerEnd::Returned(result) => {
                    match result.and_then(|result| self.checked(ctx, result)) {
                        Ok(result) => Outcome::Completed(result),
                        Err(error) => self.failed(error, kind, attempt),
                    }
                }
            }),
            () = self.release.cancelled() => Some(Outcome::Released),
            () = grace_over => Some(Outcome::Cancelled),
            () = clock.sleep(timeout) => {
                let message = format!("the attempt took longer than {timeout:?}");
                Some(self.failed(JobError::new("timeout", message, true), kind, attempt))
            }
        }
    }

    /// Checks a handler's result against faults and limits.
    fn checked(&self, ctx: &Ctx, result: Json) -> Result<Json, JobError> {
        if let Some(fault) = ctx.fault() {
            return Err(fault);
        }
        let bytes_max = self.shared.limits.result_bytes_max;
        let bytes = result.as_str().len();
        check_limit("the result in bytes", "result_bytes_max", &bytes, &bytes_max)
            .map_err(JobError::over_limit)?;
        Ok(result)
    }

    fn failed(&self, error: JobError, kind: &Kind, attempt: u32) -> Outcome {
        let mut error = error.bounded();
        // The delay is stored as the job's due time, not in its error.
        let requested = error.retry_in.take();
        let delay = || kind.settings().retry.delay(attempt, self.shared.random.fraction());
        Outcome::Failed { error, retry_in: requested.unwrap_or_else(delay) }
    }

    /// Settles the attempt, with retries until the lease is lost. If it ran out because the store was away, the retries
    /// go on: the store rejects the settlement if another replica has rescued the job. Returns artifacts that the
    /// store definitely does not refer to.
    async fn settle(
        &self,
        job: &Job,
        settlement: Settlement,
        signals: &Signals,
        kept: &LeaseGuard,
        began_at: Timestamp,
    ) -> Vec<NewBlob> {
        let is_in_vain = async {
            signals.lost.cancelled().await;
            if self.ran_out_in_outage(kept) {
                self.release.cancelled().await;
            }
        };
        let mut is_in_vain = pin!(is_in_vain);
        for attempt in 1.. {
            let result = self.shared.store.settle(vec![settlement.clone()]).await.pop();
            match result {
                Some(Ok(settled)) => {
                    failpoint::reach(Failpoint::Settled).await;
                    self.settled(job, settled, began_at);
                    // A cancellation may have won.
                    let completed = settled.status == Status::Completed;
                    return if completed { Vec::new() } else { settlement.artifacts };
                }
                Some(Err(StoreError::LeaseLost)) | None => {
                    tracing::warn!(job.id = %job.id, "the lease was lost before the attempt was settled");
                    return settlement.artifacts;
                }
                Some(Err(error)) if error.is_transient() => {
                    if attempt == 1 {
                        tracing::warn!(%error, job.id = %job.id, "cannot settle the attempt yet");
                    }
                    tokio::select! {
                        biased;
                        () = &mut is_in_vain => break,
                        () = tokio::time::sleep(STORE_RETRY.delay(attempt, self.shared.random.fraction())) => {}
                    }
                }
                Some(Err(error)) => {
                    self.shared.record_store_error(&error);
                    tracing::error!(%error, job.id = %job.id, "cannot settle the attempt");
                    break;
                }
            }
        }
        // The store may refer to the artifacts. If not, they are collected as orphans.
        Vec::new()
    }

    fn ran_out_in_outage(&self, kept: &LeaseGuard) -> bool {
        kept.ran_out_in_outage(self.shared.clock.now())
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
            // The job is pending again, and may be due before any job that the claim loop knows of.
            self.wake.notify_one();
        } else if job.has_payload {
            self.shared.blob_gc_wake.notify_one();
        }
        self.shared.watchers.changed(&job.tenant, job.id, settled.status, Some(settled.version));
    }
}

enum HandlerEnd {
    Returned(Result<Json, JobError>),
    /// All branches of the handler sleep or wait; a later attempt continues it.
    Suspended(Outcome),
}

/// Runs a handler until it returns or suspends. A panic becomes an error of the job.
async fn run_handler<Fut>(ctx: &Ctx, start: impl FnOnce() -> Fut) -> HandlerEnd
where
    Fut: Future<Output = Result<Json, JobError>>,
{
    let work = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(work) => work,
        Err(panic) => return HandlerEnd::Returned(Err(panicked(&*panic))),
    };
    let mut work = pin!(work);
    poll_fn(|cx| {
        ctx.polled();
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Ready(result)) => Poll::Ready(HandlerEnd::Returned(result)),
            Ok(Poll::Pending) => {
                ctx.suspension().map(HandlerEnd::Suspended).map_or(Poll::Pending, Poll::Ready)
            }
            Err(panic) => Poll::Ready(HandlerEnd::Returned(Err(panicked(&*panic)))),
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
