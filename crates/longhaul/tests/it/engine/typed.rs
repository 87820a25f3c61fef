//! The typed API: arguments, handles and streams.

use futures_util::{StreamExt as _, TryStreamExt as _};
use longhaul::store::Filter;
use longhaul::testing;
use longhaul::{BuildError, Ctx, Engine, JobArgs, JobError, Kind, Status, SubmitError};
use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::still;

#[derive(Serialize, Deserialize)]
struct Double(u32);

impl JobArgs for Double {
    const KIND: &'static str = "double";
    type Output = u32;
}

async fn double(ctx: Ctx, args: Double) -> longhaul::Result<u32> {
    ctx.step_value("double", async || args.0 * 2).await
}

#[tokio::test]
async fn typed_submission_returns_a_handle_that_can_be_awaited() {
    let (builder, _) = still();
    let engine = builder.handler(double).start().await.unwrap();
    let job = engine.submit(Double(21)).key("a").await.unwrap();
    assert_eq!(job.clone().await.unwrap(), 42);
    let raw = engine.submit_raw("double", &21).key("a").await.unwrap();
    assert_eq!((raw.id(), raw.created()), (job.id(), false));
    assert_eq!(raw.result_as::<u32>().await.unwrap(), 42);
    engine.stop().await;
}

#[tokio::test]
async fn watcher_is_a_stream_that_ends_with_the_job() {
    let (builder, _) = still();
    let engine = builder.handler(double).start().await.unwrap();
    let job = engine.submit(Double(1)).await.unwrap();
    let records: Vec<_> = engine.watch(job.id(), Some(0)).try_collect().await.unwrap();
    let statuses: Vec<Status> = records.iter().map(|record| record.job.status).collect();
    assert_eq!(statuses, [Status::Pending, Status::Running, Status::Completed]);
    engine.stop().await;
}

#[tokio::test]
async fn job_stream_reads_all_pages_newest_first() {
    let (builder, _) = still();
    let engine = builder.concurrency(0).handler(double).start().await.unwrap();
    let submissions = (0..230).map(|n| engine.submit(Double(n))).collect();
    let accepted = engine.submit_all(submissions).await;
    let mut ids: Vec<_> = accepted.into_iter().map(|job| job.unwrap().id()).collect();
    ids.reverse();
    let listed: Vec<_> =
        engine.jobs(Filter::default()).map_ok(|job| job.id).try_collect().await.unwrap();
    assert_eq!(listed, ids);
    assert_eq!(engine.jobs(Filter::default()).take(3).count().await, 3);
    engine.stop().await;
}

#[tokio::test]
async fn invalid_names_are_reported_at_start_and_at_submission() {
    let kind = Kind::from_handler(double).queue("not a name");
    let error = Engine::builder().memory().register(kind).start().await.unwrap_err();
    assert!(matches!(error, BuildError::Name(_)), "{error}");
    let error = Engine::builder().memory().queue_pending_max("a b", 1).start().await.unwrap_err();
    assert!(matches!(error, BuildError::Name(_)), "{error}");
    let (builder, _) = still();
    let engine = builder.handler(double).start().await.unwrap();
    let error = engine.submit(Double(1)).queue("a b").await.unwrap_err();
    assert!(matches!(error, SubmitError::Name(_)), "{error}");
    let error = engine.submit_raw("a b", &1).await.unwrap_err();
    assert!(matches!(error, SubmitError::Name(_)), "{error}");
    engine.stop().await;
}

#[tokio::test]
async fn run_kind_skips_sleeps_and_backoff() {
    let kind = Kind::new("flaky", |ctx: Ctx, (): ()| async move {
        ctx.sleep("a month", Duration::from_hours(720)).await?;
        if ctx.attempt() < 3 { Err(JobError::retryable("again")) } else { Ok(ctx.attempt()) }
    });
    let record =
        testing::run_kind(kind, longhaul::job::Json::from_value(&()).unwrap()).await.unwrap();
    assert_eq!((record.job.status, record.job.attempt), (Status::Completed, 3));
    assert_eq!(testing::run(double, Double(4)).await.unwrap(), 8);
}
