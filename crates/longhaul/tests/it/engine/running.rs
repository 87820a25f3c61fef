use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhaul::store::Filter;
use longhaul::store::PageRequest;
use longhaul::{Ctx, Engine, JobError, Kind, ResultError, Retry, Status, TenantId};

use super::{Counter, Signal, at_once, gated, still, until};

#[tokio::test]
async fn retryable_error_is_retried_until_attempts_are_used_up() {
    let runs = Counter::default();
    let (builder, _) = still();
    let kind = Kind::new("flaky", {
        let runs = runs.clone();
        move |ctx: Ctx, (): ()| {
            runs.up();
            async move { Err::<(), _>(JobError::retryable(format!("try {}", ctx.attempt()))) }
        }
    });
    let engine = builder.register(kind.retry(at_once(3))).start().await.unwrap();
    let job = engine.submit_raw("flaky", &()).await.unwrap();
    let record = job.wait().await.unwrap();
    assert_eq!((record.job.status, runs.get()), (Status::Failed, 3));
    let errors: Vec<String> =
        record.attempts().into_iter().map(|attempt| attempt.error.unwrap().message).collect();
    assert_eq!(errors, ["try 1", "try 2", "try 3"]);
    assert_eq!(record.job.error.unwrap().attempt, 3);
}

#[tokio::test]
async fn retry_waits_for_its_backoff() {
    let failed = Signal::new();
    let (builder, clock) = still();
    let kind = Kind::new("flaky", {
        let failed = failed.clone();
        move |ctx: Ctx, (): ()| {
            let failed = failed.clone();
            async move {
                if ctx.attempt() == 1 {
                    failed.send();
                    return Err(JobError::retryable("not yet"));
                }
                Ok(ctx.attempt())
            }
        }
    });
    let retry = Retry::times(2).first(Duration::from_hours(1)).max(Duration::from_hours(1));
    let engine = builder.register(kind.retry(retry)).start().await.unwrap();
    let job = engine.submit_raw("flaky", &()).await.unwrap();
    failed.wait().await;
    until(&job, Status::Pending).await;
    assert_eq!(job.record().await.unwrap().job.error.unwrap().message, "not yet");
    clock.advance(Duration::from_hours(1));
    assert_eq!(job.result_as::<u32>().await.unwrap(), 2);
}

#[tokio::test]
async fn fatal_error_is_not_retried() {
    let (builder, _) = still();
    let engine = builder
        .kind("bad", |_ctx: Ctx, (): ()| async {
            Err::<(), _>(JobError::fatal("no such file").with_code("missing"))
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("bad", &()).await.unwrap();
    let error = job.result_as::<()>().await.unwrap_err();
    assert!(matches!(&error, ResultError::Failed(error) if error.code == "missing"), "{error}");
    assert_eq!(job.record().await.unwrap().job.attempt, 1);
}

#[tokio::test]
async fn panic_becomes_an_error_of_its_job_and_of_no_other() {
    let (builder, _) = still();
    let kind = Kind::new("explode", |ctx: Ctx, (): ()| async move {
        assert!(ctx.attempt() > 1, "boom");
        Ok::<_, JobError>(())
    });
    let engine = builder
        .register(kind.retry(at_once(1)))
        .kind("fine", |_ctx: Ctx, (): ()| async { Ok::<_, JobError>(()) })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("explode", &()).await.unwrap();
    let error = job.wait().await.unwrap().job.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("panic", "the handler panicked: boom")
    );
    engine.submit_raw("fine", &()).await.unwrap().result_as::<()>().await.unwrap();
}

#[tokio::test]
async fn input_of_another_type_fails_the_job_at_once() {
    let (builder, _) = still();
    let engine = builder
        .kind("double", |_ctx: Ctx, number: u32| async move { Ok::<_, JobError>(number * 2) })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("double", "two").await.unwrap();
    let record = job.wait().await.unwrap();
    let error = record.job.error.unwrap();
    assert_eq!((error.code.as_str(), record.job.attempt), ("bad-input", 1));
    assert!(error.message.contains("expected u32"), "{error}");
}

#[tokio::test]
async fn attempt_over_its_timeout_is_dropped() {
    let began = Signal::new();
    let (builder, clock) = still();
    let kind = Kind::new("hang", {
        let began = began.clone();
        move |_ctx: Ctx, (): ()| {
            began.send();
            std::future::pending::<Result<(), JobError>>()
        }
    });
    let kind = kind.timeout(Duration::from_mins(1)).retry(at_once(1));
    // The lease is longer than the jump of the clock, so that only the timeout ends the attempt.
    let lease = (Duration::from_hours(2), Duration::from_mins(30));
    let engine = builder.lease(lease.0, lease.1).register(kind).start().await.unwrap();
    let job = engine.submit_raw("hang", &()).await.unwrap();
    began.wait().await;
    clock.advance(Duration::from_mins(1));
    let error = job.wait().await.unwrap().job.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("timeout", "the attempt took longer than 60s")
    );
}

