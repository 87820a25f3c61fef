//! Helpers for testing handlers.

use crate::clock::Clock;
use crate::engine::{Engine, JobArgs, Kind, ResultError, result_of};
use crate::job::{Json, Record, Status, Timestamp};
use crate::{Ctx, JobError};

/// Runs one handler with its arguments in a fresh in-memory engine and returns its result.
///
/// Retries, steps and [`Ctx::sleep`](crate::Ctx::sleep) work as in production, but no test waits:
/// the engine has a manual clock, which jumps to the next attempt whenever the job is pending. A
/// timeout therefore never fires.
///
/// ```
/// use std::time::Duration;
///
/// use longhaul::{Ctx, JobArgs};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Remind(String);
///
/// impl JobArgs for Remind {
///     const KIND: &'static str = "remind";
///     type Output = String;
/// }
///
/// async fn remind(ctx: Ctx, args: Remind) -> longhaul::Result<String> {
///     ctx.sleep("a day", Duration::from_hours(24)).await?;
///     Ok(format!("do not forget {}", args.0))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let text = longhaul::testing::run(remind, Remind("the milk".to_owned())).await.unwrap();
/// assert_eq!(text, "do not forget the milk");
/// # }
/// ```
pub async fn run<A, F, Fut>(handler: F, args: A) -> Result<A::Output, ResultError>
where
    A: JobArgs,
    F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<A::Output, JobError>> + Send + 'static,
{
    result_of(run_kind(Kind::from_handler(handler), Json::from_value(&args)?).await?)
}

/// Runs one job of a kind with this input and returns its final record, with its history.
///
/// Like [`run`], for kinds with their own settings or without a [`JobArgs`] type.
pub async fn run_kind(kind: Kind, input: Json) -> Result<Record, ResultError> {
    let failed = |error: String| ResultError::Failed(JobError::fatal(error));
    let name = kind.name().to_owned();
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let engine = Engine::builder().memory().clock(clock.clone()).register(kind).start().await;
    let engine = engine.map_err(|error| failed(error.to_string()))?;
    let job = engine.submit_raw(&name, &input).await.map_err(|error| failed(error.to_string()))?;
    let mut watcher = job.watch();
    while let Some(record) = watcher.next().await {
        let job = record?.job;
        if job.status == Status::Pending {
            clock.advance(job.run_at.since(clock.now()));
        }
    }
    let record = job.record().await?;
    engine.stop().await;
    Ok(record)
}
