//! Everything about one job, for its page in the dashboard.

use std::time::Duration;

use longhaul::JobId;
use longhaul::job::{Event, Record};
use longhaul::store::StoreError;
use longhaul_client::wire::{self, Attempt, Instant, RawJson, Status, Step};

use super::query;
use crate::api::http::caller::Caller;
use crate::problem::Result;
use crate::to_wire;

/// A job with its history, and with the fields that the API does not show.
pub(crate) struct JobDetails {
    pub(crate) job: wire::Job,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) steps: Vec<Step>,
    /// None if the job was deleted while it was read.
    pub(crate) input: Option<RawJson>,
    pub(crate) events: Vec<JobEvent>,
    pub(crate) tenant: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) code_version: Option<String>,
    /// A job with a payload cannot run again.
    pub(crate) has_payload: bool,
    pub(crate) is_cancel_requested: bool,
}

/// One recorded transition.
pub(crate) struct JobEvent {
    pub(crate) version: u64,
    pub(crate) at: Instant,
    pub(crate) status: Status,
    pub(crate) attempt: u32,
    pub(crate) phase: Option<String>,
    pub(crate) replica: Option<String>,
    pub(crate) error: Option<String>,
}

/// Reads everything about a job.
pub(crate) async fn details(caller: &Caller, id: JobId) -> Result<JobDetails> {
    let record = caller.engine.job(id).await?;
    let steps = query::steps(caller, id).await?;
    let input = match caller.engine.input(id).await {
        Ok(input) => Some(to_wire::raw(&input)?),
        Err(StoreError::NotFound | StoreError::Gone) => None,
        Err(error) => return Err(error.into()),
    };
    let job = to_wire::job(&caller.engine, &record)?;
    let attempts = record.attempts().into_iter().map(query::attempt).collect();
    let Record { job: stored, history, .. } = record;
    Ok(JobDetails {
        job,
        attempts,
        steps,
        input,
        events: history.into_iter().map(event).collect(),
        tenant: stored.tenant.to_string(),
        timeout: stored.timeout,
        code_version: stored.code_version,
        has_payload: stored.has_payload,
        is_cancel_requested: stored.cancel_requested_at.is_some(),
    })
}

fn event(event: Event) -> JobEvent {
    JobEvent {
        version: event.version,
        at: to_wire::instant(event.at),
        status: to_wire::status(event.status),
        attempt: event.attempt,
        phase: event.phase,
        replica: event.replica,
        error: event.error.map(|error| error.message),
    }
}
