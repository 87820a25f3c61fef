//! Submission of jobs.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderValue;

use super::call::{Call, Repeat};
use super::{Client, ClientError, Result};
use crate::wire::{BatchRequest, BatchResponse, Job, SubmitRequest};

const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// Options of a submission.
#[derive(Debug, Clone, Default)]
pub struct SubmitOptions {
    /// Idempotency key: the server accepts one job per key.
    pub idempotency_key: Option<String>,
    /// Time that the server waits for the job to finish before it responds, rounded up to whole seconds.
    pub wait: Option<Duration>,
}

impl Client {
    /// Submits a job and returns it, or the existing job with the same key in its current state.
    ///
    /// Without a response, the request is retried only if it has a key, because the first submission
    /// may have been accepted, and a second one would run the work twice.
    pub async fn submit(&self, request: &SubmitRequest, options: &SubmitOptions) -> Result<Job> {
        self.json(self.submission(options)?.body(request)?).await
    }

    /// Creates the call of a submission, without a body.
    pub(super) fn submission(&self, options: &SubmitOptions) -> Result<Call> {
        let url = self.url(&["v1", "jobs"])?;
        let repeat = if options.idempotency_key.is_some() { Repeat::Safe } else { Repeat::Never };
        let mut call = Call::new(Method::POST, url, repeat);
        if let Some(key) = &options.idempotency_key {
            call.headers.insert("idempotency-key", key_header(key)?);
        }
        if let Some(wait) = options.wait {
            let seconds = whole_seconds(wait);
            let prefer = HeaderValue::from_str(&format!("wait={seconds}"));
            let prefer = prefer.map_err(|error| ClientError::Invalid(error.to_string()))?;
            call.headers.insert("prefer", prefer);
            call.hold = Duration::from_secs(seconds);
        }
        Ok(call)
    }

    /// Submits up to 1,000 jobs and returns the results in the same order. Retried after a lost
    /// connection only if every job has a key.
    pub async fn submit_batch(&self, batch: &BatchRequest) -> Result<BatchResponse> {
        let keyed = batch.jobs.iter().all(|job| job.idempotency_key.is_some());
        let repeat = if keyed { Repeat::Safe } else { Repeat::Never };
        let url = self.url(&["v1", "jobs", "batch"])?;
        let results: BatchResponse =
            self.json(Call::new(Method::POST, url, repeat).body(batch)?).await?;
        if results.len() != batch.jobs.len() {
            let reason = format!("{} results for {} jobs", results.len(), batch.jobs.len());
            return Err(self.bad_response(reason));
        }
        Ok(results)
    }
}

/// Rounds up, because the wire format has whole seconds and 0 is no wait.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

fn key_header(key: &str) -> Result<HeaderValue> {
    let fits = (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len());
    if !fits || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ClientError::Invalid(format!(
            "{key:?} is not an idempotency key: 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII \
             characters are"
        )));
    }
    HeaderValue::from_str(key).map_err(|error| ClientError::Invalid(error.to_string()))
}
