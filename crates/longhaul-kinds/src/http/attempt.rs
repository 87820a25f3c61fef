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
use crate::unless_cancelled;
use longhaul_net::circuit_breaker::Permit;
use longhaul_net::egress::{RetryAfter, SendError};

/// Longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Sends the request of the job and stores the response.
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
        match kind.class(incoming.status) {
            StatusClass::Completed => Ok(Exchange::Completed(incoming.store(&ctx).await?)),
            class @ (StatusClass::Retryable | StatusClass::Fatal) => {
                let retry_after = RetryAfter::from_headers(&incoming.headers);
                let status = incoming.status;
                let response = incoming.truncated().await?;
                Ok(Exchange::Failed { class, status, retry_after, response })
            }
        }
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
        Ok(Exchange::Failed { class, status, retry_after, response }) => {
            let store = || async { Ok::<_, JobError>(response.clone()) };
            ctx.step(step_name(stored + 1), store).await?;
            Err(kind.error_status(class, status, retry_after))
        }
        Err(ExchangeError::Send(error)) => Err(kind.no_response(&error)),
        Err(ExchangeError::Store(error)) => Err(error),
    }
}

/// Effect of a status on the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusClass {
    Completed,
    Retryable,
    Fatal,
}

/// Response of the target.
enum Exchange {
    Completed(StoredResponse),
    Failed {
        class: StatusClass,
        status: StatusCode,
        retry_after: Option<RetryAfter>,
        response: StoredResponse,
    },
}

impl HttpKind {
    fn class(&self, status: StatusCode) -> StatusClass {
        if self.retry_on.covers(FailureClass::Status(status)) {
            StatusClass::Retryable
        } else if status.is_success() || status.is_redirection() {
            StatusClass::Completed
        } else {
            StatusClass::Fatal
        }
    }

    /// Reports the outcome to the breaker. Client errors and 429 count as success, because the target works.
    fn report(&self, permit: Option<&Permit>, outcome: &Result<Exchange, ExchangeError>) {
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
        class: StatusClass,
        status: StatusCode,
        retry_after: Option<RetryAfter>,
    ) -> JobError {
        let message = format!("the target responded with {status}");
        match (class, retry_after) {
            (StatusClass::Retryable, Some(retry_after)) => {
                let delay = retry_after.delay(self.clock.now().into()).min(RETRY_AFTER_MAX);
                JobError::retryable(message).retry_in(delay)
            }
            (StatusClass::Retryable, None) => JobError::retryable(message),
            (StatusClass::Completed | StatusClass::Fatal, _) => JobError::fatal(message),
        }
        .with_code(CODE_ERROR_STATUS)
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
        let retry = self.retry_on.covers(failure);
        if retry { JobError::retryable(message) } else { JobError::fatal(message) }.with_code(code)
    }
}

fn step_name(number: usize) -> String {
    format!("{} {number}", super::RESPONSE_STEP)
}
