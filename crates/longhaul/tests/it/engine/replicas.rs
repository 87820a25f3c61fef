//! Two engines on one store, like two replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{Store, StoreError};
use longhaul::{
    BuildError, Clock, Ctx, Engine, EngineBuilder, JobError, JobId, Kind, Status, SubmitError,
    Watcher,
};

use super::{START, Signal, ended};
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
