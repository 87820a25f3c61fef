use std::time::Duration;

use longhaul::{Ctx, JobError, ResultError, Status};

use super::{Counter, Signal, gated, still};

#[tokio::test]
async fn cancelled_job_starts_no_further_step() {
    let began = Signal::new();
    let second = Counter::default();
    let (builder, _) = still();
    let engine = builder
        .kind("long", {
            let (began, second) = (began.clone(), second.clone());
            move |ctx: Ctx, (): ()| {
                let (began, second) = (began.clone(), second.clone());
                async move {
                    let first = ctx
                        .step("first", || {
                            began.send();
                            std::future::pending::<Result<(), JobError>>()
                        })
                        .await;
                    assert_eq!(first.unwrap_err().code, "cancelled");
                    // A handler that ignores cancellation cannot run another step.
                    ctx.step("second", || async { Ok::<_, JobError>(second.up()) }).await
                }
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("long", &()).await.unwrap();
    began.wait().await;
    let asked = job.cancel().await.unwrap();
    assert_eq!((asked.status, asked.phase.as_deref()), (Status::Running, Some("cancelling")));
    assert!(matches!(job.result_as::<usize>().await, Err(ResultError::Cancelled)));
    assert_eq!(second.get(), 0);
    assert_eq!(job.cancel().await.unwrap(), job.record().await.unwrap().job);
}

#[tokio::test]
async fn cancelled_job_stores_no_further_sleep() {
    let began = Signal::new();
    let (builder, _) = still();
    let engine = builder
        .kind("naps", {
            let began = began.clone();
            move |ctx: Ctx, (): ()| {
                let began = began.clone();
                async move {
                    began.send();
                    ctx.cancelled().await;
                    let slept = ctx.sleep("nap", Duration::from_hours(1)).await;
                    assert_eq!(slept.unwrap_err().code, "cancelled");
                    Err::<(), _>(JobError::retryable("stopped"))
                }
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("naps", &()).await.unwrap();
    began.wait().await;
    job.cancel().await.unwrap();
    assert!(matches!(job.result_as::<()>().await, Err(ResultError::Cancelled)));
    assert!(engine.steps(job.id()).await.unwrap().is_empty());
}

#[tokio::test]
async fn handler_that_ignores_cancellation_is_dropped_after_the_grace_period() {
    let began = Signal::new();
    let (builder, clock) = still();
    let engine = builder
        .cancel_grace(Duration::from_secs(3))
        .kind("deaf", {
            let began = began.clone();
            move |ctx: Ctx, (): ()| {
                let began = began.clone();
                async move {
                    began.send();
                    ctx.cancelled().await;
                    began.send();
                    std::future::pending::<Result<(), JobError>>().await
                }
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("deaf", &()).await.unwrap();
    began.wait().await;
    job.cancel().await.unwrap();
    began.wait().await;
    clock.advance(Duration::from_secs(3));
    assert!(matches!(job.result_as::<()>().await, Err(ResultError::Cancelled)));
}

#[tokio::test]
async fn result_wins_over_a_late_cancellation() {
    let (began, go) = (Signal::new(), Signal::new());
    let (builder, _) = still();
    let engine = builder.register(gated("almost", &began, &go)).start().await.unwrap();
    let job = engine.submit_raw("almost", &()).await.unwrap();
    began.wait().await;
    job.cancel().await.unwrap();
    go.send();
    assert_eq!(job.result_as::<String>().await.unwrap(), "done");
}

#[tokio::test]
async fn pending_job_is_cancelled_at_once_and_can_be_resumed() {
    let (builder, _) = still();
    let engine = builder
        .kind("later", |_ctx: Ctx, (): ()| async { Ok::<_, JobError>("ran") })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("later", &()).delay(Duration::from_mins(1)).await.unwrap();
    assert_eq!(job.cancel().await.unwrap().status, Status::Cancelled);
    assert!(matches!(job.result_as::<()>().await, Err(ResultError::Cancelled)));
    engine.resume(job.id()).await.unwrap();
    assert_eq!(job.result_as::<String>().await.unwrap(), "ran");
}
