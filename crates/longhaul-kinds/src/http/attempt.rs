//! One attempt of an HTTP job.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use longhaul::job::Json;
use longhaul::{Ctx, JobError};

use super::call::HttpCall;
use super::request::PreparedRequest;
use super::response::StoredResponse;
use super::response_body::{ExchangeError, IncomingResponse};
use super::retry_on::FailureClass;
use super::{CODE_ERROR_STATUS, CODE_TIMEOUT, CODE_UNREACHABLE, HttpKind};
use crate::{job_error, unless_cancelled};
use longhaul_net::circuit_breaker::BreakerPermit;
use longhaul_net::egress::{RetryAfter, SendError};

/// Longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

pub(super) async fn run(kind: Arc<HttpKind>, ctx: Ctx, input: Json) -> Result<Json, JobError> {
    // Replays the responses of earlier attempts, because a job must request every step that it stored.
    let stored = ctx.finished_steps().len();
    for number in 1..=stored {
        let missing = || async { Err(JobError::fatal("a stored response is missing")) };
        let _: StoredResponse = ctx.step(step_name(number), missing).await?;
    }
    let call = HttpCall::of(&input)?;
    // No breaker for caller URLs, because there may be any number of them.
    let permit = if call.url.is_none() {
        match kind.breaker.acquire(kind.clock.now().into()) {
            Ok(permit) => Some(permit),
            Err(wait) => {
                // Jitter, because only one waiting job may probe.
                let delay = wait.mul_f64(1.0 + rand::random::<f64>());
                return Err(ctx.snooze(delay).await);
            }
        }
    } else {
        None
    };
    let outgoing = PreparedRequest::build(&kind, &ctx, call).await?;
    let method = outgoing.method.clone();
    let exchange = async {
        let response = outgoing.send(&kind).await.map_err(ExchangeError::Send)?;
        let incoming = IncomingResponse::new(response, &method);
        let status = incoming.status;
        let is_retryable = kind.retry_on.covers(FailureClass::Status(status));
        if !is_retryable && (status.is_success() || status.is_redirection()) {
            return Ok(Exchange::Completed(incoming.store(&ctx).await?));
        }
        let retry_after = RetryAfter::from_headers(&incoming.headers);
        let error = kind.error_status(status, is_retryable, retry_after);
        Ok(Exchange::Failed { status, error, response: incoming.truncated().await? })
    };
    let timeout = ctx.job().timeout.unwrap_or(kind.timeout);
    let outcome = tokio::select! {
        biased;
        outcome = unless_cancelled(&ctx, exchange) => outcome?,
        () = kind.clock.sleep(timeout) => Err(ExchangeError::Send(SendError::TimedOut)),
    };
    kind.report(permit.as_ref(), &outcome);
    // Released before the store is called.
    drop(permit);
    match outcome {
        Ok(Exchange::Completed(response)) => Ok(Json::from_value(&response)?),
        Ok(Exchange::Failed { error, response, .. }) => {
            let store = || async { Ok::<_, JobError>(response.clone()) };
            ctx.step(step_name(stored + 1), store).await?;
            Err(error)
        }
        Err(ExchangeError::Send(error)) => Err(kind.no_response(&error)),
        Err(ExchangeError::Store(error)) => Err(error),
    }
}

enum Exchange {
    Completed(StoredResponse),
    Failed { status: StatusCode, error: JobError, response: StoredResponse },
}

impl HttpKind {
    /// Reports the outcome to the breaker. Client errors and 429 count as success, because the target works.
    fn report(&self, permit: Option<&BreakerPermit>, outcome: &Result<Exchange, ExchangeError>) {
        let Some(permit) = permit else { return };
        let is_down = match outcome {
            Ok(Exchange::Failed { status, .. }) => status.is_server_error(),
            Ok(Exchange::Completed(_)) => false,
            Err(ExchangeError::Send(_)) => true,
            // Not a failure of the target.
            Err(ExchangeError::Store(_)) => return,
        };
        if !is_down {
            return permit.success();
        }
        if let Some(open) = permit.failure(self.clock.now().into()) {
            let (kind, seconds) = (&self.name, open.as_secs());
            tracing::warn!(job.kind = %kind, seconds, "circuit breaker opened: the target keeps failing");
        }
    }

    fn error_status(
        &self,
        status: StatusCode,
        is_retryable: bool,
        retry_after: Option<RetryAfter>,
    ) -> JobError {
        let message = format!("the target responded with {status}");
        let mut error = job_error(is_retryable, message, CODE_ERROR_STATUS);
        let delay = retry_after.map(|retry_after| retry_after.delay(self.clock.now().into()));
        error.retry_in = delay.filter(|_| is_retryable).map(|delay| delay.min(RETRY_AFTER_MAX));
        error
    }

    fn no_response(&self, error: &SendError) -> JobError {
        let (failure, code) = match error {
            SendError::Denied(_) => {
                return JobError::fatal(format!("the URL is not allowed: {error}"))
                    .with_code("url-refused");
            }
            SendError::Unresolved(_) | SendError::Unreachable(_) | SendError::Tls(_) => {
                (FailureClass::Connect, CODE_UNREACHABLE)
            }
            SendError::TimedOut => (FailureClass::Timeout, CODE_TIMEOUT),
            SendError::Reset | SendError::Protocol(_) => (FailureClass::Reset, CODE_UNREACHABLE),
        };
        let message = format!("the target did not respond: {error}");
        job_error(self.retry_on.covers(failure), message, code)
    }
}

fn step_name(number: usize) -> String {
    format!("{} {number}", super::RESPONSE_STEP)
}
