use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::{Ctx, Engine, JobError, Kind, Retry, Status};

use super::{Counter, Signal, at_once, ended, still, until};

const LEASE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn finished_steps_are_not_repeated() {
    let (fetched, indexed) = (Counter::default(), Counter::default());
    let (builder, _) = still();
    let kind = Kind::new("pipeline", {
        let (fetched, indexed) = (fetched.clone(), indexed.clone());
        move |ctx: Ctx, (): ()| {
            let (fetched, indexed) = (fetched.clone(), indexed.clone());
            async move {
                let page = ctx
                    .step("fetch", || async {
                        fetched.up();
                        Ok::<_, JobError>("a page".to_owned())
                    })
                    .await?;
                ctx.step("index", || async {
                    if indexed.up() == 1 {
                        Err(JobError::retryable("line cut"))
                    } else {
                        Ok(page.len())
                    }
                })
                .await
            }
        }
    });
    let engine = builder.register(kind.retry(at_once(3))).start().await.unwrap();
    let job = engine.submit_raw("pipeline", &()).await.unwrap();
    assert_eq!(job.result_as::<usize>().await.unwrap(), 6);
    assert_eq!((fetched.get(), indexed.get()), (1, 2));
    let steps = engine.steps(job.id()).await.unwrap();
    let seen: Vec<_> = steps.iter().map(|step| (step.name.as_str(), step.attempt)).collect();
    assert_eq!(seen, [("fetch", 1), ("index", 2)]);
}

