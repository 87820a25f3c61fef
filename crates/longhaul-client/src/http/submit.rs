//! Submitting over HTTP.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderValue;

use super::call::{Call, Repeat};
use super::{Client, ClientError};
use crate::wire::{BatchRequest, BatchResponse, Job, SubmitRequest};

const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// How to submit.
#[derive(Debug, Clone, Default)]
pub struct SubmitOptions {
    /// Under this key the job is accepted once, however often it is submitted.
    pub idempotency_key: Option<String>,
    /// How long the server may hold its answer for the job to end, in whole seconds.
    pub wait: Option<Duration>,
}

impl Client {
    /// Submits a job and returns it as it stands: new, or in whatever state it has reached if its
    /// key was seen before.
    ///
    /// When no answer comes, it is sent again only if there is a key: without one, the first
    /// submission may have been accepted, and a second would run the work twice.
    pub async fn submit(
        &self,
        request: &SubmitRequest,
        options: &SubmitOptions,
    ) -> Result<Job, ClientError> {
        self.json(self.submission(options)?.body(request)?).await
    }

    /// A submission that has no body yet.
    pub(super) fn submission(&self, options: &SubmitOptions) -> Result<Call, ClientError> {
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

    /// Submits up to 1,000 jobs at once; the answers come in the same order. It is sent again after
    /// a broken connection only if every job has a key.
    pub async fn submit_batch(&self, batch: &BatchRequest) -> Result<BatchResponse, ClientError> {
        let keyed = batch.jobs.iter().all(|job| job.idempotency_key.is_some());
        let repeat = if keyed { Repeat::Safe } else { Repeat::Never };
        let url = self.url(&["v1", "jobs", "batch"])?;
        let answers: BatchResponse =
            self.json(Call::new(Method::POST, url, repeat).body(batch)?).await?;
        if answers.len() != batch.jobs.len() {
            let reason = format!("{} answers to {} jobs", answers.len(), batch.jobs.len());
            return Err(self.bad_response(reason));
        }
        Ok(answers)
    }
}

/// The wire counts whole seconds; asking for a little more is better than not waiting at all.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

fn key_header(key: &str) -> Result<HeaderValue, ClientError> {
    let fits = (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len());
    if !fits || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ClientError::Invalid(format!(
            "{key:?} is not an idempotency key: 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII \
             characters are"
        )));
    }
    HeaderValue::from_str(key).map_err(|error| ClientError::Invalid(error.to_string()))
}