#[tokio::test]
async fn kind_concurrency_is_not_exceeded() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (builder, _) = still();
    let kind = Kind::new("narrow", {
        let (running, most) = (running.clone(), most.clone());
        move |_ctx: Ctx, (): ()| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, JobError>(())
            }
        }
    });
    let engine = builder.concurrency(50).register(kind.concurrency(2)).start().await.unwrap();
    let batch = (0..40).map(|_| engine.submit_raw("narrow", &())).collect();
    for job in engine.submit_all(batch).await {
        job.unwrap().result_as::<()>().await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn kind_at_its_limit_does_not_delay_another() {
    let (began, go) = (Signal::new(), Signal::new());
    let (builder, _) = still();
    let engine = builder
        .register(gated("slow", &began, &go).concurrency(1))
        .kind("fast", |_ctx: Ctx, (): ()| async { Ok::<_, JobError>(()) })
        .start()
        .await
        .unwrap();
    let slow: Vec<_> =
        engine.submit_all((0..5).map(|_| engine.submit_raw("slow", &())).collect()).await;
    began.wait().await;
    engine.submit_raw("fast", &()).await.unwrap().result_as::<()>().await.unwrap();
    for job in slow {
        go.send();
        job.unwrap().result_as::<String>().await.unwrap();
    }
}

#[tokio::test]
async fn one_tenants_flood_does_not_delay_another() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (builder, _) = still();
    let engine = builder
        .concurrency(1)
        .kind("note", {
            let order = order.clone();
            move |ctx: Ctx, (): ()| {
                order.lock().unwrap().push(ctx.job().tenant.to_string());
                async { Ok::<_, JobError>(()) }
            }
        })
        .start()
        .await
        .unwrap();
    let queue = longhaul::job::Name::default_queue();
    let other = engine.for_tenant(TenantId::new("other").unwrap());
    engine.pause_queue(&queue).await.unwrap();
    other.pause_queue(&queue).await.unwrap();
    let flood = engine.submit_all((0..200).map(|_| engine.submit_raw("note", &())).collect()).await;
    let one = other.submit_raw("note", &()).await.unwrap();
    engine.resume_queue(&queue).await.unwrap();
    other.resume_queue(&queue).await.unwrap();
    one.result_as::<()>().await.unwrap();
    for job in flood {
        job.unwrap().result_as::<()>().await.unwrap();
    }
    let place = order.lock().unwrap().iter().position(|tenant| tenant == "other").unwrap();
    // Jobs of the first tenant may run between the two resumes; then the other tenant is next.
    assert!(place < 100, "ran as number {place}");
}

#[tokio::test]
async fn progress_and_phase_are_seen_while_the_job_runs() {
    let go = Signal::new();
    let (builder, _) = still();
    let engine = builder
        .kind("render", {
            let go = go.clone();
            move |ctx: Ctx, (): ()| {
                let go = go.clone();
                async move {
                    ctx.phase("loading").await?;
                    ctx.progress_with(3, 10, "src/lib.rs");
                    go.wait().await;
                    ctx.phase("drawing").await?;
                    ctx.progress(10, 10);
                    Ok::<_, JobError>(())
                }
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("render", &()).await.unwrap();
    let mut watcher = job.watch();
    let mut phases = Vec::new();
    while let Some(record) = watcher.next().await {
        let job = record.unwrap().job;
        if job.progress.as_ref().is_some_and(|progress| progress.done == 3) && phases.len() == 1 {
            assert_eq!(job.progress.unwrap().message.as_deref(), Some("src/lib.rs"));
            go.send();
        }
        if job.phase.is_some() && phases.last() != Some(&job.phase) {
            phases.push(job.phase);
        }
    }
    assert_eq!(phases, [Some("loading".to_owned()), Some("drawing".to_owned())]);
    assert_eq!(job.record().await.unwrap().job.progress.unwrap().done, 10);
}

/// Leases are renewed on a dedicated thread: handlers that block every thread of the runtime for
/// several lease durations lose none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starved_runtime_keeps_its_leases() {
    let lease = Duration::from_millis(400);
    let kind = Kind::new("hog", move |ctx: Ctx, (): ()| async move {
        let began = Instant::now();
        while began.elapsed() < lease * 3 {
            std::hint::spin_loop();
        }
        Ok::<_, JobError>(ctx.attempt())
    });
    let engine = Engine::builder()
        .lease(lease, Duration::from_millis(50))
        .rescue_interval(Duration::from_millis(50))
        .register(kind)
        .start()
        .await
        .unwrap();
    let jobs = engine.submit_all((0..2).map(|_| engine.submit_raw("hog", &())).collect()).await;
    for job in jobs {
        assert_eq!(job.unwrap().result_as::<u32>().await.unwrap(), 1);
    }
}

#[tokio::test]
async fn finished_jobs_are_deleted_when_their_retention_ends() {
    let (builder, clock) = still();
    let engine = builder
        .kind("quick", |_ctx: Ctx, (): ()| async { Ok::<_, JobError>(()) })
        .start()
        .await
        .unwrap();
    let kept =
        engine.submit_raw("quick", &()).keep_completed(Duration::from_hours(100)).await.unwrap();
    let dropped = engine.submit_raw("quick", &()).await.unwrap();
    kept.result_as::<()>().await.unwrap();
    dropped.result_as::<()>().await.unwrap();
    let page = PageRequest::new(10, None);
    assert_eq!(engine.jobs_page(&Filter::default(), &page).await.unwrap().jobs.len(), 2);
    clock.advance(Duration::from_hours(25));
    while engine.jobs_page(&Filter::default(), &page).await.unwrap().jobs.len() > 1 {
        tokio::task::yield_now().await;
    }
    assert!(kept.record().await.is_ok());
    assert_eq!(dropped.record().await, Err(longhaul::store::StoreError::Gone));
}
