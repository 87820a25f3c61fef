//! Submitting jobs: admission and acceptance.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use super::admission::{QuotaExceeded, Reservation};
use super::submission::{Input, Submission, SubmitError};
use super::{Engine, JobArgs, JobHandle, Kind};
use crate::job::{IntoName, Json, Name, TenantId};
use crate::metrics;
use crate::store::{NewJob, StoreError, SubmitResult};

impl Engine {
    /// Submits a job. Await the returned [`Submission`].
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a call reads better with a literal: submit(Ship { order })"
    )]
    pub fn submit<A: JobArgs>(&self, args: A) -> Submission<A::Output> {
        Submission::new(self.clone(), A::KIND.into_name(), Input::Given(Json::from_value(&args)))
    }

    /// Submits a job of a kind that is known by name only, for callers without a [`JobArgs`] type.
    pub fn submit_raw(&self, kind: impl IntoName, input: &(impl Serialize + ?Sized)) -> Submission {
        Submission::new(self.clone(), kind.into_name(), Input::Given(Json::from_value(input)))
    }

    /// Submits several jobs in one transaction. Each is accepted or rejected individually; results
    /// are in the order of the submissions. Jobs with payloads are rejected.
    pub async fn submit_all<T>(
        &self,
        submissions: Vec<Submission<T>>,
    ) -> Vec<Result<JobHandle<T>, SubmitError>> {
        let (mut jobs, mut reservations, mut checks) = (Vec::new(), Vec::new(), Vec::new());
        let mut keys = HashSet::new();
        for submission in submissions {
            let admitted = match submission.check().await {
                Ok(job) => self.admit(job, &mut keys).await,
                Err(check) => Err(check),
            };
            checks.push(admitted.map(|(job, reservation)| {
                jobs.push(job);
                reservations.push(reservation);
            }));
        }
        let results = self.shared.store.submit(jobs).await;
        if results.iter().any(Result::is_ok) {
            self.shared.record_store_success();
        }
        self.shared.wake_for(&self.tenant);
        let mut results = results.into_iter().zip(reservations);
        let result = |check: Result<(), SubmitError>| {
            check?;
            let (result, reservation) =
                results.next().unwrap_or_else(|| (Err(missing_result()), None));
            self.settle_reservation(reservation, &result);
            Ok(self.accepted(result?))
        };
        checks.into_iter().map(result).collect()
    }

    /// Stores one job. Returns whether it has started: that of a caller who submits alone does, if this process
    /// has a free slot. Concurrent callers share a commit instead.
    pub(super) async fn store_one(&self, job: NewJob) -> Result<(SubmitResult, bool), StoreError> {
        let submitting = self.shared.submitting.enter();
        let stored = if submitting.is_alone()
            && let Some(hand_off) = self.workers.hand_off()
            && let Some(reserved) = hand_off.reserve(&job)
        {
            hand_off.submit(job, reserved).await?
        } else {
            let result = self.shared.store.submit(vec![job]).await.pop();
            (result.unwrap_or_else(|| Err(missing_result()))?, false)
        };
        self.shared.record_store_success();
        Ok(stored)
    }

    /// Reserves quota for a checked job. If the quota is used up, a job whose idempotency key exists
    /// is still admitted, because repeating a submission adds no job. `keys` holds the keys of the
    /// same batch, which are not stored yet.
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

    pub(super) fn settle_reservation(
        &self,
        reservation: Option<Reservation>,
        result: &Result<SubmitResult, StoreError>,
    ) {
        match (result, reservation) {
            (Ok(SubmitResult { created: true, .. }), Some(taken)) => drop(taken),
            // The job that had the key was deleted in the meantime.
            (Ok(SubmitResult { created: true, record }), None) => {
                self.shared.admission.record_pending(&record.job.tenant, &record.job.queue);
            }
            // The job may have been stored: the reservation counts until the next count.
            (Err(StoreError::Unavailable(_)), reservation) => drop(reservation),
            (Ok(_) | Err(_), Some(reservation)) => reservation.release(),
            (Ok(_) | Err(_), None) => {}
        }
    }

    pub(super) fn accepted<T>(
        &self,
        SubmitResult { record, created }: SubmitResult,
    ) -> JobHandle<T> {
        if created {
            metrics::job_submitted(&record.job.kind);
        }
        JobHandle::new(self.clone(), record, created)
    }
}

/// Counts the callers that are submitting one job.
#[derive(Debug, Default)]
pub(crate) struct Submitters(AtomicUsize);

/// One caller. Dropping it ends its submission.
struct Submitter<'a> {
    submitters: &'a Submitters,
    others: usize,
}

impl Submitters {
    fn enter(&self) -> Submitter<'_> {
        Submitter { submitters: self, others: self.0.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Submitter<'_> {
    fn is_alone(&self) -> bool {
        self.others == 0
    }
}

impl Drop for Submitter<'_> {
    fn drop(&mut self) {
        self.submitters.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn no_payload(kind: &Name) -> SubmitError {
    SubmitError::Invalid(format!("kind {kind} does not accept payloads"))
}

pub(super) fn missing_result() -> StoreError {
    StoreError::Broken("the store returned fewer results than submissions".to_owned())
}
