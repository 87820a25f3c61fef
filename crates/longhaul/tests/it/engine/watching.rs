use std::sync::Arc;
use std::time::Duration;

use longhaul::store::Store;
use longhaul::store::sqlite::SqliteStore;
use longhaul::{Clock, Ctx, Engine, Job, JobError, JobHandle, Kind, Status};

use super::{START, Signal, at_once, echo, still};

fn seen(job: &Job) -> (u64, Status, u32, Option<String>) {
    (job.version, job.status, job.attempt, job.phase.clone())
}

#[tokio::test]
async fn watcher_sees_every_transition_once_and_in_order_after_reconnecting() {
    let go = Signal::new();
    let (builder, _) = still();
    let kind = Kind::new("work", {
        let go = go.clone();
        move |ctx: Ctx, (): ()| {
            let go = go.clone();
            async move {
                go.wait().await;
                if ctx.attempt() == 1 {
                    return Err(JobError::retryable("once more"));
                }
                ctx.phase("writing").await?;
                Ok(42)
            }
        }
    });
    let engine = builder.register(kind.retry(at_once(2))).start().await.unwrap();
    let job = engine.submit_raw("work", &()).await.unwrap();
    let mut live = job.watch();
    let mut events = Vec::new();
    while let Some(record) = live.next().await {
        let record = record.unwrap();
        events.push(seen(&record.job));
        assert_eq!(record.result.is_some(), record.job.status == Status::Completed);
        if record.job.status == Status::Running && record.job.phase.is_none() {
            go.send();
        }
    }
    let versions: Vec<u64> = events.iter().map(|event| event.0).collect();
    assert!(versions.is_sorted_by(|one, next| one < next), "{events:?}");
    assert_eq!(events.last().unwrap().1, Status::Completed);

    // A watcher that reconnects gets exactly the transitions since then.
    let mut whole = engine.watch(job.id(), Some(0));
    let mut replayed = Vec::new();
    while let Some(record) = whole.next().await {
        replayed.push(seen(&record.unwrap().job));
    }
    let expected = [
        (1, Status::Pending, 0, None),
        (2, Status::Running, 1, None),
        (3, Status::Pending, 1, None),
        (4, Status::Running, 2, None),
        (5, Status::Running, 2, Some("writing".to_owned())),
        (6, Status::Completed, 2, None),
    ];
    assert_eq!(replayed, expected);
    for since in 1..=6 {
        let mut rest = engine.watch(job.id(), Some(since));
        for event in &expected[usize::try_from(since).unwrap()..] {
            assert_eq!(&seen(&rest.next().await.unwrap().unwrap().job), event);
        }
        assert!(rest.next().await.is_none());
    }
}

#[tokio::test]
async fn watching_an_unknown_job_returns_an_error_and_ends() {
    let (builder, _) = still();
    let engine = builder.start().await.unwrap();
    let id = longhaul::JobId::from_parts(START, 7);
    let mut watcher = engine.watch(id, None);
    assert_eq!(watcher.next().await, Some(Err(longhaul::store::StoreError::NotFound)));
    assert_eq!(watcher.next().await, None);
}

/// Two engines on one store without notifications: neither learns at once what the other one changes.
async fn unshared() -> (Engine, Engine, Clock) {
    let clock = Clock::manual(START);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
    let start = |name: &str| {
        let builder = Engine::builder().store(Arc::clone(&store)).clock(clock.clone());
        builder.replica(name).concurrency(0).register(echo()).start()
    };
    (start("here").await.unwrap(), start("there").await.unwrap(), clock)
}

/// Asserts that a watcher and a waiting caller see a cancellation without a notification.
async fn sees_a_cancellation(here: &Engine, job: &JobHandle, there: &Engine, clock: &Clock) {
    let mut watcher = here.watch(job.id(), Some(1));
    let waiting = job.clone();
    let seen = tokio::spawn(async move {
        let record = watcher.next().await.unwrap().unwrap();
        (record.job.status, waiting.wait().await.unwrap().job.status)
    });
    tokio::task::yield_now().await;
    there.cancel(job.id()).await.unwrap();
    while !seen.is_finished() {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(seen.await.unwrap(), (Status::Cancelled, Status::Cancelled));
}

#[tokio::test]
async fn watcher_sees_a_change_of_an_unshared_store_without_a_notification() {
    let (here, there, clock) = unshared().await;
    let job = here.submit_raw("echo", "a").await.unwrap();
    sees_a_cancellation(&here, &job, &there, &clock).await;
}

#[tokio::test]
async fn watcher_of_a_stopped_engine_sees_changes() {
    let (here, there, clock) = unshared().await;
    let job = here.submit_raw("echo", "a").await.unwrap();
    here.stop().await;
    sees_a_cancellation(&here, &job, &there, &clock).await;
}
