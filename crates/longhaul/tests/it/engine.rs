//! The engine through its public API, with an in-memory store and a manual clock.

mod cancelling;
mod failing;
mod flow;
mod hand_off;
mod lists;
mod outages;
mod payloads;
mod pending;
mod replicas;
mod running;
mod steps;
mod stopping;
mod submitting;
mod typed;
mod watching;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::job::Record;
use longhaul::{
    Clock, Ctx, Engine, EngineBuilder, JobError, JobHandle, JobId, Kind, Retry, Status, Timestamp,
};
use tokio::sync::Semaphore;

/// An arbitrary instant.
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Returns a builder with an in-memory store and a manual clock.
fn still() -> (EngineBuilder, Clock) {
    let clock = Clock::manual(START);
    (Engine::builder().memory().clock(clock.clone()), clock)
}

/// Returns a policy without delays.
fn at_once(max_attempts: u32) -> Retry {
    Retry::times(max_attempts).first(Duration::ZERO)
}

#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    fn up(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Counts events that a test can wait for.
#[derive(Clone)]
struct Signal(Arc<Semaphore>);

impl Signal {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    fn send(&self) {
        self.0.add_permits(1);
    }

    async fn wait(&self) {
        self.0.acquire().await.unwrap().forget();
    }

    /// Returns true if an event is left to wait for.
    fn is_sent(&self) -> bool {
        self.0.available_permits() > 0
    }
}

/// Returns a kind that signals its start and returns "done" when released.
fn gated(name: &str, began: &Signal, go: &Signal) -> Kind {
    let (began, go) = (began.clone(), go.clone());
    Kind::new(name, move |_ctx: Ctx, (): ()| {
        let (began, go) = (began.clone(), go.clone());
        async move {
            began.send();
            go.wait().await;
            Ok::<_, JobError>("done")
        }
    })
}

/// Returns a kind that returns its input.
fn echo() -> Kind {
    Kind::new("echo", |_ctx: Ctx, text: String| async move { Ok::<_, JobError>(text) })
}

/// Waits until the job has ended.
async fn ended(engine: &Engine, id: JobId) -> Record {
    let mut watcher = engine.watch(id, None);
    let mut last = None;
    while let Some(record) = watcher.next().await {
        last = Some(record.unwrap());
    }
    last.unwrap()
}

/// Waits until the job has this status.
async fn until(job: &JobHandle, status: Status) {
    let mut watcher = job.watch();
    while let Some(record) = watcher.next().await {
        if record.unwrap().job.status == status {
            return;
        }
    }
    panic!("the job ended without ever being {status}");
}
