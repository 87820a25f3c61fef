//! Two engines on one store, like two replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{
    Claim, ClaimResult, Heartbeat, KindCapacity, ReplicaStore as _, Store, StoreError,
    WorkerStore as _,
};
use longhaul::{
    BuildError, Clock, Ctx, Engine, EngineBuilder, JobError, JobId, Kind, Status, SubmitError,
    Watcher,
};

use super::{START, Signal, ended, until};
use crate::model_store::ModelStore;
use crate::shared_store::SharedStore;

const HURRIED: Duration = Duration::from_millis(50);
const USUAL: Duration = Duration::from_millis(200);

/// A store, its clock, and a connection for each of two replicas.
struct Two {
    clock: Clock,
    here: Arc<SharedStore>,
    there: Arc<SharedStore>,
}

impl Two {
    fn new() -> Self {
        let clock = Clock::manual(START);
        let store: Arc<dyn Store> = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
        Self { here: SharedStore::new(&store), there: SharedStore::new(&store), clock }
    }

    /// Returns the builder of a replica that runs no jobs.
    fn here(&self) -> EngineBuilder {
        self.builder(&self.here, "here").concurrency(0).role("api")
    }

    /// Returns the builder of a replica that runs jobs.
    fn there(&self) -> EngineBuilder {
        self.builder(&self.there, "there").role("worker")
    }

    fn builder(&self, store: &Arc<SharedStore>, name: &str) -> EngineBuilder {
        let store = Arc::clone(store) as Arc<dyn Store>;
        Engine::builder().store(store).clock(self.clock.clone()).replica(name)
    }

    /// Lets the change poller run once more.
    async fn look(&self, hinted: bool) {
        if hinted {
            self.clock.advance(HURRIED);
            self.here.hint_at_jobs();
        } else {
            self.clock.advance(HURRIED);
            // The previous poll ends with its minimum interval.
            tokio::task::yield_now().await;
            self.clock.advance(USUAL.saturating_sub(HURRIED));
        }
        self.here.glimpsed().await;
    }
}

/// Returns a kind that waits for a signal before each of its transitions.
fn paced(reached: &Signal, go: &Signal) -> Kind {
    let (reached, go) = (reached.clone(), go.clone());
    Kind::new("paced", move |ctx: Ctx, (): ()| {
        let (reached, go) = (reached.clone(), go.clone());
        async move {
            reached.send();
            go.wait().await;
            ctx.phase("reading").await?;
            reached.send();
            go.wait().await;
            Ok::<_, JobError>(42)
        }
    })
}

/// Returns a kind of ten steps, each of which waits for a signal.
fn ten_steps(reached: &Signal, go: &Signal) -> Kind {
    let (reached, go) = (reached.clone(), go.clone());
    Kind::new("ten-steps", move |ctx: Ctx, (): ()| {
        let (reached, go) = (reached.clone(), go.clone());
        async move {
            for number in 0..10 {
                ctx.step_value(format!("step-{number}"), || async {
                    reached.send();
                    go.wait().await;
                })
                .await?;
            }
            Ok::<_, JobError>(())
        }
    })
}

async fn next(watcher: &mut Watcher) -> (u64, Status) {
    let job = watcher.next().await.unwrap().unwrap().job;
    (job.version, job.status)
}

/// Watches a job that runs on the other replica, with polling only or with notifications.
async fn watched_from_here(hinted: bool) {
    let two = Two::new();
    let (reached, go) = (Signal::new(), Signal::new());
    let there = two.there().register(paced(&reached, &go)).start().await.unwrap();
    let here = two.here().start().await.unwrap();
    let id = here.submit_raw("paced", &()).await.unwrap().id();
    let mut watcher = here.watch(id, Some(0));
    assert_eq!(next(&mut watcher).await, (1, Status::Pending));
    two.here.glimpsed().await;

    two.there.hint_at_line();
    reached.wait().await;
    two.look(hinted).await;
    assert_eq!(next(&mut watcher).await, (2, Status::Running));

    go.send();
    reached.wait().await;
    two.look(hinted).await;
    assert_eq!(next(&mut watcher).await, (3, Status::Running));

    go.send();
    ended(&there, id).await;
    two.look(hinted).await;
    assert_eq!(next(&mut watcher).await, (4, Status::Completed));
    assert!(watcher.next().await.is_none());
}

