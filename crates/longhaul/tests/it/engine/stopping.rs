use std::path::Path;
use std::time::Duration;

use longhaul::{Ctx, Engine, EngineBuilder, JobError, Kind, Status};

use super::{Counter, Signal, ended, gated, still};

#[tokio::test]
async fn stop_lets_running_jobs_finish() {
    let (began, go) = (Signal::new(), Signal::new());
    let (builder, _) = still();
    let engine = builder.register(gated("slow", &began, &go)).start().await.unwrap();
    let job = engine.submit_raw("slow", &()).await.unwrap();
    began.wait().await;
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop().await }
    });
    go.send();
    stopping.await.unwrap();
    assert_eq!(job.record().await.unwrap().job.status, Status::Completed);
    let late = engine.submit_raw("slow", &()).await.unwrap();
    assert_eq!(late.record().await.unwrap().job.status, Status::Pending);
}

#[tokio::test]
async fn job_that_outlasts_the_stop_grace_is_released_uncharged() {
    let began = Signal::new();
    let (builder, clock) = still();
    let engine = builder
        .stop_grace(Duration::from_secs(20))
        // The lease is longer than the jumps of the clock.
        .lease(Duration::from_hours(200), Duration::from_hours(1))
        .kind("endless", {
            let began = began.clone();
            move |_ctx: Ctx, (): ()| {
                began.send();
                std::future::pending::<Result<(), JobError>>()
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("endless", &()).await.unwrap();
    began.wait().await;
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop().await }
    });
    while !stopping.is_finished() {
        clock.advance(Duration::from_secs(20));
        tokio::task::yield_now().await;
    }
    let record = job.record().await.unwrap();
    assert_eq!((record.job.status, record.job.attempt), (Status::Pending, 1));
}

fn two_steps(path: &Path, began: &Signal, go: &Signal, ran: &Counter) -> EngineBuilder {
    let (began, go, ran) = (began.clone(), go.clone(), ran.clone());
    Engine::builder().sqlite(path).register(Kind::new("two", move |ctx: Ctx, (): ()| {
        let (began, go, ran) = (began.clone(), go.clone(), ran.clone());
        async move {
            ctx.step("one", || async {
                ran.up();
                began.send();
                go.wait().await;
                Ok::<_, JobError>(())
            })
            .await?;
            ctx.step("two", || async { Ok::<_, JobError>(ctx.attempt()) }).await
        }
    }))
}

#[tokio::test]
async fn stopping_replica_releases_a_job_between_two_steps_and_it_continues_after_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let (began, go, ran) = (Signal::new(), Signal::new(), Counter::default());
    let engine = two_steps(&path, &began, &go, &ran).start().await.unwrap();
    let job = engine.submit_raw("two", &()).await.unwrap();
    let id = job.id();
    began.wait().await;
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop().await }
    });
    while engine.submit_raw("two", &()).delay(Duration::from_hours(1)).await.is_err() {}
    go.send();
    stopping.await.unwrap();
    drop((engine, job));

    let engine = two_steps(&path, &began, &go, &ran).start().await.unwrap();
    let record = ended(&engine, id).await;
    assert_eq!((record.job.status, record.result.unwrap().as_str()), (Status::Completed, "1"));
    assert_eq!(ran.get(), 1);
}
