//! Submitting jobs.

use axum::body::Bytes;
use futures_util::Stream;
use longhaul::job::{Json, Webhook};
use longhaul::store::StoreError;
use longhaul::{Engine, JobHandle, Submission, SubmitError};
use longhaul_client::wire::{RetentionRequest, SubmitRequest};

use super::upload::{self, PayloadHeaders};
use crate::api::AppState;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::multipart::PayloadPart;
use crate::api::http::params::body_instant;
use crate::problem::{Problem, Result};

/// Submits a job and measures the store's latency for load shedding.
pub(crate) async fn submit(state: &AppState, submission: Submission) -> Result<JobHandle> {
    Ok(state.load_shedder.measure(submission.into_future()).await?)
}

/// Checks the URLs of a request and takes its webhook out of it.
pub(crate) async fn take_webhook(
    state: &AppState,
    engine: &Engine,
    request: &mut SubmitRequest,
) -> Result<Option<Webhook>> {
    let input = || Json::from_value(&request.input).ok();
    state.caller_urls.check(&state.webhooks.client, &request.kind, input).await?;
    state.webhooks.job_webhook(engine.tenant(), request.webhook.take()).await
}

/// Submits a request with its payload, if it has one.
pub(crate) async fn submit_with_payload(
    state: &AppState,
    caller: &Caller<Submit>,
    request: SubmitRequest,
    webhook: Option<Webhook>,
    key: Option<String>,
    part: Option<PayloadPart>,
) -> Result<JobHandle> {
    let engine = &caller.engine;
    let Some(part) = part else {
        return submit(state, submission(engine, request, webhook, key)?).await;
    };
    let input = Json::from_value(&request.input).map_err(SubmitError::from)?;
    let (headers, name, kind) = (part.headers.clone(), part.name.clone(), request.kind.clone());
    let incoming = IncomingPayload { headers, name, key: key.clone() };
    let submission = || submission(engine, request, webhook, key);
    incoming.submit(state, caller, &kind, &input, part.chunks(), submission).await
}

/// A payload whose bytes are still to be received.
pub(crate) struct IncomingPayload {
    pub(crate) headers: PayloadHeaders,
    pub(crate) name: Option<String>,
    /// Idempotency key of the submission.
    pub(crate) key: Option<String>,
}

impl IncomingPayload {
    /// Stores the payload and submits its job. If the key is in use, compares the payload with that of the existing
    /// job and returns the job.
    pub(crate) async fn submit(
        self,
        state: &AppState,
        caller: &Caller<Submit>,
        kind: &str,
        input: &Json,
        chunks: impl Stream<Item = Result<Bytes>>,
        submission: impl FnOnce() -> Result<Submission>,
    ) -> Result<JobHandle> {
        let engine = &caller.engine;
        engine.check_payload_kind(kind).await?;
        // Blocks other uploads with the same key until the job is submitted.
        let _guard = state.uploads.begin(engine.tenant(), self.key.as_deref())?;
        if let Some(key) = &self.key
            && engine.find_by_key(key, Some(kind), Some(input), None).await?.is_some()
        {
            let existing = upload::compare(engine, &self.headers, key, kind, input, chunks).await?;
            // `None`: the job was deleted meanwhile. A retry finds the key free.
            return existing.ok_or_else(|| StoreError::Gone.into());
        }
        let staged = upload::store(engine, &self.headers, self.name, chunks).await?;
        submit(state, submission()?.payload(staged)).await
    }
}

pub(crate) fn submission(
    engine: &Engine,
    request: SubmitRequest,
    webhook: Option<Webhook>,
    key: Option<String>,
) -> Result<Submission> {
    let mut submission = with_key(engine.submit_raw(&request.kind, &request.input), key);
    if let Some(webhook) = webhook {
        submission = submission.webhook(webhook);
    }
    match (body_instant("runAt", request.run_at.as_ref())?, request.delay) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("runAt and delay are mutually exclusive"));
        }
        (Some(at), None) => submission = submission.run_at(at),
        (None, Some(delay)) => submission = submission.delay(delay.0),
        (None, None) => {}
    }
    if let Some(queue) = request.queue {
        submission = submission.queue(queue);
    }
    if let Some(priority) = request.priority {
        submission = submission.priority(priority);
    }
    if let Some(attempts) = request.max_attempts {
        submission = submission.max_attempts(attempts);
    }
    if let Some(timeout) = request.timeout {
        submission = submission.timeout(timeout.0);
    }
    for (name, value) in request.labels {
        submission = submission.label(name, value);
    }
    let RetentionRequest { completed, failed } = request.retention.unwrap_or_default();
    if let Some(retention) = completed {
        submission = submission.keep_completed(retention.0);
    }
    if let Some(retention) = failed {
        submission = submission.keep_failed(retention.0);
    }
    Ok(submission)
}

/// Adds the idempotency key, if there is one.
pub(crate) fn with_key(submission: Submission, key: Option<String>) -> Submission {
    match key {
        Some(key) => submission.key(key),
        None => submission,
    }
}