#[tokio::test]
async fn watcher_sees_every_transition_on_another_replica_with_notifications() {
    watched_from_here(true).await;
}

#[tokio::test]
async fn watcher_sees_every_transition_on_another_replica_by_polling() {
    watched_from_here(false).await;
}

#[tokio::test]
async fn waiting_caller_sees_a_job_end_on_another_replica() {
    let two = Two::new();
    let there = two.there().register(super::echo()).start().await.unwrap();
    let here = two.here().start().await.unwrap();
    let job = here.submit_raw("echo", "a").await.unwrap();
    let waiting = tokio::spawn({
        let job = job.clone();
        async move { job.result_as::<String>().await }
    });
    two.here.glimpsed().await;
    two.there.hint_at_line();
    ended(&there, job.id()).await;
    two.look(true).await;
    assert_eq!(waiting.await.unwrap().unwrap(), "a");
}

/// Lets all tasks run until they wait.
async fn settle_down() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn change_poller_is_idle_without_watchers() {
    let two = Two::new();
    let here = two.here().start().await.unwrap();
    let watcher = here.watch(JobId::from_parts(START, 7), None);
    two.here.glimpsed().await;
    drop(watcher);
    for _ in 0..5 {
        two.clock.advance(USUAL);
        two.here.hint_at_jobs();
        settle_down().await;
    }
    assert_eq!(two.here.glimpses.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn change_poller_backs_off_while_the_store_fails_and_recovers() {
    let two = Two::new();
    let here = two.here().start().await.unwrap();
    two.here.away.store(true, Ordering::SeqCst);
    let _watcher = here.watch(JobId::from_parts(START, 7), None);
    two.here.glimpsed().await;
    for (failures, pause) in [(1, 1), (2, 2), (3, 4)] {
        // Regardless of the number of notifications.
        two.clock.advance(Duration::from_secs(pause).saturating_sub(Duration::from_millis(1)));
        two.here.hint_at_jobs();
        settle_down().await;
        assert_eq!(two.here.glimpses.load(Ordering::SeqCst), failures);
        two.clock.advance(Duration::from_millis(1));
        two.here.glimpsed().await;
    }
    two.here.away.store(false, Ordering::SeqCst);
    two.clock.advance(Duration::from_secs(8));
    two.here.glimpsed().await;
    two.look(true).await;
}

#[tokio::test]
async fn kind_that_another_replica_declares_is_accepted_with_default_settings() {
    let two = Two::new();
    let there = two.there().register(super::echo()).start().await.unwrap();
    let draw = Kind::new("draw", |_: Ctx, (): ()| async { Ok::<_, JobError>(()) });
    let here = two.here().register(draw).start().await.unwrap();
    let job = here.submit_raw("echo", "a").await.unwrap().submitted().job.clone();
    assert_eq!((job.queue.as_str(), job.max_attempts), ("default", 3));
    let refused = here.submit_raw("paint", "a").await.unwrap_err();
    assert_eq!(refused.to_string(), r#"unknown kind "paint"; known kinds: draw, echo"#);
    let known = here.all_kinds().await.unwrap();
    assert_eq!(known.iter().map(Kind::name).collect::<Vec<_>>(), ["draw", "echo"]);

    // Submissions are accepted while all workers are replaced.
    there.stop().await;
    two.clock.advance(Duration::from_secs(5));
    here.submit_raw("echo", "a").await.unwrap();
}

#[tokio::test]
async fn kind_is_not_reported_unknown_while_the_store_is_unavailable() {
    let two = Two::new();
    let here = two.here().start().await.unwrap();
    two.here.away.store(true, Ordering::SeqCst);
    let error = here.submit_raw("echo", "a").await.unwrap_err();
    assert!(matches!(error, SubmitError::Store(StoreError::Unavailable(_))), "{error}");
}

#[tokio::test]
async fn replicas_are_listed_from_start_to_stop() {
    let two = Two::new();
    let (reached, go) = (Signal::new(), Signal::new());
    let kind = paced(&reached, &go);
    let there = two.there().concurrency(3).register(kind).start().await.unwrap();
    let here = two.here().start().await.unwrap();
    let shown = async |engine: &Engine| -> Vec<String> {
        let replicas = engine.replicas().await.unwrap();
        let line = |known: &longhaul::store::ReplicaState| {
            let beat = &known.heartbeat;
            let kinds: Vec<&str> = beat.kinds.iter().map(longhaul::job::Name::as_str).collect();
            format!(
                "{} {} {:?} {}/{}",
                beat.replica, beat.role, kinds, beat.running, beat.concurrency
            )
        };
        assert!(
            replicas.iter().all(|known| known.alive && known.heartbeat.pid == std::process::id())
        );
        replicas.iter().map(line).collect()
    };
    assert_eq!(shown(&here).await, ["here api [] 0/0", r#"there worker ["paced"] 0/3"#]);
    there.submit_raw("paced", &()).await.unwrap();
    reached.wait().await;
    two.clock.advance(Duration::from_secs(5));
    while shown(&here).await[1] != r#"there worker ["paced"] 1/3"# {
        tokio::task::yield_now().await;
    }
    go.send();
    go.send();
    there.stop().await;
    assert_eq!(shown(&here).await, ["here api [] 0/0"]);
}

#[tokio::test]
async fn replica_name_of_a_live_process_is_rejected() {
    let two = Two::new();
    let first = two.builder(&two.here, "twin").start().await.unwrap();
    let refused = two.builder(&two.there, "twin").start().await.unwrap_err();
    assert!(refused.to_string().starts_with(r#"another replica with the name "twin" is running"#));
    let BuildError::NameTaken { holder: Some(holder), .. } = refused else { panic!("{refused}") };
    assert_eq!(holder.heartbeat.pid, std::process::id());
    first.stop().await;
    two.builder(&two.there, "twin").start().await.unwrap();
}

/// The clock stands still, so that neither the heartbeat of the ended process nor its lease runs out.
#[tokio::test]
async fn name_and_jobs_of_an_ended_process_are_taken_over_at_once() {
    let two = Two::new();
    let here = two.here().register(super::echo()).start().await.unwrap();
    let mut heartbeat = here.replicas().await.unwrap().remove(0).heartbeat;
    // No process can have this id.
    (heartbeat.run, heartbeat.pid) = (1, u32::try_from(i32::MAX).unwrap());
    heartbeat.replica = "again".to_owned();
    two.there.heartbeat(&heartbeat).await.unwrap();
    let job = here.submit_raw("echo", "a").await.unwrap();
    let want = Claim {
        replica: "again".to_owned(),
        limit: 1,
        lease: Duration::from_hours(1),
        kinds: vec![KindCapacity {
            kind: job.submitted().job.kind.clone(),
            capacity: 1,
            code_version: None,
        }],
        limits: Arc::default(),
        queue_capacity: None,
    };
    assert_eq!(two.there.claim(&want).await.unwrap().leases.len(), 1);

    let again = two.builder(&two.there, "again").register(super::echo()).start().await.unwrap();
    let record = ended(&again, job.id()).await;
    assert_eq!((record.job.status, record.job.attempt), (Status::Completed, 2));
}

/// No notification arrives, as behind a pooler, and the clock stands still, so that no lease is renewed.
#[tokio::test]
async fn job_cancelled_on_another_replica_starts_no_step_after_the_one_under_way() {
    let two = Two::new();
    let (reached, go) = (Signal::new(), Signal::new());
    let there = two.there().register(ten_steps(&reached, &go)).start().await.unwrap();
    let here = two.here().start().await.unwrap();
    let job = here.submit_raw("ten-steps", &()).await.unwrap();
    two.there.hint_at_line();
    for _ in 0..2 {
        reached.wait().await;
        go.send();
    }
    reached.wait().await;
    assert_eq!(job.cancel().await.unwrap().status, Status::Running);
    for _ in 0..10 {
        go.send();
    }
    assert_eq!(ended(&there, job.id()).await.job.status, Status::Cancelled);
    assert_eq!(here.steps(job.id()).await.unwrap().len(), 3, "with the step under way");
    assert!(!reached.is_sent(), "no further step started");
}

#[tokio::test]
async fn notification_of_a_cancellation_ends_the_step_under_way_of_that_job_only() {
    let two = Two::new();
    let (reached, go) = (Signal::new(), Signal::new());
    let there = two.there().register(ten_steps(&reached, &go)).start().await.unwrap();
    let here = two.here().start().await.unwrap();
    let job = here.submit_raw("ten-steps", &()).await.unwrap();
    let other = here.submit_raw("ten-steps", &()).await.unwrap();
    two.there.hint_at_line();
    for _ in 0..2 {
        reached.wait().await;
    }
    job.cancel().await.unwrap();
    two.there.hint_at_cancellations();
    assert_eq!(ended(&there, job.id()).await.job.status, Status::Cancelled);
    assert!(here.steps(job.id()).await.unwrap().is_empty());

    for _ in 0..10 {
        go.send();
    }
    assert_eq!(ended(&there, other.id()).await.job.status, Status::Completed);
}

/// A store whose claims wait for a signal before they reach the queue.
struct SlowClaims {
    inner: Arc<SharedStore>,
    sent: Signal,
    go: Signal,
}

impl SlowClaims {
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        self.sent.send();
        self.go.wait().await;
        self.inner.claim(want).await
    }
}

longhaul::delegate_store!(impl for SlowClaims, to [inner], except claim);

#[tokio::test]
async fn job_cancelled_and_resumed_during_a_claim_is_not_cancelled_again() {
    let two = Two::new();
    let there = two
        .there()
        .kind("patient", |ctx: Ctx, (): ()| async move {
            ctx.cancelled().await;
            Err::<(), _>(JobError::retryable("cancelled"))
        })
        .start()
        .await
        .unwrap();
    let inner = Arc::clone(&two.here);
    let slow = Arc::new(SlowClaims { inner, sent: Signal::new(), go: Signal::new() });
    let here = Engine::builder()
        .store(Arc::clone(&slow) as Arc<dyn Store>)
        .clock(two.clock.clone())
        .replica("here")
        .kind("patient", |ctx: Ctx, (): ()| async move { ctx.step_value("only", async || 1).await })
        .start()
        .await
        .unwrap();
    slow.sent.wait().await;
    let job = there.submit_raw("patient", &()).await.unwrap();
    until(&job, Status::Running).await;

    // Here, the claim that is under way may have taken the job.
    here.cancel(job.id()).await.unwrap();
    two.there.hint_at_cancellations();
    assert_eq!(ended(&there, job.id()).await.job.status, Status::Cancelled);
    there.stop().await;
    here.resume(job.id()).await.unwrap();
    slow.go.send();
    let record = ended(&here, job.id()).await;
    assert_eq!(record.job.status, Status::Completed, "{:?}", record.job.error);
}

/// A store with every second heartbeat over a connection that is dead without a word.
struct SilentHeartbeats {
    inner: ModelStore,
    sent: AtomicUsize,
}

impl SilentHeartbeats {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        if self.sent.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            return std::future::pending().await;
        }
        self.inner.heartbeat(heartbeat).await
    }
}

longhaul::delegate_store!(impl for SilentHeartbeats, to [inner], except heartbeat);

#[tokio::test(start_paused = true)]
async fn silent_heartbeat_is_given_up_and_sent_again() {
    let clock = Clock::virtual_time(START);
    let inner = ModelStore::new(clock.clone());
    let store = Arc::new(SilentHeartbeats { inner, sent: AtomicUsize::new(0) });
    let builder = Engine::builder().store(Arc::clone(&store) as _).clock(clock.clone());
    let engine = builder.start().await.unwrap();
    clock.sleep_until(START.after(Duration::from_secs(12))).await;
    for _ in 0..60 {
        assert!(engine.replicas().await.unwrap().iter().any(|known| known.alive));
        clock.sleep(Duration::from_secs(1)).await;
    }
    engine.stop().await;
}
