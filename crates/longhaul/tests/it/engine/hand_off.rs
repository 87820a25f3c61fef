//! Jobs that start in the transaction of their submission.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{Claim, ClaimResult, Filter, Lease, NewJob, PageRequest};
use longhaul::store::{Store, StoreError, SubmitResult, WorkerStore as _};
use longhaul::{Clock, Engine, Kind, Status, Timestamp};

use super::{START, Signal, ended, gated};

/// Counts the leases of submissions and of claims.
struct CountingStore {
    inner: SqliteStore,
    handed_off: AtomicUsize,
    claimed: AtomicUsize,
    /// If true, submissions wait for `go` after they are stored.
    is_slow: AtomicBool,
    stored: Signal,
    go: Signal,
    /// Sent after each claim that left slots free.
    idle: Signal,
}

impl CountingStore {
    fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            inner: SqliteStore::memory(clock).unwrap(),
            handed_off: AtomicUsize::new(0),
            claimed: AtomicUsize::new(0),
            is_slow: AtomicBool::new(false),
            stored: Signal::new(),
            go: Signal::new(),
            idle: Signal::new(),
        })
    }

    fn counts(&self) -> (usize, usize) {
        (self.handed_off.load(Ordering::SeqCst), self.claimed.load(Ordering::SeqCst))
    }

    async fn submit_and_claim(
        &self,
        job: NewJob,
        want: &Claim,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError> {
        let handed_off = self.inner.submit_and_claim(job, want).await?;
        self.handed_off.fetch_add(usize::from(handed_off.1.is_some()), Ordering::SeqCst);
        if self.is_slow.load(Ordering::SeqCst) {
            self.stored.send();
            self.go.wait().await;
        }
        Ok(handed_off)
    }

    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let claimed = self.inner.claim(want).await?;
        self.claimed.fetch_add(claimed.leases.len(), Ordering::SeqCst);
        Ok(claimed)
    }

    async fn next_due_at(&self, since: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        self.idle.send();
        self.inner.next_due_at(since).await
    }
}

longhaul::delegate_store!(impl for CountingStore, to [inner], except submit_and_claim claim next_due_at);

/// Starts an engine and waits until its claim loop is idle.
async fn engine(kind: Kind, concurrency: usize) -> (Engine, Arc<CountingStore>) {
    let clock = Clock::manual(START);
    let store = CountingStore::new(clock.clone());
    let builder = Engine::builder().store(Arc::clone(&store) as Arc<dyn Store>).clock(clock);
    let engine = builder.concurrency(concurrency).register(kind).start().await.unwrap();
    // The first claim has returned its slots.
    store.idle.wait().await;
    (engine, store)
}

#[tokio::test]
async fn lone_job_starts_without_a_claim() {
    let (began, go) = (Signal::new(), Signal::new());
    let (engine, store) = engine(gated("job", &began, &go), 2).await;
    let job = engine.submit_raw("job", &()).await.unwrap();
    began.wait().await;
    go.send();
    assert_eq!(job.wait().await.unwrap().job.status, Status::Completed);
    assert_eq!(store.counts(), (1, 0));
}

#[tokio::test]
async fn job_for_a_full_replica_is_claimed_when_a_slot_is_free() {
    let (began, go) = (Signal::new(), Signal::new());
    let (engine, store) = engine(gated("job", &began, &go), 1).await;
    engine.submit_raw("job", &()).await.unwrap();
    began.wait().await;
    let second = engine.submit_raw("job", &()).await.unwrap();
    assert_eq!(second.record().await.unwrap().job.status, Status::Pending);
    go.send();
    began.wait().await;
    go.send();
    assert_eq!(second.wait().await.unwrap().job.status, Status::Completed);
    assert_eq!(store.counts(), (1, 1));
}

#[tokio::test]
async fn job_starts_although_its_caller_stopped_waiting() {
    let (began, go) = (Signal::new(), Signal::new());
    let (engine, store) = engine(gated("job", &began, &go), 1).await;
    store.is_slow.store(true, Ordering::SeqCst);
    let submitting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.submit_raw("job", &()).await }
    });
    store.stored.wait().await;
    submitting.abort();
    assert!(submitting.await.unwrap_err().is_cancelled());
    store.go.send();
    began.wait().await;
    go.send();
    let page = PageRequest::new(2, None);
    let jobs = engine.jobs_page(&Filter::default(), &page).await.unwrap().jobs;
    assert_eq!(ended(&engine, jobs[0].id).await.job.status, Status::Completed);
    assert_eq!(store.counts(), (1, 0));
}