#[tokio::test]
async fn step_is_retried_inside_its_attempt() {
    let tries = Counter::default();
    let (builder, _) = still();
    let engine = builder
        .kind("fetch", {
            let tries = tries.clone();
            move |ctx: Ctx, (): ()| {
                let tries = tries.clone();
                async move {
                    let body = || async {
                        if tries.up() < 3 {
                            Err(JobError::retryable("busy"))
                        } else {
                            Ok(ctx.attempt())
                        }
                    };
                    ctx.step("get", body).retry(at_once(5)).await
                }
            }
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("fetch", &()).await.unwrap();
    assert_eq!(job.result_as::<u32>().await.unwrap(), 1);
    assert_eq!(tries.get(), 3);
}

#[tokio::test]
async fn step_over_its_timeout_is_dropped() {
    let began = Signal::new();
    let (builder, clock) = still();
    let kind = Kind::new("slow", {
        let began = began.clone();
        move |ctx: Ctx, (): ()| {
            let began = began.clone();
            async move {
                let body = || {
                    began.send();
                    std::future::pending::<Result<(), JobError>>()
                };
                ctx.step("hang", body).timeout(Duration::from_secs(5)).await
            }
        }
    });
    let engine = builder.register(kind.retry(Retry::NEVER)).start().await.unwrap();
    let job = engine.submit_raw("slow", &()).await.unwrap();
    began.wait().await;
    clock.advance(Duration::from_secs(5));
    let error = job.wait().await.unwrap().job.error.unwrap();
    assert_eq!(error.message, r#"step "hang" took longer than 5s"#);
}

/// Returns a kind that runs steps of these names and then fails while `broken`.
fn steps_of(names: &'static [&'static str], broken: bool, version: &str) -> Kind {
    Kind::new("report", move |ctx: Ctx, (): ()| async move {
        for name in names {
            ctx.step(*name, || async { Ok::<_, JobError>(name.len()) }).await?;
        }
        if broken {
            Err(JobError::fatal("the last line of the handler is wrong"))
        } else {
            Ok(names.len())
        }
    })
    .code_version(version)
}

async fn on_file(path: &std::path::Path, kind: Kind) -> Engine {
    Engine::builder().sqlite(path).register(kind).start().await.unwrap()
}

#[tokio::test]
async fn changed_code_fails_the_job_with_a_difference_and_the_old_code_continues_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");

    let engine = on_file(&path, steps_of(&["fetch", "parse"], true, "1.0")).await;
    let job = engine.submit_raw("report", &()).await.unwrap();
    let id = job.id();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Failed);
    engine.stop().await;
    drop((engine, job));

    let engine = on_file(&path, steps_of(&["fetch", "transform"], false, "2.0")).await;
    engine.resume(id).await.unwrap();
    let error = ended(&engine, id).await.job.error.unwrap();
    assert_eq!(error.code, "code-changed");
    insta::assert_snapshot!(error.message, @r"
    the code no longer asks for the steps that this job has finished (started by version 1.0, now 2.0):
        fetch
      - parse
      + transform
    Resume it with the code that started it, or fork it from the first step that differs.
    ");
    let fork = engine.fork(id, Some("parse")).await.unwrap();
    assert_eq!(ended(&engine, fork.id).await.job.status, Status::Completed);
    engine.stop().await;
    drop(engine);

    let engine = on_file(&path, steps_of(&["fetch", "parse"], false, "1.1")).await;
    engine.resume(id).await.unwrap();
    assert_eq!(ended(&engine, id).await.job.status, Status::Completed);
}

#[tokio::test]
async fn sleeping_job_holds_no_worker_and_costs_no_attempt() {
    let naps = Counter::default();
    let (builder, clock) = still();
    let engine = builder
        .concurrency(1)
        .kind("nap", {
            let naps = naps.clone();
            move |ctx: Ctx, (): ()| {
                let naps = naps.clone();
                async move {
                    ctx.step("before", || async { Ok::<_, JobError>(naps.up()) }).await?;
                    ctx.sleep("nap", Duration::from_hours(1)).await?;
                    Ok::<_, JobError>(ctx.attempt())
                }
            }
        })
        .kind("other", |_ctx: Ctx, (): ()| async { Ok::<_, JobError>(()) })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("nap", &()).await.unwrap();
    let mut watcher = job.watch();
    let mut seen = Vec::new();
    while seen.last() != Some(&Status::Pending) || seen.len() < 2 {
        seen.push(watcher.next().await.unwrap().unwrap().job.status);
    }
    engine.submit_raw("other", &()).await.unwrap().result_as::<()>().await.unwrap();
    clock.advance(Duration::from_hours(1));
    assert_eq!(job.result_as::<u32>().await.unwrap(), 1);
    assert_eq!(naps.get(), 1);
}

#[tokio::test]
async fn concurrent_steps_are_all_stored() {
    let runs = Counter::default();
    let (builder, _) = still();
    let kind = Kind::new("fan", {
        let runs = runs.clone();
        move |ctx: Ctx, (): ()| {
            let runs = runs.clone();
            async move {
                let count = || async { Ok::<_, JobError>(runs.up()) };
                let left = ctx.step("left", count);
                let right = ctx.step("right", count);
                let (left, right) = tokio::join!(left.into_future(), right.into_future());
                let sum = left? + right?;
                if ctx.attempt() == 1 { Err(JobError::retryable("again")) } else { Ok(sum) }
            }
        }
    });
    let engine = builder.register(kind.retry(at_once(2))).start().await.unwrap();
    let job = engine.submit_raw("fan", &()).await.unwrap();
    assert_eq!(job.result_as::<usize>().await.unwrap(), 3);
    assert_eq!(runs.get(), 2);
}

#[tokio::test]
async fn swallowed_step_error_of_changed_code_still_fails_the_job() {
    let (builder, _) = still();
    let engine = builder
        .kind("twice", |ctx: Ctx, (): ()| async move {
            let body = || async { Ok::<_, JobError>(()) };
            ctx.step("same", body).await?;
            ctx.step("same", body).await.ok();
            Ok::<_, JobError>(())
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("twice", &()).await.unwrap();
    assert_eq!(job.wait().await.unwrap().job.error.unwrap().code, "step-twice");
    until(&job, Status::Failed).await;
}

#[tokio::test]
async fn ignored_step_failure_does_not_affect_a_later_attempt() {
    let (builder, _) = still();
    let kind = Kind::new("tolerant", |ctx: Ctx, (): ()| async move {
        let optional = ctx.step("optional", || async {
            if ctx.attempt() == 1 {
                Err(JobError::retryable("not today"))
            } else {
                Ok("found".to_owned())
            }
        });
        let found = optional.await.unwrap_or_else(|_| "none".to_owned());
        if found == "none" {
            ctx.step("fallback", || async { Ok::<_, JobError>(()) }).await?;
        }
        ctx.step("next", || async { Ok::<_, JobError>(()) }).await?;
        if ctx.attempt() == 1 { Err(JobError::retryable("again")) } else { Ok(found) }
    });
    let engine = builder.register(kind.retry(at_once(2))).start().await.unwrap();
    let job = engine.submit_raw("tolerant", &()).await.unwrap();
    assert_eq!(job.result_as::<String>().await.unwrap(), "found");
}

#[tokio::test]
async fn sleep_that_lost_a_race_against_a_step_does_not_put_the_job_to_sleep() {
    let after = Counter::default();
    let (builder, _) = still();
    let kind = Kind::new("race", {
        let after = after.clone();
        move |ctx: Ctx, (): ()| {
            let after = after.clone();
            async move {
                let work = ctx.step("work", || async {
                    tokio::task::yield_now().await;
                    Ok::<_, JobError>(())
                });
                tokio::select! {
                    done = work.into_future() => done?,
                    slept = ctx.sleep("limit", Duration::from_hours(1)) => slept?,
                }
                ctx.step("after", || async {
                    tokio::task::yield_now().await;
                    Ok::<_, JobError>(after.up())
                })
                .await?;
                if ctx.attempt() == 1 { Err(JobError::retryable("again")) } else { Ok(()) }
            }
        }
    });
    let engine = builder.register(kind.retry(at_once(2))).start().await.unwrap();
    for _ in 0..20 {
        let job = engine.submit_raw("race", &()).await.unwrap();
        job.result_as::<()>().await.unwrap();
    }
    assert_eq!(after.get(), 20);
}

#[tokio::test]
async fn sleeping_branches_continue_with_the_earliest() {
    let (builder, clock) = still();
    let engine = builder
        .kind("branches", |ctx: Ctx, (): ()| async move {
            let short = ctx.sleep("short", Duration::from_mins(1));
            let long = ctx.sleep("long", Duration::from_hours(2));
            let (short, long) = tokio::join!(short, long);
            short.and(long)?;
            Ok::<_, JobError>(ctx.attempt())
        })
        .start()
        .await
        .unwrap();
    let job = engine.submit_raw("branches", &()).await.unwrap();
    let mut due = Vec::new();
    let mut watcher = job.watch();
    while let Some(record) = watcher.next().await {
        let job = record.unwrap().job;
        if job.status == Status::Pending && job.run_at > clock.now() {
            due.push(job.run_at.since(super::START));
            clock.advance(job.run_at.since(clock.now()));
        }
    }
    assert_eq!(due, [Duration::from_mins(1), Duration::from_hours(2)]);
    assert_eq!(job.result_as::<u32>().await.unwrap(), 1);
}

#[tokio::test]
async fn phase_over_the_limit_is_rejected() {
    let (builder, _) = still();
    let engine = builder
        .kind("wordy", |ctx: Ctx, (): ()| async move { ctx.phase("x".repeat(300)).await })
        .start()
        .await
        .unwrap();
    let error =
        engine.submit_raw("wordy", &()).await.unwrap().wait().await.unwrap().job.error.unwrap();
    assert_eq!(error.code, "limit");
    assert!(error.message.contains("phase_chars_max"), "{error}");
}

/// After a pause of the process, a handler may continue before the lease renewer has seen that its lease ran out.
#[tokio::test]
async fn step_does_not_start_after_the_lease_has_run_out() {
    let started_in = Arc::new(Mutex::new(Vec::new()));
    let (builder, clock) = still();
    let kind = Kind::new("paused", {
        let started_in = Arc::clone(&started_in);
        move |ctx: Ctx, (): ()| {
            let (started_in, clock) = (Arc::clone(&started_in), clock.clone());
            async move {
                if ctx.attempt() == 1 {
                    clock.advance(LEASE);
                }
                let attempt = ctx.attempt();
                ctx.step_value("only", async || started_in.lock().unwrap().push(attempt)).await
            }
        }
    });
    let engine = builder.lease(LEASE, LEASE / 3).register(kind).start().await.unwrap();
    let job = engine.submit_raw("paused", &()).await.unwrap();
    assert_eq!(ended(&engine, job.id()).await.job.status, Status::Completed);
    assert_eq!(*started_in.lock().unwrap(), [2]);
}

#[tokio::test]
async fn step_is_not_tried_again_after_the_lease_has_run_out() {
    let tried_in = Arc::new(Mutex::new(Vec::new()));
    let (builder, clock) = still();
    let kind = Kind::new("paused", {
        let tried_in = Arc::clone(&tried_in);
        move |ctx: Ctx, (): ()| {
            let (tried_in, clock) = (Arc::clone(&tried_in), clock.clone());
            async move {
                let attempt = ctx.attempt();
                ctx.step("only", || async {
                    tried_in.lock().unwrap().push(attempt);
                    if attempt == 1 {
                        clock.advance(LEASE);
                        return Err(JobError::retryable("line cut"));
                    }
                    Ok(())
                })
                .retry(at_once(3))
                .await
            }
        }
    });
    let engine = builder.lease(LEASE, LEASE / 3).register(kind).start().await.unwrap();
    let job = engine.submit_raw("paused", &()).await.unwrap();
    assert_eq!(ended(&engine, job.id()).await.job.status, Status::Completed);
    assert_eq!(*tried_in.lock().unwrap(), [1, 2]);
}
