//! One attempt: from the job's input to the target's answer.

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
use super::{CODE_ERROR_STATUS, CODE_TIMEOUT, CODE_UNREACHABLE, HttpConfig};
use longhaul_net::circuit_breaker::Permit;
use longhaul_net::egress::{RetryAfter, SendError};

/// The longest that a target may put its next attempt off.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Sends the job's request and waits for the answer.
pub(super) async fn run(config: Arc<HttpConfig>, ctx: Ctx, input: Json) -> Result<Json, JobError> {
    // What earlier attempts were told: asked for, because a job asks for all that it stored.
    let told = ctx.finished_steps().len();
    for place in 1..=told {
        let _: StoredResponse = ctx.step(step_name(place), || async { Err(not_stored()) }).await?;
    }
    let call = HttpCall::of(&input)?;
    // Of caller_urls' own targets nothing is known: there are as many as caller_urls like.
    let pass = if call.url.is_none() {
        match config.breaker.acquire(config.clock.now().into()) {
            Ok(pass) => Some(pass),
            Err(wait) => {
                // Spread: of all that wait only one may try.
                let delay = wait.mul_f64(1.0 + rand::random::<f64>());
                return Err(ctx.snooze(delay).await);
            }
        }
    } else {
        None
    };
    let outgoing = PreparedRequest::of(&config, &ctx, call).await?;
    let method = outgoing.method.clone();
    let exchange = async {
        let response = outgoing.send(&config).await.map_err(ExchangeError::Sending)?;
        let incoming = IncomingResponse::new(response, &method);
        match config.class(incoming.status) {
            StatusClass::Completed => Ok(Exchange::Done(incoming.whole(&ctx).await?)),
            class @ (StatusClass::Again | StatusClass::Refused) => {
                let asked = RetryAfter::from_headers(&incoming.headers);
                let status = incoming.status;
                Ok(Exchange::Failed { class, status, asked, answer: incoming.cut().await? })
            }
        }
    };
    let patience = ctx.job().timeout.unwrap_or(config.timeout);
    let said = tokio::select! {
        biased;
        said = exchange => said,
        () = ctx.cancelled() => {
            return Err(JobError::fatal("the job was asked to stop").with_code("cancelled"));
        }
        () = config.clock.sleep(patience) => Err(ExchangeError::Sending(SendError::TimedOut)),
    };
    config.note(pass.as_ref(), &said);
    // Its place is free before the store is told.
    drop(pass);
    match said {
        Ok(Exchange::Done(answer)) => Ok(Json::from_value(&answer)?),
        Ok(Exchange::Failed { class, status, asked, answer }) => {
            remember(&ctx, told + 1, answer).await?;
            Err(config.answered(class, status, asked))
        }
        Err(ExchangeError::Sending(error)) => Err(config.unanswered(&error)),
        Err(ExchangeError::Storing(error)) => Err(error),
    }
}

/// What a status means for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusClass {
    Completed,
    /// Failed, and worth another attempt.
    Again,
    /// Failed, and every other attempt would.
    Refused,
}

/// What the target said.
enum Exchange {
    Done(StoredResponse),
    Failed {
        class: StatusClass,
        status: StatusCode,
        asked: Option<RetryAfter>,
        answer: StoredResponse,
    },
}

impl HttpConfig {
    fn class(&self, status: StatusCode) -> StatusClass {
        if self.retry_on.covers(FailureClass::Answered(status)) {
            StatusClass::Again
        } else if status.is_success() || status.is_redirection() {
            StatusClass::Completed
        } else {
            StatusClass::Refused
        }
    }

    /// Tells the breaker. Whoever is told to wait, or asked for what cannot be, met a target that is well.
    fn note(&self, pass: Option<&Permit>, said: &Result<Exchange, ExchangeError>) {
        let Some(pass) = pass else { return };
        let is_down = match said {
            Ok(Exchange::Failed { status, .. }) => status.is_server_error(),
            Ok(Exchange::Done(_)) => false,
            Err(ExchangeError::Sending(_)) => true,
            // Says nothing of the target.
            Err(ExchangeError::Storing(_)) => return,
        };
        if !is_down {
            return pass.success();
        }
        if let Some(alone) = pass.failure(self.clock.now().into()) {
            let (kind, seconds) = (&self.name, alone.as_secs());
            tracing::warn!(job.kind = %kind, seconds, "the target keeps failing and is left alone");
        }
    }

    fn answered(
        &self,
        class: StatusClass,
        status: StatusCode,
        asked: Option<RetryAfter>,
    ) -> JobError {
        let message = format!("the target answered {status}");
        match (class, asked) {
            (StatusClass::Again, Some(asked)) => {
                let pause = asked.delay(self.clock.now().into()).min(RETRY_AFTER_MAX);
                JobError::retryable(message).retry_in(pause)
            }
            (StatusClass::Again, None) => JobError::retryable(message),
            (StatusClass::Completed | StatusClass::Refused, _) => JobError::fatal(message),
        }
        .with_code(CODE_ERROR_STATUS)
    }

    fn unanswered(&self, error: &SendError) -> JobError {
        let (trouble, code) = match error {
            SendError::Denied(_) => {
                return JobError::fatal(format!("the url may not be reached: {error}"))
                    .with_code("url-refused");
            }
            SendError::Unresolved(_) | SendError::Unreachable(_) | SendError::Tls(_) => {
                (FailureClass::Connect, CODE_UNREACHABLE)
            }
            SendError::TimedOut => (FailureClass::Timeout, CODE_TIMEOUT),
            SendError::Reset | SendError::Protocol(_) => (FailureClass::Reset, CODE_UNREACHABLE),
        };
        let message = format!("the target gave no answer: {error}");
        let again = self.retry_on.covers(trouble);
        if again { JobError::retryable(message) } else { JobError::fatal(message) }.with_code(code)
    }
}

/// Keeps what the target said to an attempt that failed.
async fn remember(ctx: &Ctx, place: usize, answer: StoredResponse) -> Result<(), JobError> {
    let _: StoredResponse = ctx
        .step(step_name(place), || {
            let answer = answer.clone();
            async { Ok::<_, JobError>(answer) }
        })
        .await?;
    Ok(())
}

fn step_name(place: usize) -> String {
    format!("{} {place}", super::RESPONSE_STEP)
}

/// A step that is stored is never run.
fn not_stored() -> JobError {
    JobError::fatal("an answer that was stored is not there")
}
