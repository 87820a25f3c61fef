use longhaul::{Ctx, Job, JobError, Kind, Status};

use super::{Signal, at_once, still};

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
    let id = longhaul::JobId::from_parts(super::START, 7);
    let mut watcher = engine.watch(id, None);
    assert_eq!(watcher.next().await, Some(Err(longhaul::store::StoreError::NotFound)));
    assert_eq!(watcher.next().await, None);
}
