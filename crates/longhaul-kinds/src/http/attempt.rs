//! One attempt: from the job's input to the target's answer.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use longhaul::job::Json;
use longhaul::{Ctx, JobError};

use super::answer::Answer;
use super::call::Call;
use super::outgoing::Outgoing;
use super::receive::{Incoming, Lost};
use super::retry_on::Trouble;
use super::{ANSWERED, Setup, TIMED_OUT, UNREACHABLE};
use longhaul_net::circuit_breaker::Permit;
use longhaul_net::egress::{RetryAfter, SendError};

/// The longest that a target may put its next attempt off.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Sends the job's request and waits for the answer.
pub(super) async fn run(setup: Arc<Setup>, ctx: Ctx, input: Json) -> Result<Json, JobError> {
    // What earlier attempts were told: asked for, because a job asks for all that it stored.
    let told = ctx.finished_steps().len();
    for place in 1..=told {
        let _: Answer = ctx.step(step_name(place), || async { Err(not_stored()) }).await?;
    }
    let call = Call::of(&input)?;
    // Of callers' own targets nothing is known: there are as many as callers like.
    let pass = if call.url.is_none() {
        match setup.breaker.acquire(setup.clock.now().into()) {
            Ok(pass) => Some(pass),
            Err(wait) => {
                // Spread: of all that wait only one may try.
                let delay = wait.mul_f64(1.0 + rand::random::<f64>());
                return Err(ctx.put_off(delay).await);
            }
        }
    } else {
        None
    };
    let outgoing = Outgoing::of(&setup, &ctx, call).await?;
    let method = outgoing.method.clone();
    let exchange = async {
        let response = outgoing.send(&setup).await.map_err(Lost::Sending)?;
        let incoming = Incoming::new(response, &method);
        match setup.verdict(incoming.status) {
            Verdict::Completed => Ok(Said::Done(incoming.whole(&ctx).await?)),
            verdict @ (Verdict::Again | Verdict::Refused) => {
                let asked = RetryAfter::from_headers(&incoming.headers);
                let status = incoming.status;
                Ok(Said::Failed { verdict, status, asked, answer: incoming.cut().await? })
            }
        }
    };
    let patience = ctx.job().timeout.unwrap_or(setup.timeout);
    let said = tokio::select! {
        biased;
        said = exchange => said,
        () = ctx.cancelled() => {
            return Err(JobError::fatal("the job was asked to stop").with_code("cancelled"));
        }
        () = setup.clock.sleep(patience) => Err(Lost::Sending(SendError::TimedOut)),
    };
    setup.note(pass.as_ref(), &said);
    // Its place is free before the store is told.
    drop(pass);
    match said {
        Ok(Said::Done(answer)) => Ok(Json::from_value(&answer)?),
        Ok(Said::Failed { verdict, status, asked, answer }) => {
            remember(&ctx, told + 1, answer).await?;
            Err(setup.answered(verdict, status, asked))
        }
        Err(Lost::Sending(error)) => Err(setup.unanswered(&error)),
        Err(Lost::Storing(error)) => Err(error),
    }
}

/// What a status means for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Completed,
    /// Failed, and worth another attempt.
    Again,
    /// Failed, and every other attempt would.
    Refused,
}

/// What the target said.
enum Said {
    Done(Answer),
    Failed { verdict: Verdict, status: StatusCode, asked: Option<RetryAfter>, answer: Answer },
}

impl Setup {
    fn verdict(&self, status: StatusCode) -> Verdict {
        if self.retry_on.covers(Trouble::Answered(status)) {
            Verdict::Again
        } else if status.is_success() || status.is_redirection() {
            Verdict::Completed
        } else {
            Verdict::Refused
        }
    }

    /// Tells the breaker. Whoever is told to wait, or asked for what cannot be, met a target that is well.
    fn note(&self, pass: Option<&Permit>, said: &Result<Said, Lost>) {
        let Some(pass) = pass else { return };
        let is_down = match said {
            Ok(Said::Failed { status, .. }) => status.is_server_error(),
            Ok(Said::Done(_)) => false,
            Err(Lost::Sending(_)) => true,
            // Says nothing of the target.
            Err(Lost::Storing(_)) => return,
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
        verdict: Verdict,
        status: StatusCode,
        asked: Option<RetryAfter>,
    ) -> JobError {
        let message = format!("the target answered {status}");
        match (verdict, asked) {
            (Verdict::Again, Some(asked)) => {
                let pause = asked.delay(self.clock.now().into()).min(RETRY_AFTER_MAX);
                JobError::retryable(message).retry_in(pause)
            }
            (Verdict::Again, None) => JobError::retryable(message),
            (Verdict::Completed | Verdict::Refused, _) => JobError::fatal(message),
        }
        .with_code(ANSWERED)
    }

    fn unanswered(&self, error: &SendError) -> JobError {
        let (trouble, code) = match error {
            SendError::Denied(_) => {
                return JobError::fatal(format!("the url may not be reached: {error}"))
                    .with_code("url-refused");
            }
            SendError::Unresolved(_) | SendError::Unreachable(_) | SendError::Tls(_) => {
                (Trouble::Connect, UNREACHABLE)
            }
            SendError::TimedOut => (Trouble::Timeout, TIMED_OUT),
            SendError::Reset | SendError::Protocol(_) => (Trouble::Reset, UNREACHABLE),
        };
        let message = format!("the target gave no answer: {error}");
        let again = self.retry_on.covers(trouble);
        if again { JobError::retryable(message) } else { JobError::fatal(message) }.with_code(code)
    }
}

/// Keeps what the target said to an attempt that failed.
async fn remember(ctx: &Ctx, place: usize, answer: Answer) -> Result<(), JobError> {
    let _: Answer = ctx
        .step(step_name(place), || {
            let answer = answer.clone();
            async { Ok::<_, JobError>(answer) }
        })
        .await?;
    Ok(())
}

fn step_name(place: usize) -> String {
    format!("{} {place}", super::STEP)
}

/// A step that is stored is never run.
fn not_stored() -> JobError {
    JobError::fatal("an answer that was stored is not there")
}
